"""CONTRIBUTING.md shows the times that `python -m tests.suite_times` measured."""

import json

from tests.suite_times import CONTRIBUTING, MEASURED, table


def test_the_table_of_contributing_is_what_the_command_measured():
    rows = json.loads(MEASURED.read_text("utf-8")) if MEASURED.exists() else []
    assert table(rows) in CONTRIBUTING.read_text("utf-8")
