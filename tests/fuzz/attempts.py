"""One command, run in this process as `harness` runs it, and how it ended."""

import faulthandler
import io
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import cast

from agents.tracing import get_trace_provider

from harness.cli.app import main
from harness.core.errors import ExitCode

LIMIT_S = 60.0
"""A command that takes longer hangs."""
_DEADLY_S = 120.0
"""A command that not even a signal ends takes this process down, with the stacks of all threads on stderr."""
EXIT_CODES = {int(code) for code in ExitCode} | {143}
LONGEST_ERROR = 1000
"""Characters of a line on stderr: several inputs may be quoted in it, each to 200 characters."""
_ERROR_LINE = re.compile(r"error: ", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LOOPBACK = ("127.", "::1", "localhost")


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is None where an exception or a hang took its place."""

    argv: tuple[str, ...]
    code: int | None
    out: bytes
    err: bytes
    traceback: str
    """Of the exception that escaped; empty where none did."""
    seconds: float
    hung: bool
    connections: tuple[str, ...]
    """The hosts that the command wanted to reach, less the one that it may. None was: the connections are refused."""
    processes: tuple[str, ...]
    """The programs that the command started."""

    @property
    def errors(self) -> list[str]:
        """The lines on stderr that say what is wrong."""
        return [line for line in self.err_text.splitlines() if _ERROR_LINE.match(line)]

    @property
    def err_text(self) -> str:
        return self.err.decode("utf-8", "backslashreplace")

    @property
    def out_text(self) -> str:
        return self.out.decode("utf-8", "backslashreplace")

    def faults(self) -> list[str]:
        """Return what must never be, a line each: no exit code of the documented ones, a traceback, a hang, ..."""
        faults = [f"hang: still at work after {self.seconds:.1f} s"] if self.hung else []
        if self.traceback and not self.hung:
            faults.append(f"traceback: {self.traceback.strip().splitlines()[-1][:300]}")
        elif self.code not in EXIT_CODES and not self.hung:
            faults.append(f"exit code: {self.code} is not documented")
        return faults + self._of_streams()

    def _of_streams(self) -> list[str]:
        faults: list[str] = []
        if "Traceback (most recent call last)" in self.err_text:
            faults.append("traceback: printed on stderr")
        if len(self.errors) > 1:
            faults.append(f"errors: {len(self.errors)} lines where one is enough: {self.errors[1][:200]}")
        if self.code in {2, 75} and not (self.errors or self.out):
            faults.append(f"errors: exit code {self.code}, and no line says why: {self.err_text[:200]!r}")
        longest = max(map(len, self.err_text.splitlines()), default=0)
        if longest > LONGEST_ERROR:
            faults.append(f"line: {longest} characters on stderr")
        for stream, text in (("stdout", self.out_text), ("stderr", self.err_text)):
            if control := _CONTROL.search(text):
                around = text[max(0, control.start() - 60) : control.end() + 20]
                faults.append(f"control character: U+{ord(control[0]):04X} on {stream}: {around!r}")
        strangers = [host for host in self.connections if not host.startswith(_LOOPBACK)]
        return faults + ([f"network: wanted to reach {', '.join(strangers)}"] if strangers else [])


def attempt(
    argv: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    stdin: bytes = b"",
    *,
    limit_s: float = LIMIT_S,
    reachable: str = "",
    piped: bool = False,
) -> Outcome:
    """Run `harness ARGV` in `cwd` with `environ` alone; the process is afterwards as it was. Main thread only.

    The command reaches no server but `reachable`, HOST:PORT or HOST. Its streams say that they are a terminal, or, with
    `piped`, that they are none.
    """
    out, err = io.BytesIO(), io.BytesIO()
    started = time.monotonic()
    code, trace = None, ""
    with ExitStack() as stack:
        stack.enter_context(_process_kept(cwd, environ))
        stack.enter_context(_streams(stdin, out, err, io.TextIOWrapper if piped else _Terminal))
        events = stack.enter_context(_EVENTS.recorded(reachable))
        watch = stack.enter_context(_watched(limit_s))
        sys.argv = ["harness", *argv]
        try:
            main()
        except SystemExit as exc:
            code = int(exc.code or 0) if isinstance(exc.code, int | None) else 1
        except BaseException:  # noqa: BLE001 - whatever escapes is what is looked for
            trace = traceback.format_exc()
    return Outcome(
        argv=tuple(argv),
        code=None if watch.overdue else code,
        out=out.getvalue(),
        err=err.getvalue(),
        traceback=trace,
        seconds=time.monotonic() - started,
        hung=watch.overdue,
        connections=tuple(dict.fromkeys(events.connections)),
        processes=tuple(dict.fromkeys(events.processes)),
    )


@contextmanager
def _process_kept(cwd: Path, environ: Mapping[str, str]) -> Generator[None]:
    """Set folder and environment, and put back what a command or an agent's file changes of the process."""
    before = Path.cwd(), dict(os.environ), list(sys.argv), list(sys.path), set(sys.modules)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    printers = sys.excepthook, warnings.showwarning, logging.lastResort
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    levels = [(log, log.level) for log in (logging.lastResort, *loggers) if log]
    tracing = vars(get_trace_provider())
    untold = {"_env_disabled": None, "_manual_disabled": None, "_disabled": False}
    traced = {name: tracing[name] for name in untold}
    tracing.update(untold)  # as in a new process: the SDK looks into the environment once, and a test may have told it
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.excepthook, warnings.showwarning, logging.lastResort = printers
        for log, level in levels:
            if log.level != level:
                log.setLevel(level)
        tracing.update(traced)
        os.chdir(before[0])
        os.environ.clear()
        os.environ.update(before[1])
        sys.argv[:], sys.path[:] = before[2], before[3]
        for name in set(sys.modules) - before[4]:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(cwd.parent):
                del sys.modules[name]


class _Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal: to other streams click writes no escape sequence, whoever it is from."""

    def isatty(self) -> bool:
        return True


@contextmanager
def _streams(stdin: bytes, out: io.BytesIO, err: io.BytesIO, opened_as: type[io.TextIOWrapper]) -> Generator[None]:
    before = sys.stdin, sys.stdout, sys.stderr
    # The way Python opens them where the locale speaks UTF-8.
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8", "strict")
    sys.stdout = stdout = opened_as(out, "utf-8", "strict", write_through=True)
    sys.stderr = stderr = opened_as(err, "utf-8", "backslashreplace", write_through=True)
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in (stdout, stderr):
            if not stream.closed:
                stream.detach()


class _Watch:
    overdue = False


@contextmanager
def _watched(limit_s: float) -> Generator[_Watch]:
    """Interrupt the block, as Ctrl-C would, where it takes too long; again every second until it ends."""
    watch = _Watch()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        watch.overdue = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    faulthandler.dump_traceback_later(limit_s + _DEADLY_S, exit=True, file=sys.__stderr__ or 2)
    signal.setitimer(signal.ITIMER_REAL, limit_s, 1.0)
    try:
        yield watch
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


class _Events:
    """What commands do outside of Python, from its audit events. An audit hook cannot be removed, so there is one."""

    def __init__(self) -> None:
        self.connections: list[str] = []
        self.processes: list[str] = []
        self._others: set[int | None] = set()
        """Threads that earlier tests left behind: what they do is none of this command's doing."""
        self._recording = False
        self._hooked = False
        self._reachable = ""

    @contextmanager
    def recorded(self, reachable: str) -> Generator["_Events"]:
        if not self._hooked:
            sys.addaudithook(self._audit)
            self._hooked = True
        self._others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
        self.connections, self.processes, self._reachable, self._recording = [], [], reachable, True
        try:
            yield self
        finally:
            self._recording = False

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        if not self._recording or threading.get_ident() in self._others:
            return
        if event in {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}:
            self.processes.append(str(args[1] if event == "subprocess.Popen" else args[0]))
        elif event == "socket.connect" and isinstance(args[1], tuple):
            host, port, *_ = cast("tuple[object, ...]", args[1])
            if self._reachable in {host, f"{host}:{port}"}:
                return
            self.connections.append(str(host))
            raise ConnectionRefusedError(111, "Connection refused")
        elif event == "socket.getaddrinfo" and args[0] is not None:
            host = args[0].decode("utf-8", "replace") if isinstance(args[0], bytes) else str(args[0])
            if not host.startswith(_LOOPBACK):
                self.connections.append(host)
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


_EVENTS = _Events()
