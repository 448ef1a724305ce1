"""Pairs with known answers: those that come with the harness, and a user's own."""

import json
from collections import Counter
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.doctor.calibration import bundled_pairs
from harness.formats.labelled_pairs import read_pairs

CLASSES = {"truncated", "off_topic", "repeating", "leaked_reasoning", "padded", "injected", "identical"}
GOOD = '{"query": "q", "a": "x", "b": "y", "label": "a"}\n'


def test_the_packaged_pairs_are_four_a_class_with_labels_on_both_sides():
    pairs = bundled_pairs()
    assert Counter(p.kind for p in pairs) == dict.fromkeys(CLASSES, 4)
    for pair in pairs:
        one, two = pair.sides
        assert (one == two) == (pair.kind == "identical") == (pair.label == "tie")
    assert Counter(p.label for p in pairs) == {"a": 12, "b": 12, "tie": 4}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: no JSON"),
        ("[]", "line 2: expected an object"),
        ('{"query": "q", "a": "x", "b": "y"}', "line 2: label missing"),
        ('{"query": "q", "a": "x", "b": "y", "label": "A"}', "line 2: label 'A'"),
        ('{"query": "q", "a": {"answer": 3}, "b": "y", "label": "a"}', "line 2: a.answer '3'"),
        ('{"query": "q", "a": "x", "b": {"answer": "y", "road": "z"}, "label": "a"}', "line 2: b.road 'z'"),
        ('{"query": "", "a": "x", "b": "y", "label": "a"}', "line 2: query ''"),
    ],
)
def test_a_pair_that_cannot_be_read_is_named_by_its_line(tmp_path: Path, line: str, complaint: str):
    path = tmp_path / "p.jsonl"
    path.write_text(GOOD + line + "\n")
    with pytest.raises(UsageError, match=complaint.replace("[", r"\[")):
        read_pairs(path)


def test_a_pair_may_have_paths_a_class_and_fields_of_its_owner(tmp_path: Path):
    mine = {
        "query": "q",
        "a": {"answer": "x", "path": "Step 1 (tool)"},
        "b": "y",
        "label": "b",
        "class": "c",
        "by": "me",
    }
    path = tmp_path / "p.jsonl"
    path.write_text(f"\ufeff{GOOD}\n{json.dumps(mine)}")
    first, second = read_pairs(path)
    assert [side.path for side in (*first.sides, *second.sides)] == ["(no steps)"] * 2 + ["Step 1 (tool)", "(no steps)"]
    assert (first.group, second.group) == ("label a", "c")


def test_a_file_without_a_pair_or_that_cannot_be_read_is_a_usage_error(tmp_path: Path):
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "other.jsonl").write_bytes(b"caf\xe9")
    for name, complaint in (
        ("empty", "there is no pair in it"),
        ("other", "cannot be read"),
        ("none", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=complaint):
            read_pairs(tmp_path / f"{name}.jsonl")


def test_a_csv_file_has_the_same_names_in_its_first_line(tmp_path: Path):
    path = tmp_path / "p.CSV"
    path.write_text('query,a,b,label,class\n"q, or r?","x\nx",y,b,mine\n')
    (pair,) = read_pairs(path)
    assert (pair.query, pair.a, pair.b, pair.label, pair.group) == ("q, or r?", "x\nx", "y", "b", "mine")
    path.write_text("query,a,b,label\nq,x,y,c\n")
    with pytest.raises(UsageError, match=r"p\.CSV, line 2: label 'c'"):
        read_pairs(path)


def chat(*contents: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(contents)]


@pytest.mark.parametrize(
    "entry",
    [
        {"prompt": "q", "chosen": "good", "rejected": "bad"},
        {"question": "q", "chosen": {"answer": "good"}, "rejected": {"answer": "bad"}, "score_chosen": 9},
        {"prompt": chat("hello", "hi", "q"), "chosen": chat("q", "good")[1:], "rejected": chat("q", "bad")[1:]},
        {"chosen": chat("hello", "hi", "q", "good"), "rejected": chat("hello", "hi", "q", "bad")},
    ],
)
def test_chosen_and_rejected_answers_take_turns_as_the_first_side(tmp_path: Path, entry: dict[str, object]):
    path = tmp_path / "p.jsonl"
    path.write_text(f"{json.dumps(entry)}\n{json.dumps(entry | {'class': 'c'})}\n")
    pairs = read_pairs(path)
    assert [(p.query, p.label, p.group) for p in pairs] == [("q", "a", "chosen"), ("q", "b", "c")]
    assert [[side.answer for side in p.sides] for p in pairs] == [["good", "bad"], ["bad", "good"]]


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"chosen": "x", "rejected": "y"}, "line 1: no query under query or prompt"),
        ({"prompt": "q", "chosen": chat("q"), "rejected": "y"}, "line 1: chosen: its messages end with no text"),
        ({"prompt": "q", "chosen": 3, "rejected": "y"}, "line 1: a"),
        ({"prompt": "q", "chosen": "x"}, "query and a and b and label missing; expected .* or query, chosen"),
    ],
)
def test_a_preference_that_cannot_be_read_is_named_by_its_line(
    tmp_path: Path, entry: dict[str, object], complaint: str
):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(entry))
    with pytest.raises(UsageError, match=complaint):
        read_pairs(path)
