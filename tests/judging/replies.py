"""Judges' replies and rubrics, made for a test."""

import json
from typing import Any

from hypothesis import strategies as st

from harness.judging.rubric import Rubric, load_rubric, read_by, usable
from harness.rubric_text.bounded import TRUSTED
from tests import builders

__all__ = ["ANSWER", "MARKS", "PATH", "WRITING", "a_reply", "a_rubric", "builders", "marks_of", "rubric_of", "text_of"]

WRITING: Rubric = load_rubric("writing")
PATH = [d.key for d in WRITING.block("path")]
ANSWER = [d.key for d in WRITING.block("answer")]

MARKS = st.fixed_dictionaries({key: st.integers(0, 10) for key in [*PATH, *ANSWER]})
"""One side's marks."""


def marks_of(mark: int) -> dict[str, int]:
    return dict.fromkeys([*PATH, *ANSWER], mark)


def a_reply(a: dict[str, Any], b: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A reply with what is required of it, and `more`."""
    sides = {"LLM_A": a, "LLM_B": b}
    blocks = (("path_scores", PATH), ("answer_scores", ANSWER))
    return {name: {s: {k: m[k] for k in keys if k in m} for s, m in sides.items()} for name, keys in blocks} | more


def text_of(a: int = 7, b: int = 5, **more: Any) -> str:
    """A reply as text: every mark of a side alike."""
    return json.dumps(a_reply(marks_of(a), marks_of(b), **more))


def a_rubric(front: str = "", body: str = "Mark them.", *, path: int = 1, answer: int = 1) -> Rubric:
    """A rubric with so many dimensions a block, `p0` ... and `a0` ...; `front` goes before them."""
    told = front or "path_weight: 0.4\nanswer_weight: 0.6"
    blocks = ["path"] * path + ["answer"] * answer
    numbers = [*range(path), *range(answer)]
    rows = [
        f"  - {{key: {block[0]}{i}, title: T, block: {block}, description: D.}}"
        for block, i in zip(blocks, numbers, strict=True)
    ]
    return rubric_of("\n".join(["---", "name: own", "version: 1", told, "dimensions:", *rows, "---", body]))


def rubric_of(text: str) -> Rubric:
    """Read a rubric of the test's own in this process, which is quicker than in a child. Raises UsageError."""
    return usable(read_by(TRUSTED, text), "--rubric own.md")
