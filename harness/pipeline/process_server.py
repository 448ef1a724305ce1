"""The server of `--isolate process`: it has the agent loaded, and forks a process for each rollout.

It has neither threads nor an event loop, so that a fork is whole. It ends when its socket closes, and all processes of
rollouts with it.
"""

import asyncio
import gc
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

from harness.core.errors import HarnessError, UsageError, option
from harness.pipeline import process_warming
from harness.pipeline import process_worker as worker
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.workers import MadeRollout, WorkerNote

REQUEST = struct.Struct("!cQ")
FORK, KILL = b"F", b"K"
"""What the server is asked, with the number of a rollout; the first comes with the rollout's socket."""
ENDED = struct.Struct("!Qi")
"""What the server tells: the rollout's number, and what `waitpid` says of its process."""


def serve_rollouts() -> None:
    """Load the agent, and fork until the socket closes, whose number is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)  # stdout is for results
    unpacker, jobs = worker.Unpacker(), list[worker.ProcessJob]()
    while not jobs:
        if not (data := control.recv(1 << 16)):
            return
        jobs += unpacker.feed(data)
    process_warming.warm_up(jobs[0].spec, jobs[0].settings)
    try:
        spec = jobs[0].resolved()
        asyncio.run(process_warming.make_once(spec, jobs[0].settings))
    except HarnessError as exc:
        control.sendall(worker.packed(MadeRollout.refused(exc)))
        return
    fault, note = _try_limit(jobs[0].settings.memory)
    if fault:
        control.sendall(worker.packed(MadeRollout.refused(UsageError(fault))))
        return
    control.sendall(worker.packed(MadeRollout() if note is None else WorkerNote(note)))
    gc.collect()
    gc.freeze()  # else each look of the collector would copy the pages of all that is loaded
    _Server(control, jobs[0], spec).serve()


_LEAST = 16 * worker.MB
"""A rollout needs so many bytes beside the loaded agent."""
_KEPT, _IGNORED, _TOO_LOW = range(3)


def _try_limit(megabytes: int | None) -> tuple[str | None, str | None]:
    """Return why a limit on memory is too low, and what the user should know of a limit that the system ignores."""
    if megabytes is None:
        return None, None
    pid = os.fork()
    if pid == 0:
        end = _IGNORED
        try:
            worker.limit_memory(megabytes)
            bytes(_LEAST)
            mmap.mmap(-1, megabytes * worker.MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except MemoryError:
            end = _TOO_LOW
        except (OSError, ValueError):  # as it should
            end = _KEPT
        finally:
            os._exit(end)
    end = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    limit = option("memory", megabytes)
    if end == _IGNORED:
        return None, f"{limit}: this system does not limit the memory of a process; rollouts run without a limit"
    return (None if end == _KEPT else f"{limit} is less than the process takes with the agent loaded: give more"), None


def _wake(_number: int, _frame: object) -> None:
    """Let the file descriptor say that a process has ended."""


class _Server:
    def __init__(self, control: socket.socket, job: worker.ProcessJob, spec: AgentSpec) -> None:
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
                worker.end_group(pid)
            shutil.rmtree(self._job.folder, ignore_errors=True)

    def _answer(self) -> bool:
        try:
            request, sockets, _, _ = socket.recv_fds(self._control, REQUEST.size, 1)
        except ConnectionResetError:  # the run has ended, and left unread what it was told
            return False
        if len(request) < REQUEST.size:
            return False
        kind, number = REQUEST.unpack(request)
        if kind == KILL:
            for pid, of_rollout in self._children.items():
                if of_rollout == number:
                    worker.end_group(pid)
            return True
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._control.close()
            worker.be_rollout(self._job, self._spec, number, socket.socket(fileno=sockets[0]), server)
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
            worker.end_group(pid)  # what it has left running
            self._remove(self._job.folder / str(number))
            with suppress(OSError):  # the run has ended
                self._control.sendall(ENDED.pack(number, status))

    def _remove(self, folder: Path) -> None:
        try:
            for each in worker.folders(folder):
                each.rmdir()
            folder.rmdir()
        except OSError:  # not empty: that may take a while
            if os.fork() == 0:
                shutil.rmtree(folder, ignore_errors=True)
                os._exit(0)
