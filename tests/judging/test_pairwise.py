"""The pairwise judge: one question, at most one repair turn, a verdict or a failure."""

import json
from dataclasses import replace

import anyio
import pytest

from harness.archive.store import MemoryStore
from harness.core.errors import Refused
from harness.core.rankings import Judged, Unjudged
from harness.core.records import Bill, Failure, Step, Trajectory, Usage
from harness.endpoints.costs import Priced
from harness.endpoints.retries import NO_LIMIT, TimeLimit
from harness.judging.judge_model import AskFailed, JudgeModel, ModelReply, Question
from harness.judging.judges import EmbeddedAsk, PairwiseJudge
from harness.judging.prompt import Prompt
from harness.judging.reply import read_reply
from harness.judging.rubric import Rubric
from harness.transcripts.tokens import TokenBudget, estimate_tokens
from harness.transcripts.transcript import Transcript, transcribe
from tests.builders import AT, a_failure, a_transcript
from tests.judging.replies import WRITING, a_rubric, text_of
from tests.judging.scripted import ONE, TASK, TWO, ScriptedAsk, judge


def test_a_good_reply_is_a_verdict_that_tells_what_was_judged_by_whom_and_at_what_cost() -> None:
    verdict, store = judge(ScriptedAsk(text_of(7, 5)))
    assert isinstance(verdict, Judged)
    assert (verdict.a.combined, verdict.b.combined, verdict.winner, verdict.repaired) == (7, 5, "A", False)
    assert (verdict.query, verdict.first, verdict.second) == ("q7", ONE.hash, TWO.hash)
    assert (verdict.judge, verdict.rubric, verdict.form) == ("m@host", WRITING.label, "json_schema")
    assert (verdict.usage.requests, verdict.price_usd) == (1, 0)
    assert [store.blobs[name] for name in verdict.raw_replies] == [f"raw:{text_of(7, 5)}"]


@pytest.mark.parametrize("bad", ["", "LLM_A wins.", text_of(7, 5)[:-9], text_of(7, 5).replace(": 7", ": 77", 1)])
def test_a_bad_reply_is_repaired_once_and_both_replies_are_kept(bad: str) -> None:
    ask = ScriptedAsk(bad, text_of(4, 6))
    verdict, store = judge(ask)
    assert isinstance(verdict, Judged)
    assert (verdict.winner, verdict.repaired, verdict.usage.requests, verdict.usage.input) == ("B", True, 2, 200)
    assert [store.blobs[name] for name in verdict.raw_replies] == [f"raw:{bad}", f"raw:{text_of(4, 6)}"]
    assert ask.prompts[0].repair is None
    assert [m["content"] for m in ask.prompts[1].messages()][:3] == [ask.prompts[0].system, ask.prompts[0].user, bad]


def test_the_repair_turn_says_what_was_wrong() -> None:
    ask = ScriptedAsk(text_of(7, 5).replace('"clarity": 5', '"clarity": 55'), text_of())
    judge(ask)
    assert (
        "answer_scores.LLM_B.clarity must be an integer from 0 to 10, not '55'"
        in ask.prompts[1].messages()[3]["content"]
    )


def test_a_second_bad_reply_is_a_failed_verdict_with_both_replies_and_no_third_question() -> None:
    ask = ScriptedAsk("no", "never", text_of())
    verdict, store = judge(ask)
    assert isinstance(verdict, Unjudged)
    assert (verdict.failure.kind, verdict.failure.turn, verdict.usage.requests) == ("output", 2, 2)
    assert "no JSON object" in verdict.failure.message
    assert [store.blobs[name] for name in verdict.raw_replies] == ["raw:no", "raw:never"]
    assert len(ask.prompts) == 2


def test_a_reply_that_was_withheld_is_a_failed_verdict_that_was_paid_for() -> None:
    withheld = ModelReply("", Bill(Usage(requests=1)), "text", "raw", withheld=a_failure("refusal"))
    ask = ScriptedAsk(withheld, text_of())
    verdict, store = judge(ask)
    assert isinstance(verdict, Unjudged)
    assert (verdict.failure.kind, verdict.usage.requests, len(ask.prompts)) == ("refusal", 1, 1)
    assert [store.blobs[name] for name in verdict.raw_replies] == ["raw"]


@pytest.mark.parametrize("before", [(), ("no",)])
def test_a_question_that_gets_no_reply_is_a_failed_verdict_that_keeps_what_came_before(before: tuple[str, ...]) -> None:
    failure = Failure(kind="network", type="ConnectError", message="no route")
    verdict, store = judge(ScriptedAsk(*before, AskFailed(failure)))
    assert isinstance(verdict, Unjudged)
    assert verdict.failure == failure
    assert verdict.usage.requests == len(verdict.raw_replies) == len(store.blobs) == len(before)
    assert verdict.price_usd == (0 if before else None)
    assert verdict.form == ("json_schema" if before else None)


