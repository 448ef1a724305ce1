"""Hostile records and hostile index files: every command that reads a run ends with a documented exit code."""

import pytest

from harness.archive import index_file
from tests.fuzz.attacks import check
from tests.fuzz.kinds import index_files, records


@pytest.mark.nightly
def test_no_record_of_a_run_breaks_a_command():
    check(records.prepare, examples=40)


@pytest.mark.nightly
def test_no_index_breaks_a_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_file, "WORTH_KEEPING", 0)
    check(index_files.prepare, examples=30)
