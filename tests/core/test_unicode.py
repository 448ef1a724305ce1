"""What is hidden in a text is shown; what a language or an emoji needs is left alone."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.unicode import escape_json, mark_controls, mark_hidden, visible, visible_name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("good\u202edab", "good<U+202E>dab"),
        ("a\u200bb", "a<U+200B>b"),
        ("\ufeffstart", "<U+FEFF>start"),
        ("x\U000e0041y", "x<U+E0041>y"),
        ("\U0001f3f4" + "\U000e0061" * 40, "\U0001f3f4" + "<U+E0061>" * 40),
        ("1 \u200d 2", "1 <U+200D> 2"),
        ("soft\u00adhyphen", "soft<U+00AD>hyphen"),
    ],
)
def test_a_hidden_character_is_marked(text: str, shown: str) -> None:
    assert mark_hidden(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "\u2764\ufe0f",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "\U0001f469\U0001f3fd\u200d\U0001f4bb",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "plain\ttext\n",
    ],
)
def test_what_writing_needs_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_a_control_character_is_marked() -> None:
    assert mark_controls("\x1b]0;title\x07 \x9b31m \r") == "<U+001B>]0;title<U+0007> <U+009B>31m <U+000D>"


@given(st.text(st.characters(codec=None)))
def test_nothing_visible_holds_a_control_character(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(c) in {"Cc", "Cs"} for c in shown if c not in "\t\n")
    assert visible(shown) == shown


def test_the_line_break_of_windows_is_a_line_break_and_a_lone_return_is_marked() -> None:
    assert visible("one\r\ntwo\rthree\r\r\n") == "one\ntwo<U+000D>three<U+000D>\n"


def test_separators_of_lines_and_paragraphs_are_marked() -> None:
    assert visible("a\u2028b\u2029c") == "a<U+2028>b<U+2029>c"


def test_a_name_stays_on_its_line() -> None:
    assert visible_name("run\nnext:\trm") == "run<U+000A>next:<U+0009>rm"


def test_json_keeps_what_people_can_read_and_escapes_what_they_cannot() -> None:
    text = json.dumps("é漢\u2764\ufe0f \x1b\x7f\x9b\u202e\u2028\ud800\U000e0041", ensure_ascii=False)
    assert escape_json(text) == ('"é漢\u2764\ufe0f \\u001b\\u007f\\u009b\\u202e\\u2028\\ud800\\udb40\\udc41"')


@given(st.text(st.characters(codec=None)))
def test_escaped_json_is_read_back_as_the_same_value_and_shows_all_of_it(text: str) -> None:
    as_json = json.dumps({text: [text]}, ensure_ascii=False)
    escaped = escape_json(as_json)
    assert json.loads(escaped) == json.loads(json.dumps({text: [text]}))
    assert visible(escaped) == escaped
