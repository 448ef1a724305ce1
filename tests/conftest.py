"""Fixtures that many tests use: a served fake endpoint, a clean environment, the command line in a real process."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fake_endpoint import FakeEndpoint
from tests.nursery import OURS, ROOT, Done, Nursery

__all__ = ["ROOT", "Done", "Harness"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys and addresses of whoever runs it."""
    for name in [n for n in os.environ if n.startswith(OURS)]:
        monkeypatch.delenv(name)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint().serving() as served:
        yield served


Harness = Callable[..., Done]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as started:
        yield started


@pytest.fixture
def harness(nursery: Nursery, tmp_path: Path) -> Harness:
    """Run `python -m harness ...` in a folder of the test's own, with only the environment that it is given."""

    def run(
        *args: str,
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        cwd: Path | None = None,
        room: int | None = None,
    ) -> Done:
        return nursery.wait(nursery.start(args, cwd or tmp_path, env, stdin=stdin, room=room))

    return run
