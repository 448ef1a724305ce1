"""What may go into training data, which pairs, and what each consumer's rules say of a line."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.rankings import GroupRanking, Match, Ranked
from harness.core.recipes import Recipe
from harness.core.records import Sampling
from harness.formats.training.candidates import (
    Candidate,
    LeftOut,
    Losses,
    RankedGroup,
    choose_rollouts,
    chosen_pairs,
    group_may_go_in,
    preference_pairs,
)
from harness.formats.training.line_models import OpenAIExample, OpenAIPreference, faults
from harness.formats.training.records import (
    NotWhole,
    group_records,
    openai_messages,
    preference_records,
    sft_records,
    trl_messages,
)
from harness.formats.training.registry import FORMATS
from harness.formats.training.rules import (
    EXPORT_FORMATS,
    SFT_STYLES,
    ExportFormat,
    ExportRules,
    choose_split,
    read_split,
)
from harness.formats.turns import Message, NoMessages, Turn, join_turns
from harness.ranking.conclusions import probabilities_above
from harness.ranking.score_table import rank_scores
from tests.builders import a_group, a_rollout

USER: Message = {"role": "user", "content": "Why?"}


def said(text: str | None, *calls: tuple[str, str], **more: Any) -> Message:
    tools = [{"id": i, "type": "function", "function": {"name": "f", "arguments": a}} for i, a in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": tools} if tools else {}), **more}


def result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def a_turn(*messages: Message, model: str = "m", **more: Any) -> Turn:
    return Turn("a", model, tuple(messages[:-1]), (messages[-1],), **more)


def a_candidate(index: int, *turns: Turn, rank: float | None = None, **place: Any) -> Candidate:
    rank = float(index) if rank is None else rank
    ranked = Ranked(index=index, rank=rank, reward=1 - rank / 3, advantage=0.0, margin=3.0 - rank, **place)
    return Candidate(a_rollout(index), ranked, join_turns(turns or (a_turn(USER, said(str(index))),)))


def a_match(a: int, b: int, score_a: float, score_b: float, *, orders: int = 2, **more: Any) -> Match:
    winner = None if score_a == score_b else a if score_a > score_b else b
    scores = ((score_a, score_b), (score_b, score_a))[:orders]
    plain: dict[str, Any] = {
        "round": 1,
        "a": a,
        "b": b,
        "verdicts": ("k", "l")[:orders],
        "shown_first": (a, b)[:orders],
    }
    plain |= {
        "scores": scores,
        "score_a": score_a,
        "score_b": score_b,
        "winner": winner,
        "flipped": False,
        "inconsistent": False,
    }
    return Match(**plain | more)


def ranked_group(*matches: Match, both: bool = True, signal: Any = "ok", **more: Any) -> RankedGroup:
    group = a_group([a_rollout(i) for i in range(4)])
    ranks = tuple(Ranked(index=i, rank=float(i), reward=1 - i / 3) for i in range(4))
    ranked = GroupRanking(
        query="q", topology="t", estimator="tiers", status="complete", signal=signal, matches=matches, rollouts=ranks
    )
    return RankedGroup("run-1", group, ranked.model_copy(update=more), "judge", both)


def rules(form: ExportFormat = "dpo", **more: Any) -> ExportRules:
    return ExportRules(format=form, **more)


def pairs_and_losses(group: RankedGroup, **more: Any) -> tuple[list[tuple[int, int]], list[str]]:
    losses = Losses()
    chosen = [a_candidate(i) for i in range(4)]
    pairs = [(a.index, b.index) for a, b in preference_pairs(group, chosen, rules(**more), losses)]
    return pairs, losses.lines()


# ---- Pairs


def test_each_choice_takes_its_pairs_and_never_two_of_one_rank():
    tied = [a_candidate(0), a_candidate(1), a_candidate(2, rank=1.0), a_candidate(3)]
    choices = {
        c: [(a.index, b.index) for a, b in chosen_pairs(tied, c)] for c in ("best-worst", "best-all", "adjacent")
    }
    assert choices == {"best-worst": [(0, 3)], "best-all": [(0, 1), (0, 2), (0, 3)], "adjacent": [(0, 1), (2, 3)]}
    assert [(a.index, b.index) for a, b in chosen_pairs(tied, "all")] == [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    assert chosen_pairs([], "best-worst") == []


@pytest.mark.parametrize(
    ("match", "reason"),
    [
        (a_match(0, 3, 8, 2), None),
        (a_match(0, 3, 8, 2, flipped=True), "opposite winners"),
        (a_match(0, 3, 8, 2, inconsistent=True), "tie"),
        (a_match(0, 3, 5, 5), "tie"),
        (a_match(0, 3, 2, 8), "went the other way"),
        (a_match(0, 3, 8, 2, cut=True), "whole"),
        (a_match(0, 3, 8, 2, orders=1), "never judged"),
        (a_match(0, 1, 8, 2), "never judged"),
    ],
)
def test_a_pair_of_a_run_in_both_orders_needs_two_that_agree(match: Match, reason: str | None):
    pairs, lost = pairs_and_losses(ranked_group(match))
    assert pairs == ([] if reason else [(0, 3)])
    assert [str(reason) in line for line in lost] == ([True] if reason else [])


def test_other_pairs_go_by_their_probability():
    met = [a_match(0, 3, 9, 1, orders=1), a_match(1, 2, 5.5, 5, orders=1)]
    assert pairs_and_losses(ranked_group(*met, both=False))[0] == []  # one call alone is no 95 %, however clear
    assert pairs_and_losses(ranked_group(*met, both=False), confidence=0.85)[0] == [(0, 3)]
    pairs, lost = pairs_and_losses(ranked_group(*met, both=False), pairs="adjacent")
    assert (pairs, len(lost)) == ([], 1)
    assert "3 pairs: p(better above worse) is below 0.95" in lost[0]
    assert "--confidence 0 takes" in pairs_and_losses(ranked_group())[1][0]  # a listwise judge: no match
    assert pairs_and_losses(ranked_group(), confidence=0.0)[0] == [(0, 3)]
    assert pairs_and_losses(ranked_group(a_match(0, 1, 9, 1), a_match(1, 3, 9, 1)), confidence=0.75)[0] == [(0, 3)]


def test_the_surest_of_a_query_stay_and_a_small_margin_goes():
    met = [a_match(a, b, 9 - a, 9 - b) for a in range(4) for b in range(a + 1, 4)]
    pairs, lost = pairs_and_losses(ranked_group(*met), pairs="all", per_query=2, least_margin=2)
    assert pairs == [(0, 3), (0, 2)]
    assert lost == ["3 pairs: a margin below 2", "1 pair: more than 2 of a query"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=6, max_size=6))
def test_probabilities_of_both_sides_add_up_to_one_and_follow_the_margins(scores: list[tuple[int, int]]):
    table = {(i, j): scores[k] for k, (i, j) in enumerate((i, j) for i in range(3) for j in range(3) if i != j)}
    ranked = rank_scores(table, n=3, topology="round_robin", estimator="margins")
    above = probabilities_above(ranked.matches)
    for i, j in above:
        assert above[i, j] + above[j, i] == pytest.approx(1)
        if (ranked.margins[i] or 0) > (ranked.margins[j] or 0):
            assert above[i, j] >= 0.5
    assert probabilities_above([]) == {}


# ---- Groups and candidates


def test_a_group_without_signal_or_with_an_old_ranking_stays_out():
    losses = Losses()
    assert group_may_go_in(ranked_group(), rules(), losses)
    assert group_may_go_in(ranked_group(signal="weak"), rules(), losses)
    assert not group_may_go_in(ranked_group(signal="weak"), rules(weak=False), losses)
    assert not group_may_go_in(ranked_group(signal="none"), rules(), losses)
    assert not group_may_go_in(ranked_group(basis="another"), rules(), losses)
    failed = replace(ranked_group(signal="none"), group=a_group([a_rollout(0, failed="api")]))
    assert not group_may_go_in(failed, rules(), losses)
    assert [count for _, _, count in losses.rows()] == [1, 1, 1, 1]
    assert "no rollout ended well" in [why for _, why, _ in losses.rows()]


def test_each_rollout_that_stays_out_is_counted_by_its_reason():
    many = [
        a_rollout(0),
        a_rollout(1, failed="timeout"),
        a_rollout(2, capture="partial"),
        *(a_rollout(i) for i in range(3, 8)),
    ]
    places = tuple(Ranked(index=i, rank=float(i), reward=0.5) for i in range(7))
    plain = ranked_group()
    ranked = plain.ranked.model_copy(update={"rollouts": places})
    group = RankedGroup("r", a_group(many), ranked, "j", both_orders=True, flagged=frozenset({3}), cut=frozenset({4}))

    def turns(rollout: Any) -> Sequence[Turn]:
        if rollout.index == 5:
            raise NoMessages("audio")
        return () if rollout.index == 6 else (a_turn(USER, said("x")),)

    losses = Losses()
    assert [c.index for c in choose_rollouts(group, rules("groups"), losses, turns)] == []
    assert {why: n for _, why, n in losses.rows()} == {
        "the anchor: it was sampled at temperature 0": 1,
        "failed (timeout)": 1,
        "not all of its calls are recorded": 1,
        "flagged": 1,
        "the judge did not see the whole answer": 1,
        "the calls have no form as messages (audio)": 1,
        "no calls are recorded": 1,
        "without a rank": 1,
    }
    every = frozenset({"anchor", "failed", "flagged", "cut"})
    taken = choose_rollouts(group, rules("groups", included=every), Losses(), turns)
    assert [c.index for c in taken] == [0, 1, 3, 4]
    assert [c.index for c in choose_rollouts(group, rules("sft"), Losses(), turns)] == [0]


def test_samples_that_had_another_prompt_or_model_stay_out_unless_asked_for_and_lines_name_the_recipe():
    own: dict[str, Any] = {"requested": Sampling(temperature=None)}
    recipes = [None, Recipe(effort="low"), Recipe(instructions=2), Recipe(effort="low", model="n")]
    many = [a_rollout(i, **own, recipe=recipe) for i, recipe in enumerate(recipes)]
    plain = ranked_group()
    places = tuple(Ranked(index=i, rank=float(i), reward=1 - i / 3) for i in range(4))
    ranked = plain.ranked.model_copy(update={"rollouts": places})
    group, losses = RankedGroup("r", a_group(many), ranked, "j", both_orders=True), Losses()

    def turns(_: Any) -> Sequence[Turn]:
        return (a_turn(USER, said("x")),)

    taken = choose_rollouts(group, rules("groups"), losses, turns)
    assert [c.index for c in taken] == [0, 1], "an anchor that no temperature was asked of is on-policy"
    why = "its recipe gave it other instructions or another model (--include-varied takes it)"
    assert list(losses.rows()) == [("rollout", why, 2)]
    (line,) = group_records(group, taken, rules("groups"), Losses())
    assert [each.get("recipe") for each in line.record["rollouts"]] == [None, "effort=low"]
    every = choose_rollouts(group, rules("groups", included=frozenset({"varied"})), Losses(), turns)
    assert [c.index for c in every] == [0, 1, 2, 3]


def test_a_group_of_several_models_or_of_one_reward_stays_out_and_advantages_are_made_anew():
    losses = Losses()
    two = [a_candidate(1), a_candidate(2, a_turn(USER, said("x"), model="n"))]
    assert list(group_records(ranked_group(), two, rules("groups"), losses)) == []
    assert list(group_records(ranked_group(), two[:1], rules("groups"), losses)) == []
    assert "--mixed" in losses.lines()[0] + losses.lines()[1]
    (line,) = group_records(ranked_group(), two, rules("groups", mixed=True), losses)
    members = line.record["rollouts"]
    assert [m["advantage"] for m in members] == [pytest.approx(1), pytest.approx(-1)]
    assert [m["reward"] for m in members] == [pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert members[0]["sequences"][0]["message_mask"] == [0, 1]


# ---- Records


def exchange(call_id: str, output: str, answer: str) -> tuple[Turn, ...]:
    call = said(None, (call_id, '{"x": 1}'))
    return a_turn(USER, call), a_turn(USER, call, result(call_id, output), said(answer))


def records(
    form: ExportFormat, better: tuple[Turn, ...], worse: tuple[Turn, ...], **more: Any
) -> tuple[Any, list[str]]:
    losses = Losses()
    pair = [a_candidate(0, *better), a_candidate(3, *worse)]
    group = ranked_group(a_match(0, 3, 8, 2))
    lines_of = FORMATS[form].lines_of
    assert lines_of
    return list(lines_of(group, pair, rules(form, **more), losses)), losses.lines()


def test_every_format_is_in_the_registry_and_what_is_made_of_lines_is_checked_and_declared():
    assert tuple(FORMATS) == EXPORT_FORMATS
    for name, form in FORMATS.items():
        for style in SFT_STYLES:
            is_lines = name not in {"csv", "parquet"}
            assert [form.model(style) is not None, form.columns(style) is not None] == [is_lines, is_lines]


def test_a_preference_of_dpo_begins_after_the_prompt_and_has_arguments_as_objects():
    ((line,), _) = records("dpo", exchange("call_x", "1", "Yes."), exchange("call_y", "2", "No."))
    assert line.record["prompt"] == [USER]
    assert line.record["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"x": 1}
    assert [m["role"] for m in line.record["rejected"]] == ["assistant", "tool", "assistant"]
    assert line.tools_in_reply
    assert line.rollouts == (0, 3)


def test_final_answers_are_compared_where_all_before_them_is_shared_whatever_the_ids_of_calls():
    same = exchange("call_x", "1", "Yes."), exchange("call_y", "1", "No.")
    ((line,), _) = records("dpo", *same, final_answer=True)
    assert [m["role"] for m in line.record["prompt"]] == ["user", "assistant", "tool"]
    assert (line.record["chosen"], line.record["rejected"]) == ([said("Yes.")], [said("No.")])
    assert not line.tools_in_reply
    ((line,), _) = records("openai-preference", *same)
    assert isinstance(line.record["input"]["messages"][1]["tool_calls"][0]["function"]["arguments"], str)
    assert list(faults(line.record, OpenAIPreference)) == []
    assert records("openai-preference", same[0], exchange("c", "other", "No."))[0] == []


@pytest.mark.parametrize(
    ("better", "worse", "reason"),
    [
        (a_turn(USER, said("x")), a_turn(USER, said("x")), "both said the same"),
        (a_turn(USER, said("x")), a_turn({"role": "user", "content": "?"}, said("y")), "different prompts"),
        (a_turn(USER, said("x"), tools=({"type": "function"},)), a_turn(USER, said("y")), "different tools"),
        (a_turn(USER, said(None, ("c", "no JSON"))), a_turn(USER, said("y")), "no JSON object"),
    ],
)
def test_a_pair_that_no_format_can_hold_is_counted(better: Turn, worse: Turn, reason: str):
    lines, lost = records("dpo", (better,), (worse,))
    assert lines == []
    assert reason in lost[0]


def test_supervised_examples_mask_or_leave_out_what_was_not_said_there():
    forgetful = (
        a_turn(USER, said("I look.", reasoning_content="Hm.")),
        a_turn(USER, said("I look."), USER, said("Done.", reasoning_content="So.")),
    )
    best = [a_candidate(0, *forgetful)]
    losses = Losses()
    with pytest.raises(NotWhole):
        list(sft_records(ranked_group(), best, rules("sft"), losses))
    (whole,) = sft_records(ranked_group(), best, rules("sft", style="trl"), losses)
    assert whole.record == {"messages": [USER, said("I look.", reasoning_content="Hm.")]}
    assert "its answer is in no line" in losses.lines()[0]
    assert "lost its reasoning" in losses.lines()[1]
    turns = [line.record for line in sft_records(ranked_group(), best, rules("sft", style="trl-turns"), losses)]
    assert [len(r["prompt"]) for r in turns] == [1, 3]
    assert [r["completion"][0]["content"] for r in turns] == ["I look.", "Done."]
    first, second = sft_records(ranked_group(), best, rules("sft", style="openai"), losses)
    assert second.record["messages"] == [USER, said("I look.", weight=0), USER, said("Done.", weight=1)]
    assert first.lost == ("reasoning_content",)
    assert list(faults(second.record, OpenAIExample)) == []


def test_sequences_beside_the_final_one_and_output_schemas_are_named():
    inner = Turn("b", "m", (USER,), (said("inner"),), within="call")
    turns = a_turn(USER, said("x"), output_schema={"type": "object"}), inner
    (line,) = preference_records(
        ranked_group(a_match(0, 3, 8, 2)), [a_candidate(0, *turns), a_candidate(3)], rules(), Losses()
    )
    assert line.record["chosen"] == [said("x")]
    assert line.lost == ("an output schema", "a sequence beside those compared")


def test_messages_for_trl_and_openai():
    with pytest.raises(LeftOut, match="JSON object"):
        trl_messages([said(None, ("c", "[1]"))])
    (message,) = openai_messages([{"role": "developer", "content": "Be brief.", "reasoning_content": "x"}])
    assert message == {"role": "system", "content": "Be brief."}


# ---- Splits


@given(st.lists(st.text(max_size=12), min_size=1, max_size=30))
def test_a_query_falls_to_one_part_whatever_the_others_are(ids: list[str]):
    shares = read_split("train=0.5, test=0.5")
    parts = {name: choose_split(name, shares) for name in ids}
    assert set(parts.values()) <= {"train", "test"}
    assert {name: choose_split(name, shares) for name in reversed(ids)} == parts


def test_shares_are_kept_about_and_bad_ones_refused():
    shares = read_split("train=0.8,test=0.2")
    tests = sum(choose_split(f"q{i}", shares) == "test" for i in range(2000))
    assert 320 < tests < 480
    for bad in ("train", "train=1,train=0", "train=0.9", "a/b=1", "train=nan", "train=0.5,test=0.6", ""):
        with pytest.raises(UsageError, match="--split"):
            read_split(bad)
