"""A corpus of malformed replies: each ends in the right scores or in a failed verdict, never in wrong scores."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.rankings import VERDICT, Judged, Unjudged
from tests.judging.replies import rubric_of
from tests.judging.scripted import ScriptedAsk, judge

HERE = Path(__file__).parents[1] / "data" / "replies"
RUBRIC = rubric_of((HERE / "rubric.md").read_text("utf-8"))
CORPUS: list[dict[str, Any]] = [json.loads(line) for line in (HERE / "malformed.jsonl").read_text("utf-8").splitlines()]
READABLE = [pytest.param(c, id=c["name"]) for c in CORPUS if "winner" in c]
UNUSABLE = [pytest.param(c, id=c["name"]) for c in CORPUS if "fault" in c]


def _reply(a: int, b: int) -> str:
    sides = {"LLM_A": a, "LLM_B": b}
    blocks = {"path_scores": ("plan", "tools"), "answer_scores": ("truth", "style")}
    return json.dumps({name: {s: dict.fromkeys(keys, m) for s, m in sides.items()} for name, keys in blocks.items()})


def test_the_corpus_is_large_and_names_each_case_once() -> None:
    assert len({c["name"] for c in CORPUS}) == len({c["text"] for c in CORPUS}) == len(CORPUS) >= 40
    assert len(READABLE) + len(UNUSABLE) == len(CORPUS)


@pytest.mark.parametrize("case", READABLE)
def test_a_reply_whose_marks_can_be_read_gives_the_right_scores_at_once(case: dict[str, Any]) -> None:
    ask = ScriptedAsk(case["text"])
    verdict, store = judge(ask, RUBRIC)
    assert isinstance(verdict, Judged)
    assert (verdict.a.combined, verdict.b.combined, verdict.winner) == (case["a"], case["b"], case["winner"])
    assert set(verdict.a.dimensions) == set(verdict.b.dimensions) == {"plan", "tools", "truth", "style"}
    assert (len(ask.prompts), verdict.repaired) == (1, False)
    assert list(store.blobs) == list(verdict.raw_replies)
    assert VERDICT.validate_json(VERDICT.dump_json(verdict)) == verdict


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_reply_that_cannot_be_used_is_asked_for_once_more_with_the_complaint(case: dict[str, Any]) -> None:
    ask = ScriptedAsk(case["text"], _reply(4, 6))
    verdict, store = judge(ask, RUBRIC)
    assert isinstance(verdict, Judged)
    assert (verdict.a.combined, verdict.b.combined, verdict.winner, verdict.repaired) == (4, 6, "B", True)
    assert case["fault"] in ask.prompts[1].messages()[3]["content"]
    json.dumps(ask.prompts[1].messages(), ensure_ascii=False).encode()
    assert len(store.blobs) == 2


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_reply_that_cannot_be_used_twice_is_a_failed_verdict_with_the_raw_replies(case: dict[str, Any]) -> None:
    verdict, store = judge(ScriptedAsk(case["text"], case["text"], _reply(4, 6)), RUBRIC)
    assert isinstance(verdict, Unjudged)
    assert (verdict.failure.kind, verdict.failure.type) == ("output", "ReplyError")
    assert case["fault"] in verdict.failure.message
    assert [store.blobs[name] for name in verdict.raw_replies] == ["raw:" + case["text"]] * 2
    assert VERDICT.validate_json(VERDICT.dump_json(verdict)) == verdict