def test_a_refusal_of_the_first_call_is_no_verdict_and_passes_on() -> None:
    with pytest.raises(Refused, match="wrong key"):
        judge(ScriptedAsk(Refused("wrong key")))


def test_an_unknown_price_is_no_price() -> None:
    verdict, _ = judge(ScriptedAsk(text_of()), pricing=Priced("a-model-that-no-one-sells", "http://localhost:8000/v1"))
    assert verdict.price_usd is None


@pytest.mark.parametrize(
    "reply",
    [
        text_of(analysis={"path_A": "\ud800"}),
        text_of(winner="\udfff"),
        text_of(combined_scores={"LLM_A": 10**400}),
        text_of(winner=8),
        text_of(analysis={"\ud800": 1}),
    ],
)
def test_whatever_a_judge_says_beside_its_marks_the_verdict_can_be_stored(reply: str) -> None:
    verdict, _ = judge(ScriptedAsk(reply))
    assert isinstance(verdict, Judged)
    assert Judged.model_validate_json(verdict.model_dump_json()) == verdict


def test_a_reply_with_half_a_surrogate_pair_can_be_quoted_in_the_repair_turn() -> None:
    ask = ScriptedAsk("so \ud83d", text_of())
    judge(ask)
    json.dumps(ask.prompts[1].messages(), ensure_ascii=False).encode()


# ---- The embedded judge behind the same door


def _searched(answer: str) -> Transcript:
    step = Step(
        kind="tool", tool_name="search", tool_input='{"query": "sky blue"}', tool_output="The sky scatters blue light."
    )
    return a_transcript(answer, (step,))


@pytest.mark.parametrize(
    "rubric", [WRITING, a_rubric(path=2, answer=1), a_rubric("path_weight: 0\nanswer_weight: 1", path=0, answer=3)]
)
def test_the_embedded_judge_gives_a_verdict_by_any_rubric_for_nothing(rubric: Rubric) -> None:
    verdict, _ = judge(EmbeddedAsk(), rubric)
    assert isinstance(verdict, Judged)
    assert (verdict.price_usd, verdict.usage.tokens, verdict.repaired, verdict.claims) == (0, None, False, {})
    assert set(verdict.a.dimensions) == {d.key for d in rubric.dimensions}


def test_the_embedded_judge_prefers_the_answer_that_its_path_bears_out_from_either_side() -> None:
    good, bad = _searched("The sky scatters blue light."), _searched("<think>hm</think> Penguins eat fish.")

    async def ask(first: Transcript, second: Transcript) -> str:
        prompt = Prompt(system="", user="", rubric=WRITING, task=TASK, first=first, second=second)
        return read_reply((await EmbeddedAsk()(prompt)).text, WRITING).winner

    assert (anyio.run(ask, good, bad), anyio.run(ask, bad, good)) == ("A", "B")


def test_a_reply_that_needs_repair_is_on_disk_before_the_repair_is_paid_for() -> None:
    events: list[str] = []

    class Telling(ScriptedAsk):
        async def __call__(self, prompt: Question, clock: TimeLimit = NO_LIMIT) -> ModelReply:
            del clock
            events.append("asked")
            return await super().__call__(prompt)

    class Safe(MemoryStore):
        def put_blob(self, text: str, *, as_is: bool = False) -> str:
            events.append("kept")
            return super().put_blob(text, as_is=as_is)

        def settle(self) -> None:
            events.append("settled")

    store = Safe()
    model = JudgeModel(
        Telling("", text_of(4, 6)),
        identity="m@host",
        pricing=Priced("m", None, free=True),
        keep=store.put_blob,
        clock=lambda: AT,
        settle=store.settle,
    )
    anyio.run(PairwiseJudge(model, WRITING), TASK, ONE, TWO)
    assert events == ["asked", "kept", "settled", "asked", "kept"]


def test_a_verdict_states_its_repeat_and_whose_answer_was_cut() -> None:
    cut = transcribe(Trajectory(query="?", answer="long " * 999), TokenBudget(50, estimate_tokens))
    model = JudgeModel(
        ScriptedAsk(text_of(4, 6)),
        identity="m@host",
        pricing=Priced("m", None, free=True),
        keep=MemoryStore().put_blob,
        clock=lambda: AT,
    )
    pairwise = PairwiseJudge(model, WRITING)
    verdict = anyio.run(pairwise, replace(TASK, repeat=2), ONE, cut)
    assert (verdict.repeat, verdict.cut) == (2, ("B",))
    assert len({pairwise.key(replace(TASK, repeat=k), ONE, TWO) for k in range(3)}) == 3
