"""Rollouts in processes of their own (`--isolate process`), seen from the process that judges and writes."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from harness.core.errors import UsageError, option
from harness.core.progress import Progress
from harness.core.records import Failure, ModelCall
from harness.endpoints.gate import Gate
from harness.endpoints.refused_settings import SettingLesson
from harness.pipeline import process_server
from harness.pipeline import process_worker as worker
from harness.pipeline.process_gate import CallEnded, CallLeft, CallsElsewhere, CallWaits, ReplyHeaders
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.workers import MadeRollout, News, Relay, WorkerNote
from harness.rollouts.lifecycle import REWARD_S
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.maker import BegunRollout, RolloutMaker, record_lost
from harness.rollouts.run_context import RunContext

_PARTING_S = 10.0
"""A rollout that is stopped has so long to come back with what it has done."""
_MOST = 1 << 16
_START = """import sys
sys.path[:] = sys.argv.pop().splitlines()
from harness.pipeline.process_server import serve_rollouts
serve_rollouts()"""


@asynccontextmanager
async def open_rollouts_in_processes(
    spec: AgentSpec, run_context: RunContext, run_env: RunEnvironment
) -> AsyncGenerator[RolloutMaker]:
    """Give what makes each rollout in a process of its own. Raises UsageError."""
    isolated = option("isolate", "process")
    if not hasattr(os, "fork"):
        raise UsageError(f"{isolated} needs a system that can fork a process, and this one cannot")
    if spec.servers:
        raise UsageError(
            f"{option('base_url')} names {len(spec.servers)} servers, and {isolated} takes one: put a router before "
            "them, or leave one of the two out"
        )
    loaded = spec.loaded
    if loaded.word is None:
        raise UsageError(f"{isolated}: agent {loaded.name!r} is an object, and a process has to load it: name its file")
    folder = Path(tempfile.mkdtemp(prefix="harness-"))
    by_word = LoadedAgent(
        loaded.name, None, instructions=loaded.instructions, word=loaded.word, here=loaded.here or Path.cwd()
    )
    of_job = run_context.run_id, run_context.settings, replace(spec, loaded=by_word)
    job = worker.ProcessJob(*of_job, dict(run_env.environ), run_context.deadline, folder)
    server = _Server(job)
    try:
        await server.start(run_context.progress)
        yield _RolloutsInProcesses(run_context, server, Relay(run_context.progress, run_env.gates, "processes"))
        await server.dismiss()
    finally:
        server.end()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


def _oom_kills() -> int:
    """Return how many processes the system has ended for want of memory; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text("utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


@dataclass(eq=False)
class _Process:
    """A process that makes rollouts, one at a time."""

    number: int
    line: socket.socket
    ended: "asyncio.Future[int | None]"
    """What `waitpid` says of it; None where the server ended itself."""
    unpacker: worker.Unpacker = field(default_factory=worker.Unpacker)
    _untold: bytearray = field(default_factory=bytearray)

    def tell(self, news: object) -> None:
        """Tell the process, once it has room; what is told to one that has ended is lost."""
        if self.line.fileno() >= 0:
            self._untold += worker.packed(news)
            self._send()

    def _send(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            del self._untold[: self.line.send(self._untold)]
        except BlockingIOError:
            pass
        except OSError:
            self._untold.clear()
        if self._untold:
            loop.add_writer(self.line, self._send)
        else:
            loop.remove_writer(self.line)

    def close(self) -> None:
        """Hang up: a process that is at work is killed, one that waits ends."""
        if self.line.fileno() >= 0:
            asyncio.get_running_loop().remove_writer(self.line)
            self.line.close()


@dataclass
class _Server:
    """The process that has the agent loaded, and forks."""

    job: worker.ProcessJob
    ended: dict[int, "asyncio.Future[int | None]"] = field(default_factory=dict[int, "asyncio.Future[int | None]"])
    """What `waitpid` says of the process of a rollout; None where the server ended itself."""
    oom_kills: int = field(default_factory=_oom_kills)
    """How many processes the system had ended for want of memory before."""
    idle: list[_Process] = field(default_factory=list[_Process])
    """Processes that have made a rollout and take another."""
    _numbers: "count[int]" = field(default_factory=count)

    async def start(self, progress: Progress) -> None:
        """Have the agent loaded. Raises UsageError where it cannot be."""
        self._loop = asyncio.get_running_loop()
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)  # noqa: FBT003 - its only parameter
        paths = map(os.path.abspath, sys.path)
        self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own module; it takes no time
            [sys.executable, "-P", "-c", _START, str(theirs.fileno()), "\n".join(paths)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the command alone, which stops the rollouts
        )
        theirs.close()
        unpacker, told = worker.Unpacker(), list[MadeRollout | WorkerNote]()
        with suppress(ConnectionError):
            await self._loop.sock_sendall(self._control, worker.packed(self.job))
            while not told and (data := await self._loop.sock_recv(self._control, _MOST)):
                told += unpacker.feed(data)
        if not told:
            raise UsageError(f"{option('isolate', 'process')}: the process that loads the agent ended while loading it")
        match told[0]:
            case WorkerNote(text):
                progress.note(text)
            case MadeRollout(refusal=None):
                pass
            case refused:
                raise refused.error
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        data = b""
        with suppress(ConnectionError):
            while more := await self._loop.sock_recv(self._control, _MOST):
                data += more
                while len(data) >= process_server.ENDED.size:
                    number, status = process_server.ENDED.unpack_from(data)
                    data = data[process_server.ENDED.size :]
                    if waiting := self.ended.pop(number, None):
                        waiting.set_result(status)
        for waiting in self.ended.values():
            waiting.set_result(None)
        self.ended.clear()

    def process(self) -> _Process:
        """Return a process that waits for a rollout to make: an idle one, or have one forked."""
        while self.idle:
            if not (idle := self.idle.pop()).ended.done():
                return idle
            idle.close()
        line, theirs = socket.socketpair()
        line.setblocking(False)  # noqa: FBT003 - its only parameter
        number = next(self._numbers)
        self.ended[number] = ended = self._loop.create_future()
        with theirs:
            if self._listening.done():
                self.ended.pop(number).set_result(None)
            else:
                request = process_server.REQUEST.pack(process_server.FORK, number)
                socket.send_fds(self._control, [request], [theirs.fileno()])
        return _Process(number, line, ended)

    async def dismiss(self) -> None:
        """Let idle processes end, in which the user's trace processors send what they have."""
        for process in self.idle:
            process.close()
        if ending := [process.ended for process in self.idle]:
            await asyncio.wait(ending, timeout=_PARTING_S)

    def kill(self, number: int) -> None:
        """End the process of a rollout, and all that it started."""
        with suppress(OSError):
            self._control.send(process_server.REQUEST.pack(process_server.KILL, number))

    def end(self) -> None:
        """End the server, which ends all processes."""
        if listening := getattr(self, "_listening", None):
            listening.cancel()
        self._control.close()
        try:
            self._process.wait(_PARTING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


@dataclass(frozen=True)
class _RolloutsInProcesses:
    run_context: RunContext
    server: _Server
    relay: Relay
    under_way: "set[_RolloutElsewhere]" = field(default_factory=set[Any])

    async def make(self, begun: BegunRollout) -> None:
        rollout = _RolloutElsewhere(self, begun, self.server.process())
        self.under_way.add(rollout)
        ending = asyncio.ensure_future(rollout.end())
        try:
            self._keep(rollout, await asyncio.shield(ending))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                rollout.process.tell(worker.StopRollout(begun.is_late(), self.gate.last_error))
                await asyncio.wait([ending], timeout=_PARTING_S)
                if not ending.done():
                    rollout.is_killed = True
                    self.server.kill(rollout.process.number)
                self._keep(rollout, await ending)
            raise
        finally:
            self.under_way.remove(rollout)
        if begun.leads:
            begun.first_call.over()

    @property
    def gate(self) -> Gate:
        return self.run_context.models.state.gate

    def _keep(self, rollout: "_RolloutElsewhere", end: MadeRollout | Failure) -> None:
        begun = rollout.begun
        if isinstance(end, Failure):
            begun.done[begun.index] = record_lost(self.run_context, begun.query, begun.index, end, rollout.so_far)
        else:
            end.keep(self.run_context, begun)

    def receive(self, news: News) -> None:
        """Take in what the process of a rollout tells of the run."""
        self.relay.receive("", news)
        if isinstance(news, SettingLesson):
            for rollout in self.under_way:
                rollout.process.tell(news)


@dataclass(eq=False)
class _RolloutElsewhere:
    maker: _RolloutsInProcesses
    begun: BegunRollout
    process: _Process
    is_killed: bool = False
    is_late: bool = False
    heard: int = 0
    so_far: list[ModelCall] = field(default_factory=list[ModelCall])

    async def end(self) -> MadeRollout | Failure:
        """Return what the process made, or of what it ended."""
        process, server = self.process, self.maker.server
        try:
            order = self.maker.relay.order(self.begun)
            process.tell(replace(order, answered=self.maker.gate.has_answered, before=self.begun.before))
            if made := await self._listen():
                if isinstance(made, MadeRollout) and made.goes_on:
                    server.idle.append(process)
                return made
        finally:
            if process not in server.idle:
                process.close()
        return self._why_ended(await process.ended)

    async def _listen(self) -> MadeRollout | Failure | None:
        loop, process, gate = asyncio.get_running_loop(), self.process, self.maker.gate
        async with anyio.create_task_group() as tasks:
            calls = CallsElsewhere({gate.name: gate}, process.tell, tasks)
            tasks.start_soon(self._watch, calls)
            with suppress(ConnectionError):
                while data := await loop.sock_recv(process.line, _MOST):
                    self.heard += 1
                    for news in process.unpacker.feed(data):
                        if isinstance(news, MadeRollout | Failure):
                            tasks.cancel_scope.cancel()
                            return news
                        if isinstance(news, CallWaits | CallEnded | CallLeft | ReplyHeaders):
                            calls.receive(news)
                        elif isinstance(news, worker.MadeSoFar):
                            self.so_far[news.first :] = news.calls
                        elif isinstance(news, worker.KeptOnTheWay):
                            store = self.maker.run_context.store
                            for text in news.texts.values():
                                store.put_blob(text, as_is=True)
                            store.add_checkpoint(news.record)
                        elif isinstance(news, worker.WrittenPath):
                            self.maker.run_context.on_write(news.path, news.rollout)
                        else:
                            self.maker.receive(news)
            tasks.cancel_scope.cancel()
        return None

    async def _watch(self, calls: CallsElsewhere) -> None:
        """End a process that says nothing for longer than it may: what blocks its event loop blocks its clock, too."""
        run_context = self.maker.run_context
        has_more = run_context.loaded.reward or run_context.loaded.after_rollout or run_context.loaded.session
        heard = -1
        while heard != self.heard or calls:
            heard = self.heard
            await anyio.sleep(run_context.settings.timeout + _PARTING_S + (2 * REWARD_S if has_more else 0))
        self.is_late = True
        self.maker.server.kill(self.process.number)

    def _why_ended(self, status: int | None) -> Failure:
        if self.is_killed:
            late = f"stopped, and its process had not ended {_PARTING_S:g} s later"
            return Failure(kind="cancelled", type="Killed", message=late)
        if self.is_late:
            limit_s = self.maker.run_context.settings.timeout
            late = f"not done after {limit_s:g} s (--timeout): something blocked its process"
            return Failure(kind="timeout", type="TimeoutError", message=late)
        if status is None:
            return Failure(kind="internal", type="WorkerLost", message="the server of the rollouts' processes ended")
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            why = f"its process ended with exit code {code} before the rollout did"
            return Failure(kind="agent_code", type="ProcessExit", message=why)
        name = next((one.name for one in signal.Signals if one == -code), f"signal {-code}")
        if -code in (signal.SIGKILL, signal.SIGTERM):
            why = f"its process was ended from outside, by {name}"
            if -code == signal.SIGKILL and _oom_kills() > self.maker.server.oom_kills:
                why = (
                    f"the system ran out of memory and ended its process: {option('memory', 'MB')} limits each process"
                )
            return Failure(kind="internal", type=name, message=why)
        return Failure(
            kind="agent_code", type=name, message=f"its process was ended by {name} ({signal.strsignal(-code)})"
        )
