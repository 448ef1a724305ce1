"""What the machine brings: Python, packages, SQLite, the SDK's tracing."""

import platform
import sqlite3
import sys
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version

from harness.core.errors import UsageError
from harness.doctor.checks import Check
from harness.rollouts import check_tracing

_PACKAGES = ("arena-harness", "openai-agents", "openai", "pydantic")


def machine_checks() -> list[Check]:
    """Return what there is to say before any agent is looked at."""
    return [Check("python", "ok", f"{platform.python_version()} at {sys.executable}"), _packages(), _full_text_search()]


def tracing_check() -> Check:
    """Tell whether steps can be captured; to be asked once the agent's own code has run, which may switch it off."""
    try:
        check_tracing()
    except UsageError as exc:
        return Check("tracing", "fail", *str(exc).split(": ", 1))
    return Check("tracing", "ok", "on, and kept here: nothing is uploaded")


def _packages() -> Check:
    try:
        there = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    except PackageNotFoundError as exc:
        return Check("packages", "fail", f"{exc.name} is not installed", f"{sys.executable} -m pip install -e .")
    return Check("packages", "ok", there)


def _full_text_search() -> Check:
    name = f"SQLite {sqlite3.sqlite_version}"
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        except sqlite3.OperationalError:
            return Check(
                "sqlite",
                "warn",
                f"{name} without FTS5: no local search, no self-test",
                "use a Python whose SQLite has FTS5, such as python.org's or uv's",
            )
    return Check("sqlite", "ok", f"{name} with FTS5")
