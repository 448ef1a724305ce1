"""From a group of rollouts to its ranking, with a judge that follows a script."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.store import MemoryStore
from harness.core.rankings import GroupRanking, Judged, Match, Unjudged
from harness.core.records import AGENT_FAILURES, Group, Rollout
from harness.judging.prompt import Task
from harness.judging.transcript_form import TranscriptForm
from harness.tournament.group import Rules, brief_task
from harness.tournament.pairwise import rank_group
from harness.transcripts.tokens import TokenBudget, estimate_tokens
from harness.transcripts.transcript import Transcript
from tests.builders import Script, ScriptedJudge, a_group, a_rollout, by_strength
from tests.judging.scripted import a_jury

BOTH = Rules(one_of_many=True)
"""In both orders, and as in a run: `margins` stands in for `pooled`, which takes ten times as long."""


def rank(
    rollouts: Sequence[Rollout], judge: ScriptedJudge, rules: Rules = BOTH, *, seed: int = 0, store: Any = None
) -> GroupRanking:
    async def go() -> GroupRanking:
        return await rank_group(a_group(rollouts), a_jury(judge, store=store), rules, random.Random(seed))

    return anyio.run(go)


def by_chance(seed: int, fails: float = 0.0) -> Script:
    """Scores in whole numbers, drawn once for each order of each pair, so that ties and flips occur; some fail."""

    def script(first: str, second: str) -> tuple[float, float] | None:
        rng = random.Random(f"{seed}/{first}/{second}")
        return None if rng.random() < fails else (float(rng.randint(3, 7)), float(rng.randint(3, 7)))

    return script


def group_of(n: int) -> list[Rollout]:
    return [a_rollout(i) for i in range(n)]


# ---- Whole tournaments


@given(
    st.integers(2, 12),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(["both", "balanced", "single"]),
)
def test_the_ranking_is_the_same_whatever_the_order_of_the_replies(n: int, seed: int, fails: float, order: Any) -> None:
    found = [
        rank(group_of(n), ScriptedJudge(by_chance(seed, fails), random.Random(delay)), replace(BOTH, order=order))
        for delay in range(3)
    ]
    assert found[0] == found[1] == found[2]


@given(st.integers(2, 12), st.permutations(range(12)))
def test_a_judge_who_knows_gets_the_best_rollout_first(n: int, order: list[int]) -> None:
    strength = {str(i): order.index(i) / 2 for i in range(n)}
    ranking = rank(group_of(n), ScriptedJudge(by_strength(strength)))
    best = max(range(n), key=lambda i: strength[str(i)])
    places = {r.index: r for r in ranking.rollouts}
    assert (ranking.status, ranking.topology) == ("complete", "arena")
    assert ranking.signal != "none"
    assert places[best].rank == 0
    assert places[best].reward == 1
    assert min(r.rank or 0 for r in ranking.rollouts) == 0
    assert sum(r.advantage or 0 for r in ranking.rollouts) == pytest.approx(0, abs=1e-9)


@given(st.integers(2, 10), st.integers(0, 10**6))
def test_counts_and_costs_are_those_of_the_verdicts_bought(n: int, seed: int) -> None:
    judge, store = ScriptedJudge(by_chance(seed)), MemoryStore()
    ranking = rank(group_of(n), judge, store=store)
    used = {key for m in ranking.matches for key in m.verdicts}
    assert ranking.judged == len(judge.calls) == len(used) == ranking.judge_usage.requests == len(store.verdicts)
    assert (ranking.reused, ranking.judge_usd) == (0, 0.0)
    again = rank(group_of(n), judge, store=store)
    assert (again.judged, again.reused, again.judge_usage.requests) == (0, len(used), 0)
    assert again.rollouts == ranking.rollouts


def test_the_bill_is_the_same_whatever_the_order_of_the_replies() -> None:
    class Priced(ScriptedJudge):
        async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
            price = random.Random(first.answer + second.answer).random()
            return (await super().__call__(task, first, second)).model_copy(update={"price_usd": price})

    bills = {rank(group_of(8), Priced(by_chance(1), random.Random(delay))).judge_usd for delay in range(20)}
    assert len(bills) == 1


def test_a_verdict_without_a_known_price_makes_the_bill_unknown() -> None:
    class Unpriced(ScriptedJudge):
        async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
            return (await super().__call__(task, first, second)).model_copy(update={"price_usd": None})

    assert rank(group_of(3), Unpriced(by_chance(1))).judge_usd is None


# ---- Verdicts that cannot be had


@given(st.integers(4, 12), st.integers(0, 10**6), st.data())
def test_a_failed_verdict_leaves_only_what_depends_on_it_unplayed(n: int, seed: int, data: st.DataObject) -> None:
    script = by_chance(seed)
    whole = rank(group_of(n), ScriptedJudge(script))
    bought = [m for m in whole.matches if not m.repeated]
    broken = data.draw(st.sampled_from(bought))
    once_each = [(broken.a, broken.b), (broken.b, broken.a)]
    hit = {(str(x), str(y)) for x, y in data.draw(st.lists(st.sampled_from(once_each), min_size=1, unique=True))}
    cut = rank(group_of(n), ScriptedJudge(lambda x, y: None if (x, y) in hit else script(x, y), random.Random(seed)))
    assert cut.matches == tuple(m for m in whole.matches if not _depends(m, broken, whole.matches))
    assert cut.status == "incomplete"
    assert len(cut.failed_verdicts) == len(hit)
    assert {(r.rank, r.reward, r.advantage) for r in cut.rollouts} == {(None, None, None)}


def _depends(match: Match, broken: Match, matches: Sequence[Match]) -> bool:
    """A seeding match decides every bracket match; a bracket match those that its two could have gone on to."""
    if broken.round == 0:
        return match == broken or match.round > 0
    if match.round <= broken.round:
        return match == broken
    feeders = [m for m in matches if m.round == match.round - 1 and {m.a, m.b} & {match.a, match.b}]
    return any(_depends(m, broken, matches) for m in feeders if m.round >= broken.round)


def test_what_was_bought_is_not_bought_again_once_a_failed_verdict_can_be_had() -> None:
    store, script = MemoryStore(), by_chance(5)
    first = ScriptedJudge(lambda x, y: None if (x, y) == ("2", "0") else script(x, y))
    cut = rank(group_of(6), first, store=store)
    second = ScriptedJudge(script)
    mended = rank(group_of(6), second, store=store)
    assert mended.status == "complete"
    assert cut.judged == len(first.calls) - 1 == mended.reused
    assert not set(second.calls) & (set(first.calls) - {("2", "0")})
    assert mended.rollouts == rank(group_of(6), ScriptedJudge(script)).rollouts


@pytest.mark.parametrize("estimator", ["tiers", "wins", "margins", "bt"])
def test_an_incomplete_group_is_ranked_by_a_fit_if_its_matches_connect_all_and_stays_incomplete(estimator: Any) -> None:
    script = by_chance(7)
    final = rank(group_of(4), ScriptedJudge(script)).matches[-1]  # breaking it leaves the seeding, which connects all
    broken = {(str(final.a), str(final.b)), (str(final.b), str(final.a))}
    assert not final.repeated
    judge = ScriptedJudge(lambda x, y: None if (x, y) in broken else script(x, y))
    cut = rank(group_of(4), judge, replace(BOTH, estimator=estimator))
    assert (cut.status, cut.estimator) == ("incomplete", estimator)
    assert {r.rank is None for r in cut.rollouts} == {estimator in {"tiers", "wins"}}
    assert all(r.margin is not None for r in cut.rollouts)


@pytest.mark.parametrize("estimator", ["tiers", "wins", "margins", "bt"])
def test_every_estimator_ranks_by_what_the_judge_said_and_keeps_what_the_margins_say_of_the_judge(
    estimator: Any,
) -> None:
    judge = ScriptedJudge(lambda first, second: (5.0 + int(first) + 0.5, 5.0 + int(second)))
    ranking = rank(group_of(5), judge, Rules(estimator=estimator))
    order = [r.index for r in sorted(ranking.rollouts, key=lambda r: r.rank or 0)]
    assert (order[0], order[-1]) == (4, 0)  # between them wins may tie
    assert ranking.first_side == pytest.approx(0.5, abs=0.1)
    assert ranking.first_side_sd is not None
    assert ranking.sigma is not None
    assert ranking.reliability is not None
    assert sum(r.p_best or 0 for r in ranking.rollouts) == pytest.approx(1, abs=0.001)


def test_rewards_may_be_the_score_itself() -> None:
    judge = ScriptedJudge(by_strength({"0": 5, "1": 7, "2": 9}))
    ranking = rank(group_of(3), judge, replace(BOTH, reward="score"))
    assert ranking.reward_from == "score"
    assert [r.reward for r in ranking.rollouts] == [r.score for r in ranking.rollouts]


# ---- Groups that tell little


def test_one_rollout_has_reward_0_and_advantage_0_and_is_never_judged() -> None:
    for only in (a_rollout(0), a_rollout(3)):
        judge = ScriptedJudge(by_chance(0))
        ranking = rank([only], judge)
        (placed,) = ranking.rollouts
        assert (placed.rank, placed.reward, placed.advantage, placed.score) == (0, 0, 0, None)
        assert (ranking.signal, ranking.status, judge.calls) == ("none", "complete", [])
        assert "single rollout" in ranking.notes[0]


@pytest.mark.parametrize("n", [2, 5, 8])
def test_flat_scores_are_no_signal_all_share_one_rank_and_no_advantage(n: int) -> None:
    ranking = rank(group_of(n), ScriptedJudge(lambda _first, _second: (6.5, 6.5)))
    assert ranking.signal == "none"
    assert {(r.rank, r.reward, r.advantage) for r in ranking.rollouts} == {((n - 1) / 2, 0.5, 0.0)}


@pytest.mark.parametrize("order", ["both", "balanced", "single"])
def test_a_judge_who_only_looks_at_the_side_is_no_signal_in_both_orders_and_a_weak_one_in_one(order: Any) -> None:
    ranking = rank(group_of(4), ScriptedJudge(lambda _first, _second: (8.0, 6.0)), Rules(order=order))
    assert ranking.signal == ("none" if order == "both" else "weak")
    assert {m.flipped for m in ranking.matches} == {order == "both"}


def test_no_rollout_that_ended_well_is_no_ranking() -> None:
    ranking = rank([a_rollout(i, failed="api") for i in range(3)], ScriptedJudge(by_chance(0)))
    assert (ranking.signal, ranking.matches) == ("none", ())
    assert {r.rank for r in ranking.rollouts} == {None}
    assert "nothing to rank" in ranking.notes[0]


# ---- Failed rollouts


@pytest.mark.parametrize("kind", sorted(AGENT_FAILURES))
def test_failures_of_the_agent_s_making_rank_last_together(kind: Any) -> None:
    rollouts = [*group_of(3), a_rollout(3, failed=kind), a_rollout(4, failed=kind)]
    ranking = rank(rollouts, ScriptedJudge(by_strength({"0": 5, "1": 6, "2": 7})))
    places = {r.index: r for r in ranking.rollouts}
    assert {places[i].rank for i in (3, 4)} == {3.5}
    assert [places[i].reward for i in (2, 1, 0)] == [1, 0.75, 0.5]
    assert {places[i].score for i in (3, 4)} == {None}


@pytest.mark.parametrize("kind", ["api", "quota", "network", "cancelled", "internal"])
def test_failures_of_the_infrastructure_take_no_part(kind: Any) -> None:
    rollouts = [*group_of(3), a_rollout(3, failed=kind)]
    judge = by_strength({"0": 5, "1": 6, "2": 7})
    ranking, without = rank(rollouts, ScriptedJudge(judge)), rank(group_of(3), ScriptedJudge(judge))
    assert ranking.rollouts[:3] == without.rollouts
    assert (ranking.rollouts[3].rank, ranking.rollouts[3].reward, ranking.rollouts[3].advantage) == (None, None, None)


@pytest.mark.parametrize(("policy", "ranked"), [("by-cause", {3}), ("exclude", set()), ("last", {3, 4})])
def test_the_failed_policy_says_who_of_the_failed_is_ranked(policy: Any, ranked: set[int]) -> None:
    rollouts = [*group_of(3), a_rollout(3, failed="timeout"), a_rollout(4, failed="api")]
    ranking = rank(rollouts, ScriptedJudge(by_chance(1)), replace(BOTH, failed=policy))
    assert {r.index for r in ranking.rollouts[3:] if r.rank is not None} == ranked


def test_a_failure_of_the_agent_s_making_is_a_signal_even_where_all_scores_are_flat() -> None:
    ranking = rank([*group_of(2), a_rollout(2, failed="refusal")], ScriptedJudge(lambda _a, _b: (5.0, 5.0)))
    assert ranking.signal == "ok"
    assert ranking.rollouts[2].rank == 2


@pytest.mark.parametrize("n", [2, 5, 8])
def test_flat_scores_put_all_who_ended_well_on_one_rank_also_where_others_failed(n: int) -> None:
    ranking = rank([*group_of(n), a_rollout(n, failed="refusal")], ScriptedJudge(lambda _a, _b: (5.0, 5.0)))
    assert {r.rank for r in ranking.rollouts[:n]} == {(n - 1) / 2}


@given(st.integers(1, 9), st.integers(0, 10**6))
def test_without_an_anchor_the_others_play_single_elimination_and_a_note_says_so(samples: int, seed: int) -> None:
    rollouts = [a_rollout(0, failed="network"), *(a_rollout(i) for i in range(1, samples + 1))]
    judge = ScriptedJudge(by_chance(seed), random.Random(seed))
    ranking = rank(rollouts, judge, seed=seed)
    assert ranking.topology == "single"
    assert ranking.status == "complete"
    assert len(ranking.matches) == samples - 1
    assert len(judge.calls) == 2 * (samples - 1)
    assert ranking.rollouts[0].rank is None
    assert ("anchor failed" in ranking.notes[0]) == (samples > 1)
    assert ranking == rank(rollouts, ScriptedJudge(by_chance(seed)), seed=seed)


@pytest.mark.parametrize("topology", ["anchor", "double", "swiss", "round_robin", "cyclic"])
def test_without_an_anchor_only_what_needs_one_falls_back_to_single_elimination(topology: Any) -> None:
    rollouts = [a_rollout(0, failed="network"), *(a_rollout(i) for i in range(1, 6))]
    ranking = rank(rollouts, ScriptedJudge(by_chance(2)), replace(BOTH, topology=topology))
    falls_back = topology == "anchor"
    assert ranking.topology == ("single" if falls_back else topology)
    assert ("single elimination" in ranking.notes[0]) == falls_back
    assert "the anchor failed" in ranking.notes[0]
    assert sum(r.rank or 0 for r in ranking.rollouts) == 10


@pytest.mark.parametrize("topology", ["arena", "anchor", "single", "round_robin"])
@pytest.mark.parametrize("role", ["anchor", "sample"])
def test_where_one_rollout_ended_well_and_the_others_rank_last_no_note_speaks_of_matches(
    role: str, topology: Any
) -> None:
    failed = [a_rollout(i, failed="timeout").model_copy(update={"role": role if i == 0 else "sample"}) for i in (0, 2)]
    ranking = rank([failed[0], a_rollout(1), failed[1]], ScriptedJudge(by_chance(0)), replace(BOTH, topology=topology))
    assert (ranking.matches, [r.rank for r in ranking.rollouts]) == ((), [1.5, 0, 1.5])
    assert ranking.notes == (
        "the anchor failed: the only rollout that ended well met nobody"
        if role == "anchor"
        else "there is no anchor: the only rollout that ended well met nobody",
    )


@pytest.mark.parametrize("n", [1, 5])
def test_the_topology_none_asks_no_judge_ranks_no_one_and_says_so(n: int) -> None:
    judge = ScriptedJudge(by_chance(0))
    ranking = rank([*group_of(n), a_rollout(n, failed="timeout")], judge, replace(BOTH, topology="none"))
    assert (ranking.topology, ranking.status, ranking.matches, judge.calls) == ("none", "incomplete", (), [])
    assert {(r.rank, r.reward, r.advantage) for r in ranking.rollouts} == {(None, None, None)}
    assert "rescore --topology arena" in ranking.notes[0]


# ---- Matches


SCORES = {"first": (7.0, 5.0), "second": (5.0, 7.0), "tie": (6.0, 6.0)}


@pytest.mark.parametrize("one", SCORES)
@pytest.mark.parametrize("other", SCORES)
def test_flipped_is_opposite_winners_and_inconsistent_is_a_winner_and_a_tie(one: str, other: str) -> None:
    """`one` is who wins where the sample 1 stands first, `other` where the anchor 0 does."""
    script: Script = lambda first, _second: SCORES[one if first == "1" else other]  # noqa: E731
    named = [{"first": 1, "second": 0, "tie": None}[one], {"first": 0, "second": 1, "tie": None}[other]]
    for match in rank(group_of(2), ScriptedJudge(script)).matches:
        assert match.flipped == (set(named) == {0, 1})
        assert match.inconsistent == (None in named and named != [None, None])


@given(st.integers(2, 8), st.integers(0, 10**6), st.sampled_from(["both", "balanced", "single"]))
def test_a_match_s_scores_are_the_means_of_its_verdicts_side_by_side(n: int, seed: int, order: Any) -> None:
    script, store = by_chance(seed), MemoryStore()
    for match in rank(group_of(n), ScriptedJudge(script), replace(BOTH, order=order), store=store).matches:
        sums = {match.a: 0.0, match.b: 0.0}
        for first in match.shown_first:
            second = match.b if first == match.a else match.a
            said = script(str(first), str(second))
            assert said is not None
            sums[first] += said[0]
            sums[second] += said[1]
        count = len(match.verdicts)
        assert count == len(match.shown_first) == (2 if order == "both" else 1)
        assert (match.score_a, match.score_b) == (sums[match.a] / count, sums[match.b] / count)
        assert match.winner == (None if match.score_a == match.score_b else max(sums, key=lambda i: sums[i]))


def test_identical_transcripts_cost_one_call_and_tie_even_before_a_judge_who_favours_a_side() -> None:
    judge = ScriptedJudge(lambda _first, _second: (8.0, 6.0))
    ranking = rank([a_rollout(i, "the same") for i in range(4)], judge)
    assert len(judge.calls) == 1
    assert ranking.judged == 1
    assert {(m.score_a, m.score_b, m.winner) for m in ranking.matches} == {(7, 7, None)}
    assert ranking.signal == "none"


@pytest.mark.parametrize("topology", ["cyclic", "round_robin", "swiss", "double"])
@pytest.mark.parametrize("order", ["balanced", "single"])
def test_identical_transcripts_tie_where_each_pair_is_shown_in_one_order(topology: Any, order: Any) -> None:
    judge = ScriptedJudge(lambda _first, _second: (8.0, 6.0))
    rules = replace(BOTH, topology=topology, order=order, estimator="margins")
    ranking = rank([a_rollout(i, "the same") for i in range(4)], judge, rules)
    assert len(judge.calls) == 1
    assert {(m.score_a, m.score_b, m.winner, m.flipped) for m in ranking.matches} == {(7, 7, None, False)}
    assert {r.advantage for r in ranking.rollouts} == {0}
    assert ranking.signal == "none"


def test_identical_transcripts_cannot_flip_since_there_is_but_one_order() -> None:
    ranking = rank([a_rollout(i, "the same") for i in range(2)], ScriptedJudge(lambda _first, _second: (8.0, 6.0)))
    assert not any(m.flipped for m in ranking.matches)


def test_scores_are_compared_exactly_not_as_floats() -> None:
    """7.9 + 3.5 and 6.6 + 4.8 are both 11.4; as floats they differ."""
    script = {("1", "0"): (6.6, 3.5), ("0", "1"): (7.9, 4.8)}
    for match in rank(group_of(2), ScriptedJudge(lambda *pair: script[pair])).matches:
        assert match.winner is None


# ---- What the judge is told of the task


def _briefed(instructions: str | None = "Be brief. ", tools: tuple[str, ...] = ("search", "read")) -> Group:
    return a_group([a_rollout(0, failed="api"), a_rollout(1, instructions=instructions, tool_names=tools)])


@pytest.mark.parametrize(
    ("group", "brief"),
    [
        (_briefed(), "Be brief.\n\nTools: search, read"),
        (_briefed(tools=()), "Be brief.\n\nTools: none"),
        (_briefed(instructions=None), "Tools: search, read"),
        (a_group([a_rollout(0)]), None),
    ],
)
def test_the_brief_is_the_instructions_and_the_tools_names_of_whichever_rollout_knows_them(
    group: Group, brief: str | None
) -> None:
    assert brief_task(group, Rules()).brief == brief
    assert brief_task(group, Rules(show_instructions=False)).brief is None


# ---- Repeated verdicts, and answers that were cut


class Wavering(ScriptedJudge):
    """A judge whose repeats differ: repeat k scores the first of the pair k tenths higher."""

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        return f"{super().key(task, first, second)}/{task.repeat}"

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        verdict = await super().__call__(task, first, second)
        if isinstance(verdict, Unjudged):
            return verdict
        a = verdict.a.model_copy(update={"combined": verdict.a.combined + task.repeat / 10})
        cut = tuple(s for s, shown in (("A", first), ("B", second)) if shown.answer_cut)
        return verdict.model_copy(update={"a": a, "repeat": task.repeat, "cut": cut})


@given(st.integers(1, 5))
def test_the_mean_over_orders_and_repeats_is_the_score(repeats: int) -> None:
    judge, store = Wavering(by_strength({"0": 5.0, "1": 6.0})), MemoryStore()
    found = rank(group_of(2), judge, replace(BOTH, repeats=repeats), store=store)
    (seeding, *_) = found.matches
    assert (len(judge.calls), found.judged) == (2 * repeats, 2 * repeats)
    assert (len(set(seeding.verdicts)), len(seeding.shown_first)) == (2 * repeats, 2 * repeats)
    extra = sum(range(repeats)) / 10 / (2 * repeats)
    scores = {seeding.a: seeding.score_a, seeding.b: seeding.score_b}
    assert scores == pytest.approx({0: 5 + extra, 1: 6 + extra})
    assert not seeding.flipped
    assert sorted(v.repeat for v in store.verdicts) == sorted([*range(repeats)] * 2)


def test_repeats_of_one_order_that_disagree_are_no_flip() -> None:
    judge = Wavering(lambda first, _second: (5.0, 5.1) if first == "0" else (5.1, 5.0))
    found = rank(group_of(2), judge, replace(BOTH, repeats=3))
    assert not found.matches[0].flipped
    assert found.matches[0].inconsistent


def test_identical_transcripts_cost_one_call_a_repeat_and_never_flip() -> None:
    judge = Wavering(lambda _f, _s: (6.0, 5.0))
    found = rank([a_rollout(0, "same"), a_rollout(1, "same")], judge, replace(BOTH, repeats=3))
    assert len(judge.calls) == 3
    assert not any(m.flipped for m in found.matches)


def test_one_failed_repeat_leaves_the_match_open() -> None:
    left = iter([(6.0, 5.0), None])
    judge = Wavering(lambda _f, _s: next(left, (6.0, 5.0)))
    found = rank(group_of(2), judge, replace(BOTH, repeats=2))
    assert (found.status, len(found.failed_verdicts), found.matches) == ("incomplete", 1, ())


def test_both_sides_have_one_budget_and_a_match_says_that_an_answer_was_cut() -> None:
    answers = ["short", "long " * 400, "tiny"]
    judge = Wavering(lambda first, second: (float(len(second) % 7), 5.0))
    rules = replace(BOTH, form=TranscriptForm(TokenBudget(100, estimate_tokens)))
    found = rank([a_rollout(i, answer) for i, answer in enumerate(answers)], judge, rules)
    assert {m.cut for m in found.matches if 1 in (m.a, m.b)} == {True}
    assert {m.cut for m in found.matches if 1 not in (m.a, m.b)} <= {False}
    assert {len(text) for pair in judge.calls for text in pair if text.startswith("long")} == {
        len(rules.form(a_rollout(1, answers[1]).trajectory).answer)
    }
    assert any("without their middle: 1" in note for note in found.notes)
