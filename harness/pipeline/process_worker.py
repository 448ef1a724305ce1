"""The process of one rollout (`--isolate process`), forked from the server that has the agent loaded.

It ends with the server, and tells the run what it learns, what its model calls are about to do, and the record.
"""

import asyncio
import ctypes
import os
import pickle  # noqa: TID251 - between processes of one run; nothing of it is kept
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

import anyio
from agents.tracing import get_trace_provider

from harness.archive.checkpoints import KeptOutput, KeptReply
from harness.archive.store import MemoryStore
from harness.core.errors import HarnessError, on_a_line, option
from harness.core.progress import Deadline
from harness.core.records import Failure, ModelCall, Rollout, Step
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.endpoints.refused_settings import SettingLesson
from harness.pipeline import workers
from harness.pipeline.engines import open_run_context
from harness.pipeline.process_gate import GateElsewhere, GatesElsewhere
from harness.pipeline.resolve import AgentSpec, make_redactor
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.attempt import Attempt
from harness.rollouts.maker import BegunRollout, RolloutsHere
from harness.rollouts.run_context import RunContext

CALLERS_FOLDER = "HARNESS_STARTED_IN"
"""The environment variable that tells an agent where the command was typed: a rollout's own folder is empty."""
_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True)
class ProcessJob:
    """What the server needs to know of a run."""

    run_id: str
    settings: Settings
    spec: AgentSpec
    """What is loaded stands in it by its word alone."""
    environ: Mapping[str, str] = field(repr=False)
    deadline: Deadline
    folder: Path
    """Each rollout has a folder in it."""

    def resolved(self) -> AgentSpec:
        """Load the agent. Raises UsageError."""
        named = self.spec.loaded
        loaded = workers.AgentPlace(named.name, named.word or "", named.here).load()
        return replace(self.spec, loaded=replace(loaded, instructions=named.instructions, shared_mcp=False))


@dataclass(frozen=True)
class MadeSoFar:
    """The calls so far from the `first` on: they stand in the record if the process ends before it can tell more."""

    first: int
    calls: tuple[ModelCall, ...]


@dataclass(frozen=True)
class KeptOnTheWay:
    """What a rollout under way has had, with the texts that the record names."""

    record: KeptReply | KeptOutput
    texts: Mapping[str, str]


@dataclass(frozen=True)
class WrittenPath:
    """A rollout opens a path for writing that is not in its own folders."""

    path: str
    rollout: str


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


MB = 1 << 20


