"""Runs with links, FIFOs and holes: no command hangs, ends in a traceback, or changes a byte outside of the runs."""

from tests.fuzz.attacks import check
from tests.fuzz.kinds.strange_files import prepare


def test_strange_files_in_a_run_do_nothing() -> None:
    check(prepare, examples=8)
