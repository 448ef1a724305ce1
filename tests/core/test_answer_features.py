"""Each feature of an answer moves with what it is named for, and with nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.answer_features import leaning_features, without_markup

PLAIN = "The sky scatters blue light. Red light passes through."
MARKED = "# The sky\n\nIt scatters **blue** light.\n- red passes\n2. so does green\nThat is all."


def test_an_answer_said_twice_is_longer_by_the_logarithm_of_two_and_else_the_same():
    once, twice = leaning_features(PLAIN), leaning_features(f"{PLAIN}\n\n{PLAIN}")
    assert twice.length - once.length == pytest.approx(math.log(2), abs=0.02)
    assert (twice.formatting, twice.of_itself) == (once.formatting, once.of_itself)


def test_headings_items_and_bold_lines_are_the_formatting_of_an_answer():
    assert leaning_features(MARKED).formatting == pytest.approx(4 / 5)
    assert leaning_features(PLAIN).formatting == 0


def test_marks_taken_away_leave_the_words_and_no_formatting():
    assert without_markup(MARKED).split() == (
        "The sky It scatters blue light. red passes so does green That is all.".split()
    )
    assert leaning_features(without_markup(MARKED)).formatting == 0


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("I think so. It is.", 1 / 2),
        ("Sorry! We apologise.", 1),
        ("My answer is this.", 1),
        ("Image files. Mercy is mined.", 0),
        ("", 0),
    ],
)
def test_sentences_in_the_first_person_and_of_apology_speak_of_the_writer(text: str, share: float):
    assert leaning_features(text).of_itself == pytest.approx(share)


@given(st.text())
def test_every_text_has_features_in_their_bounds(text: str):
    features = leaning_features(text)
    assert features.length >= 0
    assert 0 <= features.formatting <= 1
    assert 0 <= features.of_itself <= 1
    assert len(features.values) == 3
