"""`harness.check_judge`: what it returns, and what it says where the judge tells nothing or is the embedded one."""

import inspect
import logging
from pathlib import Path

import pytest

import harness
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say

pytestmark = pytest.mark.anyio


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "own.jsonl"
    file.write_text('{"query": "Why?", "a": "Because.", "b": "No.", "label": "a"}\n')
    return file


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Say("A is better."), "2 x failed verdict: output: it holds no JSON object with the scores"),
        (Say(""), "2 x failed verdict: output: it is empty."),
        (Say(refusal="Never."), "2 x failed verdict: refusal: Never."),
        (Refuse(500, "boom"), "failed verdict: api: boom"),
    ],
)
async def test_a_judge_without_a_verdict_is_an_error_that_says_what_doctor_says(
    reply: Reaction, told: str, pairs: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HARNESS_JUDGE_API_KEY", "sk-judge-1234")
    with FakeEndpoint(judge=lambda _: reply).serving() as endpoint:
        at = endpoint.base_url
        with pytest.raises(harness.JudgeFailed, match=r"^judge@127.*: no pair could be judged") as failed:
            await harness.check_judge(pairs, judge_model="judge", judge_base_url=at, retries=0, judge_timeout=2.0)
    assert told in str(failed.value)


async def test_the_embedded_judge_is_named_aloud_and_all_keys_are_documented(
    pairs: Path, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, "arena-harness"):
        checked = await harness.check_judge(pairs)
    assert "SELF-TEST" in caplog.text
    docs = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert [key for key in checked if f"`{key}`" not in docs] == []
    told = inspect.getdoc(harness.check_judge) or ""
    assert [key for key in checked if f"`{key}`" not in told] == ["judge", "rubric"]


async def test_best_of_on_embedded_parts_that_nobody_asked_for_says_so(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "arena-harness"):
        await harness.best_of("search", "Why is the sky blue?", 2)
    assert "SELF-TEST" in caplog.text
