"""Hostile rubrics: no traceback, no hang, nothing run, nothing changed outside."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging.rubric import Rubric, read_by
from harness.rubric_text.bounded import TRUSTED
from tests.fuzz.attacks import check
from tests.fuzz.kinds.rubric import prepare
from tests.fuzz.rubric_texts import rubric_text


@settings(max_examples=300, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_any_text_is_a_rubric_or_is_refused_by_line_on_short_lines(rng: random.Random):
    text = rubric_text(rng, bombs=False)
    read = read_by(TRUSTED, text)
    if isinstance(read, Rubric):
        read.instructions.encode()
        return
    assert read
    for fault in read:
        assert 1 <= fault.line <= text.count("\n") + 2
        assert len(fault.text) < 700
        assert not any(c < " " for c in fault.text)


@pytest.mark.nightly
@pytest.mark.process
def test_every_command_that_takes_a_rubric_bears_a_hostile_one():
    check(prepare, examples=25)
