"""Starts `harness` processes that have done a run before: a test that starts many must not wait for imports.

`python -m tests.nursery SOCKET` reads a JSON line for each, forks, and answers the child's pid; the child does what
`python -m harness ARGS` does, with the folder, environment and streams of that line. On {"ended": PID} the answer
is that child's exit code, or null while the child runs. It serves all workers of a session, and ends with the last one.
"""

import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
OURS = ("OPENAI_", "HARNESS_")
LAZY = ("click._textwrap", "openai.resources.responses.responses", "rich._emoji_codes", "tiktoken.model")
"""What other packages import only when a command uses them, and `try_commands` does not use."""


@dataclass(frozen=True)
class Done:
    """A command that has ended. `code` is minus the signal's number if it was killed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Born:
    """A command under way, and where it writes."""

    pid: int
    out: Path
    err: Path


class Nursery:
    """The forking process, seen from a test. Those who name one folder share it: to get it ready takes five seconds."""

    def __init__(self, shared: Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nursery-")
        self._door = (shared or Path(self._folder.name)) / "nursery"
        self._numbers = count()

    def __enter__(self) -> Self:
        self._started: subprocess.Popen[bytes] | None = None
        with self._door.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._door.exists():
                command = [sys.executable, "-m", "tests.nursery", str(self._door)]
                self._started = subprocess.Popen(
                    command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=clean_environment()
                )
                assert self._started.stdout
                assert self._started.stdout.readline()
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self._door))
                self._stream = connection.makefile("rw")
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        if self._started:
            self._started.communicate()
        self._folder.cleanup()

    def start(
        self,
        args: Sequence[str],
        cwd: Path,
        env: Mapping[str, str] | None = None,
        *,
        room: int | None = None,
        background: bool = False,
        terminal: str | None = None,
    ) -> Born:
        """Start a command with `env` beside a clean environment. No file of its may grow beyond `room` bytes.

        A command in the `background` hears no SIGINT, as one behind which a script has set its `&`. One in a
        `terminal`, a path as `os.ttyname` gives it, reads and writes there alone, and is interrupted from there.
        """
        at = Path(self._folder.name) / str(next(self._numbers))
        streams = [at.with_suffix(s) for s in (".in", ".out", ".err")]
        streams[0].touch()
        order = {"args": list(args), "cwd": str(cwd), "streams": [str(s) for s in streams], "room": room}
        order |= {"background": background, "terminal": terminal}
        return Born(self._ask(order | {"env": clean_environment() | dict(env or {})}), *streams[1:])

    def wait(self, born: Born, timeout_s: float = 120) -> Done:
        """Wait for the end of a command; one that takes too long is killed, and that fails the test."""
        until = time.monotonic() + timeout_s
        while (code := self._ask({"ended": born.pid})) is None:
            if time.monotonic() > until:
                os.kill(born.pid, signal.SIGKILL)
                raise AssertionError(f"not ended after {timeout_s} s: {born.err.read_text()}")
            pause(born.pid)
        return Done(code, born.out.read_text(), born.err.read_text())

    def _ask(self, order: Mapping[str, Any]) -> Any:
        self._stream.write(json.dumps(order) + "\n")
        self._stream.flush()
        return json.loads(self._stream.readline())


def pause(pid: int) -> None:
    """Wait until a process ends, for a second at most; where that cannot be waited for, a moment."""
    if sys.platform != "linux":
        time.sleep(0.005)
        return
    end = os.pidfd_open(pid)
    select.select([end], [], [], 1)
    os.close(end)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without the keys, the settings and the terminal of whoever runs the tests.

    Ray leaves there how it started in this process.
    """
    ours = {n: v for n, v in os.environ.items() if not n.startswith((*OURS, "RAY_")) and n not in {"COLUMNS", "LINES"}}
    return ours | {"PYTHONPATH": str(ROOT)}


