"""Fixtures that many tests use: a served fake endpoint, a clean environment, the command line.

The marker `process` stands on every test that starts a process or runs whole commands: on each that uses one of the
fixtures of PROCESS_FIXTURES by itself, on others by hand. A test without the marker that starts a process fails.

The marker `consumers` stands on every test of tests/consumers. These are collected only where `-m` names the marker.

The marker `nightly` stands on tests that take seconds for a fact that seldom breaks: soaks, kills at random, cuts at
every byte, a driver of Ray. They run only where `-m` names the marker, as `.ci/nightly` does. Of the cases of a test
with the marker `few(n)` all but n are `nightly`.
"""

import gc
import os
import shutil
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fake_endpoint import FakeEndpoint
from tests.fuzz.attempts import attempt
from tests.nursery import OURS, ROOT, Done, Nursery, clean_environment
from tests.process_guard import PROCESSES

__all__ = ["ROOT", "Done", "Harness"]

PROCESS_FIXTURES = {"nursery", "browser", "sdist", "harness"}

QUICK = "not process"
"""The `-m` of the loop of a working hour."""
SLOW = Path(__file__).parent / "data" / "slow_tests.txt"
"""Tests that the quick loop leaves out for the time that they took, written by `python -m tests.suite_times`."""
CONSUMERS = Path(__file__).parent / "consumers"
"""Tests with programs of others (torch, TRL, ART, Harbor), which the usual environment does not hold."""


def wants(config: pytest.Config, marker: str) -> bool:
    """Tell whether `-m` names a marker whose tests run only then."""
    return marker in config.option.markexpr.replace(f"not {marker}", "")


def pytest_configure(config: pytest.Config) -> None:
    """Set hypothesis up: no deadline (a slow machine is no fault), no example database (no files).

    Where a test does not state its own number of examples, the night tries many. Quick loop and night try others in
    each run, to find what nobody thought of. The whole suite tries the same in each run: a change is judged by its own.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on matrices as small as ours its threads wait for each other
    quick, night = config.option.markexpr == QUICK, wants(config, "nightly")
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "harness",
        deadline=None,
        database=None,
        suppress_health_check=slow,
        max_examples=300 if night else 20,
        derandomize=not (quick or night),
    )
    settings.load_profile("harness")
    if wants(config, "consumers"):
        config.addinivalue_line("filterwarnings", "ignore")  # torch and TRL warn of much that is not ours


def pytest_sessionstart(session: pytest.Session) -> None:
    """Spare each test 40 ms: so long a word of rerunfailures to its controller waits for the one before to arrive."""
    told_by: socket.socket | None = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if told_by:
        told_by.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == CONSUMERS and not wants(config, "consumers") else None


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Start no workers where the command names files: most files take less time than the workers' imports.

    Else there are two workers a core, because a third of the time the tests wait for something; those of the quick loop
    do not, and each worker imports all modules.
    """
    if all(Path(argument.split("::")[0]).is_file() for argument in config.args):
        return 0
    return (1 if config.option.markexpr == QUICK else 2) * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    given(st.none())(lambda _: None)()  # its first test walks all objects, which are few now: later that takes 3 s
    gc.disable()  # a million objects are made that all stay: to walk them again and again took a fourth of the time
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # what is collected stays to the end: no collection walks it again


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave n cases of a test with the marker `few(n)`, spread over all; by day the others are not even made."""
    cases, marked = metafunc._calls, metafunc.definition.get_closest_marker
    if few := marked("few"):
        kept = {len(cases) * place // few.args[0] for place in range(few.args[0])}
        late = [case for place, case in enumerate(cases) if place not in kept]
    else:
        late = cases[1:] if marked("nightly") else []
    for case in late:
        if wants(metafunc.config, "nightly"):
            case.marks.append(pytest.mark.nightly.mark)
        else:
            cases.remove(case)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if PROCESS_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)
        if CONSUMERS in item.path.parents:
            item.add_marker(pytest.mark.consumers)
    if config.option.markexpr == QUICK:
        slow = set(SLOW.read_text("utf-8").splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid.partition("[")[0] in slow])
        items[:] = [item for item in items if item.nodeid.partition("[")[0] not in slow]
    if not wants(config, "nightly"):
        late = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=late)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with PROCESSES.refused(unless=item.get_closest_marker("process") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with PROCESSES.refused(unless=item.get_closest_marker("process") is not None):
        return (yield)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for the home of whoever runs the tests: records of runs and caches go there."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture(autouse=True)
def nobodys_environment(monkeypatch: pytest.MonkeyPatch, user_folder: Path) -> None:
    """No test sees the keys and addresses of whoever runs it, or writes to that person's folders."""
    for name in [n for n in os.environ if n.startswith(OURS)]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "argv", ["harness"])  # messages spell commands as the program was called
    monkeypatch.setenv("XDG_STATE_HOME", str(user_folder / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(user_folder / "cache"))


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint().serving() as served:
        yield served


Harness = Callable[..., Done]


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Nursery]:
    with Nursery(None if worker_id == "master" else tmp_path_factory.getbasetemp().parent) as started:
        yield started


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """Run `harness ...` in this process as in one of its own: in the test's folder, with no environment but the given.

    What depends on the process itself takes `program`: a fork takes a quarter more of it.
    """

    def run(*args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
        around = clean_environment() | (env or {})
        ended = attempt(args, cwd or tmp_path, around, limit_s=120, reachable="127.0.0.1", piped=True)
        return Done(1 if ended.code is None else ended.code, ended.out_text, ended.err_text + ended.traceback)

    return run


@pytest.fixture
def program(nursery: Nursery, tmp_path: Path) -> Harness:
    """Run `python -m harness ...` likewise, in a process; no file of its may grow beyond `room` bytes."""

    def run(*args: str, env: dict[str, str] | None = None, room: int | None = None) -> Done:
        return nursery.wait(nursery.start(args, tmp_path, env, room=room))

    return run


@pytest.fixture(scope="session")
def kept() -> dict[tuple[object, ...], tuple[Done, Path]]:
    """How commands ended that `harness_once` ran, and where, by their words and the files that they found."""
    return {}


@pytest.fixture
def harness_once(
    harness: Harness,
    kept: dict[tuple[object, ...], tuple[Done, Path]],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Harness:
    """Run a command once for all tests that begin with it; each gets a copy of all that it left, in its own folder."""

    def run(*args: str) -> Done:
        found = (path for path in sorted(tmp_path.rglob("*")) if path.is_file())
        key = (args, *((str(path.relative_to(tmp_path)), path.read_bytes()) for path in found))
        if key not in kept:
            folder = Path(shutil.copytree(tmp_path, tmp_path_factory.mktemp("kept") / "work"))
            kept[key] = harness(*args, cwd=folder), folder
        done, folder = kept[key]
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        return done

    return run
