"""The processes of `--isolate process`: a server that has the agent loaded, and forks a process for each rollout.

The server has neither threads nor an event loop, so that a fork is whole. Both end with the run: the server when its
socket closes, the process of a rollout with the server.
"""

import asyncio
import ctypes
import os
import pickle  # noqa: TID251 - between processes of one run; nothing of it is kept
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import anyio
from agents.tracing import get_trace_provider

from harness.archive.store import MemoryStore
from harness.core.errors import HarnessError
from harness.core.progress import Deadline
from harness.core.records import Rollout
from harness.core.settings import Settings
from harness.endpoints.address import Endpoint
from harness.endpoints.refused_settings import SettingLesson
from harness.pipeline.engines import open_run_context
from harness.pipeline.process_gate import CallGoes, CallOver, GateElsewhere, GatesElsewhere
from harness.pipeline.resolve import AgentSpec, make_redactor
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.workers import AgentPlace, AnsweredFirst, MadeRollout, PassedOn, RolloutOrder
from harness.rollouts.maker import BegunRollout, RolloutsHere

CALLERS_FOLDER = "HARNESS_STARTED_IN"
"""The environment variable that tells an agent where the command was typed: a rollout's own folder is empty."""
REQUEST = struct.Struct("!cQ")
FORK, KILL = b"F", b"K"
"""What the server is asked, with the number of a rollout; the first comes with the rollout's socket."""
ENDED = struct.Struct("!Qi")
"""What the server tells: the rollout's number, and what `waitpid` says of its process."""
_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True)
class ProcessJob:
    """What the server needs to know of a run."""

    run_id: str
    settings: Settings
    agent: AgentPlace
    instructions: str | None
    endpoint: Endpoint | None
    offline: bool
    model: str | None
    environ: Mapping[str, str] = field(repr=False)
    deadline: Deadline
    folder: Path
    """Each rollout has a folder in it."""

    def resolved(self) -> AgentSpec:
        """Load the agent. Raises UsageError."""
        loaded = replace(self.agent.load(), instructions=self.instructions, shared_mcp=False)
        return AgentSpec(loaded, self.endpoint, self.offline, self.model)


@dataclass(frozen=True)
class ProcessOrder:
    """A rollout that a process is to make, and what it should know of the run."""

    order: RolloutOrder
    answered: bool
    """Whether the endpoint has answered in this run."""


@dataclass(frozen=True)
class StopRollout:
    """The rollout is to end now; `late` says that a deadline is why."""

    late: bool
    last_error: str | None
    """What became of the last call to the endpoint."""


def packed(message: object) -> bytes:
    """Return a message as it goes over a socket."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Unpacker:
    """Puts messages together from what a socket gives."""

    def __init__(self) -> None:
        """Begin without any."""
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the messages that are whole."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                return
            message = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            yield pickle.loads(message)  # noqa: S301 - from a process of ours, which runs the user's own agent


def serve_rollouts() -> None:
    """Load the agent, and fork until the socket closes, whose number is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)  # stdout is for results
    unpacker, jobs = Unpacker(), list[ProcessJob]()
    while not jobs:
        if not (data := control.recv(1 << 16)):
            return
        jobs += unpacker.feed(data)
    try:
        spec = jobs[0].resolved()
    except HarnessError as exc:
        control.sendall(packed(MadeRollout.refused(exc)))
        return
    control.sendall(packed(MadeRollout()))
    _Server(control, jobs[0], spec).serve()


def _wake(_number: int, _frame: object) -> None:
    """Let the file descriptor say that a process has ended."""


class _Server:
    def __init__(self, control: socket.socket, job: ProcessJob, spec: AgentSpec) -> None:
        self._control, self._job, self._spec = control, job, spec
        self._children: dict[int, int] = {}
        """The number of the rollout that a process makes."""

    def serve(self) -> None:
        """Fork when asked to, tell of each process that has ended, and end with the socket."""
        woken, wakes = socket.socketpair()
        for end in (woken, wakes):
            end.setblocking(False)  # noqa: FBT003 - its only parameter
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)
        try:
            while True:
                ready, _, _ = select.select([self._control, woken], [], [])
                if woken in ready:
                    woken.recv(1 << 12)
                    self._reap()
                if self._control in ready and not self._answer():
                    return
        finally:
            for pid in self._children:
                _end_group(pid)
            shutil.rmtree(self._job.folder, ignore_errors=True)

    def _answer(self) -> bool:
        request, sockets, _, _ = socket.recv_fds(self._control, REQUEST.size, 1)
        if len(request) < REQUEST.size:
            return False
        kind, number = REQUEST.unpack(request)
        if kind == KILL:
            for pid, of_rollout in self._children.items():
                if of_rollout == number:
                    _end_group(pid)
            return True
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._control.close()
            _be_rollout(self._job, self._spec, number, socket.socket(fileno=sockets[0]), server)
        os.close(sockets[0])
        self._children[pid] = number
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            number = self._children.pop(pid, None)
            if number is None:  # the agent's file started it, or it removed a folder
                continue
            _end_group(pid)  # what it has left running
            self._remove(self._job.folder / str(number))
            with suppress(OSError):  # the run has ended
                self._control.sendall(ENDED.pack(number, status))

    def _remove(self, folder: Path) -> None:
        try:
            for each in _folders(folder):
                each.rmdir()
            folder.rmdir()
        except OSError:  # not empty: that may take a while
            if os.fork() == 0:
                shutil.rmtree(folder, ignore_errors=True)
                os._exit(0)