def child(order: Mapping[str, Any]) -> None:
    """Be `python -m harness`; ends by SystemExit, as that does."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (name, mode) in enumerate(zip(order["streams"], modes, strict=True)):
        os.dup2(os.open(name, mode, 0o600), number)
    if order["terminal"]:
        os.login_tty(os.open(order["terminal"], os.O_RDWR))
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115 - they last as long as the process
    if order["background"]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if order["room"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["room"], resource.RLIM_INFINITY))
    sys.argv = ["harness", *order["args"]]
    sys.path[0] = order["cwd"]
    sys.path[1:1] = [p for p in os.environ["PYTHONPATH"].split(os.pathsep) if p not in sys.path]
    runpy.run_module("harness", run_name="__main__", alter_sys=True)


def lived(order: Mapping[str, Any]) -> None:
    """Be a command, and end as an interpreter does, but without taking every module apart: that would take longer."""
    try:
        child(order)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    else:
        code = 0
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue] - waits for threads that are none's daemons
    atexit._run_exitfuncs()
    gc.collect()  # whoever was never awaited says so
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def import_everything() -> None:
    """Import what commands import, but for Ray: with it each fork and each end of a command takes thrice as long."""
    import harness  # noqa: PLC0415 - the test's side of the nursery needs none of it

    modules = [module.name for module in pkgutil.walk_packages(harness.__path__, "harness.")]
    for name in [*modules, *LAZY]:
        if name != "harness.__main__" and not name.startswith("harness.pipeline.ray_"):
            importlib.import_module(name)


def build_models() -> None:
    """Build the records' validators, which commands build when they first use them: a fifth of a small run."""
    from pydantic import BaseModel, TypeAdapter  # noqa: PLC0415 - as above

    models: list[type[BaseModel]] = [BaseModel]
    while models:
        model = models.pop()
        models += model.__subclasses__()
        if model.__module__.startswith("harness."):
            model.model_rebuild()
    for name, module in list(sys.modules.items()):
        for value in vars(module).values() if name.startswith("harness.") else ():
            if isinstance(value, TypeAdapter):
                value.rebuild()


def compile_templates() -> None:
    """Fill the cache of the report's templates: to compile them takes half the time of a small run."""
    from harness.report.html.facts import page_template  # noqa: PLC0415 - as above

    environment = page_template("frame.html.j2").environment
    for name in environment.list_templates(extensions=["j2"]):
        environment.get_template(name)


def try_commands() -> None:
    """Do a small run: what it imports, loads and compiles at first use takes as long as the rest of it."""
    from agents.tracing import setup as tracing  # noqa: PLC0415 - as above

    from harness.cli.app import app  # noqa: PLC0415 - as above
    from tests.fake_endpoint import FakeEndpoint  # noqa: PLC0415 - as above

    nowhere, path = io.StringIO(), list(sys.path)
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        endpoint = stack.enter_context(FakeEndpoint().serving())
        for context in (chdir(home), redirect_stdout(nowhere), redirect_stderr(nowhere)):
            stack.enter_context(context)
        environ = clean_environment() | {"OPENAI_BASE_URL": endpoint.base_url}  # certificates are loaded by their names
        environ |= {"XDG_STATE_HOME": home, "XDG_CACHE_HOME": home}
        for line in ("run Why? --model m -n 2 -q", "rescore --order single", "validate", "show"):
            app.main(line.split(), standalone_mode=False, obj=environ)
    sys.path[:] = path
    tracing.GLOBAL_TRACE_PROVIDER = tempfile.tempdir = None  # their environment was this process's


def serve(door: str) -> None:
    """Get ready what commands get ready for themselves, then fork one a line, until the last who asked has gone."""
    import_everything()
    build_models()
    compile_templates()
    try_commands()
    gc.collect()
    gc.freeze()
    gc.get_freeze_count = lambda: 1  # each command asks whether it is none: to count a million takes as long as `show`
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = False
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as asking:
        listening.bind(door)
        listening.listen()
        asking.register(listening, selectors.EVENT_READ)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not asked or len(asking.get_map()) > 1:
            for key, _ in asking.select():
                if not (stream := key.data):
                    connection, asked = listening.accept()[0], True
                    asking.register(connection, selectors.EVENT_READ, connection.makefile("rw"))
                elif line := stream.readline():
                    order = json.loads(line)
                    if "ended" in order:
                        pid, status = os.waitpid(order["ended"], os.WNOHANG)
                        answer = os.waitstatus_to_exitcode(status) if pid else None
                    elif not (answer := os.fork()):
                        for one in asking.get_map().values():
                            os.close(one.fd)
                        return lived(order)
                    stream.write(json.dumps(answer) + "\n")
                    stream.flush()
                else:
                    asking.unregister(key.fileobj)
    Path(door).unlink()
    return None


if __name__ == "__main__":
    serve(sys.argv[1])
