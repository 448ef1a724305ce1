"""Text that may be hashed, sent and shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.transcripts.clean_text import clean


@given(st.text(st.characters(), max_size=30))
def test_clean_text_is_valid_unicode_without_control_characters_and_stays_as_it_is(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.encode().decode() == cleaned
    assert {c for c in cleaned if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x07", "[31mred"),
        ("a\tb\nc", "a\tb\nc"),
        ("what?", "what?"),
        ("naïve 日本 🙂", "naïve 日本 🙂"),
        ("a\x9bb\x85", "ab"),
    ],
)
def test_clean_replaces_half_surrogate_pairs_and_drops_control_characters(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_clean_leaves_all_other_text_alone(text: str) -> None:
    assert clean(text) == text