def limit_memory(megabytes: int | None) -> None:
    """Limit the memory of this process, where there is a limit."""
    if megabytes is not None:
        with suppress(ValueError):  # more than this user may have: the lower limit holds
            resource.setrlimit(resource.RLIMIT_DATA, (megabytes * MB, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def folders(folder: Path) -> tuple[Path, Path]:
    """Return a rollout's working folder and its temporary folder."""
    return folder / "work", folder / "tmp"


def end_group(pid: int) -> None:
    """End a process that leads a group, and all processes of the group."""
    with suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(pid, signal.SIGKILL)


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def be_rollout(job: ProcessJob, spec: AgentSpec, number: int, line: socket.socket, server: int) -> NoReturn:
    """Make rollouts in this process, which has just been forked, and end the process."""
    code = 1
    try:
        os.setsid()
        if sys.platform == "linux":
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it ended before
            return os._exit(code)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        work, temporary = folders(job.folder / str(number))
        for folder in (work, temporary):
            folder.mkdir(parents=True, exist_ok=True)
        os.environ |= {CALLERS_FOLDER: str(job.spec.loaded.here or Path.cwd()), "TMPDIR": str(temporary)}
        tempfile.tempdir = str(temporary)
        os.chdir(work)
        limit_memory(job.settings.memory)
        if numpy := sys.modules.get("numpy.random"):  # Python's own `random` is seeded anew in each process
            numpy.seed()
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_Rollouts(job, spec, line).make())
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


class _Told(workers.AnsweredFirst):
    """Tells the run what the replies so far cost, as each comes in."""

    def begin(self, attempt: Attempt) -> None:
        self._attempt, self._over = attempt, 0

    def reply(self) -> None:
        super().reply()
        calls = self._attempt.calls_from(self._over)
        told = tuple(call.model_copy(update={"raw": None, "within_raw": None}) for call in calls)
        self._post(MadeSoFar(self._over, told))
        made = self._attempt.recorder.calls[self._over :]
        self._over += sum(1 for _ in takewhile(lambda call: call.response or call.error, made))


def _note_lost_files(here: Path, note: Callable[[str], None]) -> None:
    """Note each file of `here`, where the command was typed, that code looks for in the rollout's own folder."""

    def look(event: str, args: tuple[Any, ...]) -> None:
        if event not in {"open", "sqlite3.connect"} or not isinstance(args[0], str):
            return
        path = Path(args[0])
        if not (path.is_absolute() or path.exists()) and (here / path).is_file():
            where = "the working folder, which is each rollout's own"
            note(f"{on_a_line(args[0])} is in {here}, and is looked for in {where}: name it by ${CALLERS_FOLDER}")

    sys.addaudithook(look)


class _ToldStore(MemoryStore):
    """Tells the run what the rollout has had, as it comes."""

    keeps_checkpoints = True

    def __init__(self, redact: Redactor, tell: Callable[[object], None]) -> None:
        super().__init__(redact)
        self._tell, self._told = tell, set[str]()

    def add_checkpoint(self, record: KeptReply | KeptOutput) -> bool:
        """Have the run keep it; return whether it is kept just as it is."""
        if self.redact.record(record) != record:
            return False
        texts = {name: text for name, text in self.blobs.items() if name not in self._told}
        self._told |= texts.keys()
        self._tell(KeptOnTheWay(record, texts))
        return True


class _Rollouts:
    """The rollouts of this process: one, or one after another where the agent's file allows that."""

    def __init__(self, job: ProcessJob, spec: AgentSpec, line: socket.socket) -> None:
        self._job, self._spec, self._line, self._work = job, spec, line, Path.cwd()
        self._pid, self._lock, self._unpacker = os.getpid(), threading.Lock(), Unpacker()
        self._progress = workers.PassedOn(self._tell)
        self._gates = GatesElsewhere(self._progress, self._tell)
        self._orders = asyncio.Queue[workers.RolloutOrder | None]()
        self._stop: StopRollout | None = None
        self._scope: anyio.CancelScope | None = None
        self._is_idle = True
        self._lessons: list[SettingLesson] = []
        self._opened, self._run_context = AsyncExitStack(), None

    def _tell(self, news: object) -> None:
        """Tell the run; any thread may."""
        if os.getpid() != self._pid:  # a tool forked, and the child came back
            os._exit(1)
        message = packed(news)
        with self._lock:
            self._line.sendall(message)

    def _read(self) -> None:
        data = self._line.recv(1 << 16, socket.MSG_DONTWAIT)
        if not data and not self._is_idle:  # the run has ended
            os.killpg(0, signal.SIGKILL)
        if not data:
            asyncio.get_running_loop().remove_reader(self._line)
            self._orders.put_nowait(None)
        for news in self._unpacker.feed(data):
            self._receive(news)

    def _receive(self, news: Any) -> None:
        match news:
            case workers.RolloutOrder():
                self._stop, self._is_idle = None, False
                self._orders.put_nowait(news)
            case StopRollout():
                self._stop = news
                if self._run_context:
                    self._run_context.models.state.gate.last_error = news.last_error
                if self._scope:
                    self._scope.cancel()
            case SettingLesson():
                self._lessons.append(news)
                if self._run_context:
                    self._run_context.models.state.refused.note(news)
            case _:
                self._gates.receive(news)

    async def make(self) -> None:
        """Make the rollouts that are ordered, and tell what became of each."""
        asyncio.get_running_loop().add_reader(self._line, self._read)
        while order := await self._orders.get():
            try:
                made: workers.MadeRollout | Failure = await self._made(order)
            except HarnessError as exc:
                made = workers.MadeRollout.refused(exc)
            except MemoryError:
                made = self._out_of_memory()
            except Exception:  # noqa: BLE001 - a fault of the harness's own ends the run, as in the run's process
                made = workers.MadeRollout(refusal=traceback.format_exc(), refused_by="RuntimeError")
            self._is_idle = True
            if not (isinstance(made, workers.MadeRollout) and made.goes_on):
                get_trace_provider().shutdown()  # as at the end of a run: the user's own processors send what they have
                return self._tell(made)
            get_trace_provider().force_flush()
            self._tell(made)
        await self._opened.aclose()
        return get_trace_provider().shutdown()

    async def _open(self, *, leads: bool) -> RunContext:
        job = self._job
        deadline = job.deadline if leads else replace(job.deadline, alone_s=0.0)
        run_env = RunEnvironment(job.environ, progress=self._progress, deadline=deadline)
        vars(run_env)["gates"] = self._gates
        store = _ToldStore(make_redactor(self._spec.loaded, job.settings, job.environ), self._tell)
        opening = open_run_context(self._spec, job.settings, store, run_env, run_id=job.run_id)
        run_context = await self._opened.enter_async_context(opening)
        run_context.models.state.refused.share = self._tell
        _note_lost_files(job.spec.loaded.here or Path(os.environ[CALLERS_FOLDER]), self._progress.note)

        def wrote(path: str, rollout: str) -> None:
            if not Path(path).is_relative_to(job.folder):
                self._tell(WrittenPath(path, rollout))

        return replace(run_context, on_write=wrote, own_state=_files_here)

    async def _made(self, order: workers.RolloutOrder) -> workers.MadeRollout:
        shared = self._run_context = self._run_context or await self._open(leads=order.leads)
        state = shared.models.state
        for lesson in (*order.refused, *self._lessons):
            state.refused.note(lesson)
        assert isinstance(state.gate, GateElsewhere), "the gates are elsewhere"  # noqa: S101 - for the type checker
        state.gate.answered |= order.answered
        store, done = _ToldStore(shared.store.redact, self._tell), dict[int, Rollout]()
        first_call = _Told(self._tell, order)

        def is_late() -> bool:
            return self._stop is not None and self._stop.late

        begun = BegunRollout(order.query, order.index, first_call, done, is_late, order.before, leads=order.leads)
        with anyio.CancelScope() as self._scope:
            if self._stop:
                self._scope.cancel()
            here = replace(shared, store=store)
            vars(here)["prices"] = shared.prices  # with what it has looked up
            await RolloutsHere(here, on_begin=first_call.begin).make(begun)
        rollout = self._within_limit(done.get(order.index))
        goes_on = self._spec.loaded.reuses_process and rollout is not None and rollout.status == "ok"
        if goes_on:
            os.chdir(self._work)
            for path in _files_here() or ():  # the next rollout of this process finds empty folders
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        else:
            await self._opened.aclose()
        return workers.MadeRollout(rollout, store.blobs, goes_on=goes_on)

    def _within_limit(self, rollout: Rollout | None) -> Rollout | None:
        """Let a rollout fail that met its limit on memory, also where the model was told of it as of any error."""
        if not (rollout and self._job.settings.memory):
            return rollout
        met = rollout.failure.type == MemoryError.__name__ if rollout.failure else _met_limit(rollout.trajectory.path)
        changes = {"status": "failed", "failure": self._out_of_memory(), "verified": None, "verify_error": None}
        return rollout.model_copy(update=changes) if met else rollout

    def _out_of_memory(self) -> Failure:
        with suppress(ValueError):  # what is left to do may take more
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        why = f"its process needed more memory than {option('memory', self._job.settings.memory)} allows"
        return Failure(kind="agent_code", type=MemoryError.__name__, message=why)


def _files_here() -> list[Path] | None:
    """Return what is in the rollout's own folders, which the next attempt will not have; None for nothing."""
    return [*Path().iterdir(), *Path(tempfile.gettempdir()).iterdir()] or None


def _met_limit(path: Sequence[Step]) -> bool:
    return any((step.error or "").startswith(MemoryError.__name__) or _met_limit(step.inner) for step in path)
