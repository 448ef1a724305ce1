"""Fixtures that many tests use: a served fake endpoint, a clean environment, the command line in a real process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fake_endpoint import FakeEndpoint

ROOT = Path(__file__).resolve().parents[1]
_OURS = ("OPENAI_", "HARNESS_")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys and addresses of whoever runs it."""
    for name in [n for n in os.environ if n.startswith(_OURS)]:
        monkeypatch.delenv(name)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint().serving() as served:
        yield served


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Harness = Callable[..., Done]


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """Run `python -m harness ...` in a folder of the test's own, with only the environment that it is given."""

    def run(*args: str, env: dict[str, str] | None = None, stdin: str | None = None, cwd: Path | None = None) -> Done:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(_OURS)} | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "harness", *args], cwd=cwd or tmp_path, env=kept | (env or {}),
            input=stdin, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    return run