def _folders(folder: Path) -> tuple[Path, Path]:
    """Return a rollout's working folder and its temporary folder."""
    return folder / "work", folder / "tmp"


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(pid, signal.SIGKILL)


_PR_SET_PDEATHSIG = 1


def _be_rollout(job: ProcessJob, spec: AgentSpec, number: int, line: socket.socket, server: int) -> NoReturn:
    """Make a rollout in this process, which has just been forked, and end the process."""
    code = 1
    try:
        os.setsid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it ended before
            return os._exit(code)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        work, temporary = _folders(job.folder / str(number))
        for folder in (work, temporary):
            folder.mkdir(parents=True, exist_ok=True)
        os.environ |= {CALLERS_FOLDER: str(job.agent.here or Path.cwd()), "TMPDIR": str(temporary)}
        tempfile.tempdir = str(temporary)
        os.chdir(work)
        if numpy := sys.modules.get("numpy.random"):  # Python's own `random` is seeded anew in each process
            numpy.seed()
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_Rollout(job, spec, line).make())
        code = 0
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 0 if exc.code is None else 1
    except BaseException:  # noqa: BLE001 - the run says that the process ended
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


class _Rollout:
    """The one rollout of this process."""

    def __init__(self, job: ProcessJob, spec: AgentSpec, line: socket.socket) -> None:
        self._job, self._spec, self._line = job, spec, line
        self._lock, self._unpacker = threading.Lock(), Unpacker()
        self._late = False
        self._early: list[Any] = []
        """What came before it was listened to."""
        self._receive: Callable[[Any], None] = self._early.append

    def _tell(self, news: object) -> None:
        """Tell the run; any thread may."""
        message = packed(news)
        with self._lock:
            self._line.sendall(message)

    def _read(self) -> None:
        data = self._line.recv(1 << 16, socket.MSG_DONTWAIT)
        if not data:  # the run has ended
            os.killpg(0, signal.SIGKILL)
        for news in self._unpacker.feed(data):
            self._receive(news)

    async def make(self) -> None:
        """Wait for the order, make the rollout, tell what became of it."""
        while not self._early and (data := self._line.recv(1 << 16)):
            self._early += self._unpacker.feed(data)
        asked: ProcessOrder = self._early.pop(0)
        asyncio.get_running_loop().add_reader(self._line, self._read)
        try:
            made = await self._made(asked)
        except HarnessError as exc:
            made = MadeRollout.refused(exc)
        except Exception:  # noqa: BLE001 - a fault of the harness's own ends the run, as in the run's process
            made = MadeRollout(refusal=traceback.format_exc(), refused_by="RuntimeError")
        get_trace_provider().shutdown()  # as at the end of a run: the user's own processors send what they have
        self._tell(made)

    async def _made(self, asked: ProcessOrder) -> MadeRollout:
        order, job, progress = asked.order, self._job, PassedOn(self._tell)
        deadline = job.deadline if order.leads else replace(job.deadline, alone_s=0.0)
        run_env = RunEnvironment(job.environ, progress=progress, deadline=deadline)
        vars(run_env)["gates"] = gates = GatesElsewhere(progress, self._tell)
        store, done = MemoryStore(make_redactor(self._spec.loaded, job.settings, job.environ)), dict[int, Rollout]()
        opening = open_run_context(self._spec, job.settings, store, run_env, run_id=job.run_id)
        async with opening as run_context:
            state = run_context.models.state
            for lesson in order.refused:
                state.refused.note(lesson)
            state.refused.share = self._tell
            assert isinstance(state.gate, GateElsewhere), "the gates are elsewhere"  # noqa: S101 - for the type checker
            state.gate.answered = asked.answered

            scope = anyio.CancelScope()

            def receive(news: Any) -> None:
                if isinstance(news, StopRollout):
                    self._late, state.gate.last_error = news.late, news.last_error
                    scope.cancel()
                elif isinstance(news, SettingLesson):
                    state.refused.note(news)
                elif isinstance(news, CallGoes | CallOver):
                    gates.receive(news)

            self._receive = receive
            for news in self._early:
                receive(news)
            first_call = AnsweredFirst(self._tell, order)
            begun = BegunRollout(order.query, order.index, first_call, done, lambda: self._late, leads=order.leads)
            with scope:
                await RolloutsHere(run_context).make(begun)
            return MadeRollout(done.get(order.index), store.blobs)
