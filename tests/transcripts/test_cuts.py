"""Texts lose their middle, and say how much of it."""

import re

from hypothesis import given
from hypothesis import strategies as st

from harness.transcripts.transcript import largest_that_fits, middle_out

CUT = re.compile(r"\[… ([\d,]+) characters cut …\]")


@given(st.text("abc ", max_size=500), st.integers(0, 500))
def test_a_cut_keeps_both_ends_and_says_how_much_is_missing(text: str, keep: int) -> None:
    short = middle_out(text, keep)
    assert len(short) <= len(text)
    if short != text:
        head, missing, tail = CUT.split(short)
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + int(missing.replace(",", "")) + len(tail) == len(text)
        assert abs(len(head) - len(tail)) <= 1
    elif len(text) > keep:
        assert len(text) - keep <= len(f"[… {len(text) - keep:,} characters cut …]")


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_the_largest_number_that_fits_is_found_if_any_does(low: int, width: int, most: int) -> None:
    fitting = [n for n in range(low, low + width + 1) if n <= most]
    assert largest_that_fits(lambda n: n <= most, low, low + width) == (fitting[-1] if fitting else None)
