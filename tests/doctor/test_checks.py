"""A check's texts: nothing in them drives a terminal or gives a key away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.doctor.checks import Check, failed_check, fit_to_print, printable
from tests.doctor.examined import KEY


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bearer sk-proj-4f9A77q2Zx81 is wrong", "Bearer [key] is wrong"),
        ("you sent sk-pr******Zx81.", "you sent [key]"),
        ("you sent sk-proj-4f9A", "you sent [key]"),
        ("wait ... and see **this**", "wait ... and see **this**"),
        ("\x1b[2Jboo \ud800", "[2Jboo \ufffd"),
    ],
)
def test_what_gives_a_key_away_is_hidden_and_nothing_else(text: str, shown: str):
    assert fit_to_print(Check("reply", "fail", text, text), [KEY]) == Check("reply", "fail", shown, shown)


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, len(KEY) - 8))
def test_no_eight_characters_of_a_key_are_printed_wherever_they_stand(before: str, after: str, start: int):
    shown = printable(before + KEY[start : start + 8] + after, [KEY])
    assert KEY[start : start + 8] not in shown
    assert "[key]" in shown


def test_a_key_that_was_set_with_quotes_is_hidden_without_them_too():
    assert printable(f"not {KEY}", [f'"{KEY}"']) == "not [key]"


def test_a_key_of_a_few_characters_hides_nothing():
    assert printable("none was given", ["none"]) == "none was given"


def test_an_error_s_last_clause_is_what_to_do():
    assert failed_check("a", UsageError("one; two; do this")) == Check("a", "fail", "one; two", "do this")
    assert failed_check("a", UsageError("just wrong")) == Check("a", "fail", "just wrong")
