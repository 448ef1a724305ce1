"""What a run needs of the machine."""

import sqlite3
from importlib.metadata import PackageNotFoundError

import pytest

from harness.core.errors import UsageError
from harness.doctor import free_checks as checked
from harness.doctor.free_checks import machine_checks, tracing_check


def test_a_machine_that_runs_these_tests_has_all_that_a_run_needs():
    checks = machine_checks()
    assert [check.name for check in checks] == ["python", "packages", "sqlite"]
    assert {check.status for check in checks} == {"ok"}
    assert "openai-agents " in checks[1].found
    assert tracing_check().status == "ok"


def test_a_missing_package_fails_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(checked, "version", version)
    packages = machine_checks()[1]
    assert (packages.status, packages.found) == ("fail", "arena-harness is not installed")
    assert (packages.do or "").endswith("-m pip install -e .")


def test_sqlite_without_full_text_search_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    class Bare:
        def execute(self, sql: str) -> None:
            raise sqlite3.OperationalError("no such module: fts5")

        def close(self) -> None:
            pass

    monkeypatch.setattr(checked.sqlite3, "connect", lambda _: Bare())
    assert machine_checks()[2].status == "warn"


def test_tracing_switched_off_fails_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    def off() -> None:
        raise UsageError("tracing is off: unset SOMETHING")

    monkeypatch.setattr(checked, "check_tracing", off)
    check = tracing_check()
    assert (check.status, check.found, check.do) == ("fail", "tracing is off", "unset SOMETHING")
