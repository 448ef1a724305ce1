"""Every kind of hostile input ends well: no traceback, no hang, no byte changed outside, one line that says why."""

import pytest

from tests.fuzz.attacks import check, kinds

pytestmark = pytest.mark.process  # a rubric's file is read in a child, and `agents` starts what agents need

EXAMPLES = {"argv": 60, "files": 60, "queries": 30, "settings": 60, "trajectories": 30}
"""As many as take a few seconds each; a kind that is not here has 20."""
ELSEWHERE = {"index_files", "records", "rubric"}
"""Kinds that a test of their own tries."""


@pytest.mark.nightly
@pytest.mark.parametrize("kind", sorted(kinds().keys() - ELSEWHERE))
def test_a_hostile_input_ends_in_at_most_one_line_and_changes_nothing_outside(kind: str):
    check(kinds()[kind], examples=EXAMPLES.get(kind, 20))
