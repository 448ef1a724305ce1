"""The checks of the machine: Python, packages, SQLite, the SDK's tracing."""

import platform
import sqlite3
import sys
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version

from harness.core.errors import UsageError
from harness.doctor.checks import Check
from harness.rollouts.capture import check_tracing

_PACKAGES = ("arena-harness", "openai-agents", "openai", "pydantic")


def machine_checks() -> list[Check]:
    """Check what a run needs of the machine, whatever the agent."""
    return [Check("python", "ok", f"{platform.python_version()} at {sys.executable}"), _packages(), _full_text_search()]


def tracing_check() -> Check:
    """Check that steps can be captured. Call this after the agent's own code ran, which may switch tracing off."""
    try:
        check_tracing()
    except UsageError as exc:
        return Check("tracing", "fail", *str(exc).split(": ", 1))
    return Check("tracing", "ok", "on, and kept here: nothing is uploaded")


def _packages() -> Check:
    try:
        versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    except PackageNotFoundError as exc:
        return Check("packages", "fail", f"{exc.name} is not installed", f"{sys.executable} -m pip install -e .")
    return Check("packages", "ok", versions)


def _full_text_search() -> Check:
    name = f"SQLite {sqlite3.sqlite_version}"
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        except sqlite3.OperationalError:
            advice = "use a Python whose SQLite has FTS5, such as python.org's or uv's"
            return Check("sqlite", "warn", f"{name} without FTS5: no local search, no self-test", advice)
    return Check("sqlite", "ok", f"{name} with FTS5")
