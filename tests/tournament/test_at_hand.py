"""Groups ranked by their extracts: the very records that the plain way writes, for every topology and estimator."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any, get_args

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.archive.store import MemoryStore
from harness.core.group_cache import CachedGroup, CachedRollout, CachedVerdict, cached_group
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Query, Rollout, to_json
from harness.core.settings import EstimatorName, OrderPolicy, TopologyName
from harness.core.verdicts import Judged, Unjudged
from harness.judging.prompt import Task
from harness.ranking.ranked_calls import learnt_from_queries
from harness.tournament.at_hand import CachedRanker
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group
from harness.tournament.pooling import finalize
from harness.transcripts.transcript import Transcript
from tests.builders import ScriptedJudge, a_rollout
from tests.judging.scripted import a_jury
from tests.tournament.test_pairwise import by_chance

TOPOLOGIES: tuple[TopologyName, ...] = get_args(TopologyName)
ORDERS: list[OrderPolicy | None] = [None, "both", "single", "balanced"]


class Repeating(ScriptedJudge):
    """A scripted judge whose verdicts say which of the repeats they are."""

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        return f"{super().key(task, first, second)}/{task.repeat}"

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        verdict = await super().__call__(task, first, second)
        return verdict.model_copy(update={"repeat": task.repeat, "key": self.key(task, first, second)})


def some_rollouts(rng: random.Random) -> list[Rollout]:
    """Rollouts of which some failed, some are twins and some have a reward."""

    def one(index: int) -> Rollout:
        failed: Any = rng.choice(["timeout", "network"]) if rng.random() < 0.15 else None
        answer = str(rng.randrange(index + 1)) if rng.random() < 0.1 else None
        return a_rollout(index, answer, failed=failed, verified=rng.choice([0.0, 1.0]))

    return [one(index) for index in range(rng.randint(1, 7))]


def plainly(group: Group, store: MemoryStore, judge: ScriptedJudge, rules: Rules) -> GroupRanking:
    """Rank a group whose verdicts were bought before."""
    jury = a_jury(judge, store=store)

    async def go() -> GroupRanking:
        await rank_group(group, jury, rules, rules.rng(group.query.id))
        return await rank_group(group, jury, rules, rules.rng(group.query.id))

    return anyio.run(go)


def at_hand(extracts: Sequence[CachedGroup], rules: Rules) -> dict[str, GroupRanking] | None:
    ranker = CachedRanker(rules)
    results = {of.query: played for of, played in zip(extracts, ranker.play_all(extracts), strict=True) if played}
    if len(results) < len(extracts):
        return None
    taught = [calls for query in learnt_from_queries(list(results)) for calls in results[query].calls]
    judge = ranker.learn(taught) if rules.provisional else None
    return dict(zip(results, ranker.rank(list(results.values()), judge), strict=True))


@given(
    st.integers(0, 9999),
    st.sampled_from(TOPOLOGIES),
    st.sampled_from(get_args(EstimatorName)),
    st.sampled_from(ORDERS),
    st.sampled_from(["rank", "score"]),
    st.sampled_from(["always", "tied"]),
    st.booleans(),
    st.sampled_from([1, 2]),
)
@settings(max_examples=40, deadline=None)
def test_extracts_give_the_records_that_texts_and_verdicts_give(
    seed: int, topology: Any, estimator: Any, order: Any, reward: Any, when: Any, many: bool, repeats: int
) -> None:
    rules = Rules(
        topology=topology,
        estimator=estimator,
        order=order,
        reward=reward,
        judge_when=when,
        one_of_many=many,
        repeats=repeats,
    )
    rng, store = random.Random(seed), MemoryStore()
    groups = [Group(query=Query(id=f"q{i}", text=f"{i}?"), rollouts=tuple(some_rollouts(rng))) for i in range(4)]
    judge = Repeating(by_chance(seed, 0.0))
    plain = {group.query.id: plainly(group, store, judge, rules) for group in groups}
    extracts = [cached_group(group, plain[group.query.id], store.verdict) for group in groups]
    told = finalize([name for name in plain if plain[name].matches], plain.__getitem__, rules)
    if rules.provisional:
        plain |= {ranking.query: ranking for ranking in told}
    if (by_extracts := at_hand(extracts, rules)) is not None:
        assert by_extracts == plain
        assert list(map(to_json, by_extracts.values())) == list(map(to_json, plain.values()))
    else:  # an entrant that met nobody: whether its answer was cut is not known
        assert any(r.shown is None for extract in extracts for r in extract.rollouts if r.status == "ok")


def an_extract(query: str, rng: random.Random, n: int) -> CachedGroup:
    """An extract of a group with all verdicts, of which some rollouts may have failed."""
    marks: list[float] = rng.choice(
        [[4.0, 5.0], [x / 10 for x in range(100)], [1.234, 5.6789], [1.23456, 7.0], [1e307, 3.0]]
    )
    rollouts = tuple(
        CachedRollout(
            number=number,
            role="sample" if at else "anchor",
            status="ok" if (failure := rng.choice([*[None] * 9, "timeout"])) is None else "failed",
            failure=failure,
            capture="full",
            verified=None,
            answer_words=9,
            tokens=9,
            usd=0.0,
            started=0.0,
            seconds=1.0,
            asked=(),
            replied=(),
            shown=f"{query}/{number}",
        )
        for at, number in enumerate(sorted(rng.sample(range(20), n)))
    )
    entrants = [rollout.number for rollout in rollouts if rollout.status == "ok"]
    verdicts = {
        (first, second, 0): (
            CachedVerdict(
                first=first,
                second=second,
                repeat=0,
                key=f"{query}/{first}/{second}",
                judge="judge",
                score_first=rng.choice(marks),
                score_second=rng.choice(marks),
                claimed=False,
                claimed_winner=False,
                repaired=False,
                source=None,
                started=0.0,
                seconds=1.0,
            ),
        )
        for first, second in permutations(entrants, 2)
    }
    return CachedGroup(query, "?", {}, "", rollouts, verdicts)


@given(st.integers(0, 9999), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_arenas_played_at_once_leave_what_each_leaves_alone(seed: int, n: int) -> None:
    rng, ranker = random.Random(seed), CachedRanker(Rules(one_of_many=True))
    extracts = [an_extract(f"q{at}", rng, n) for at in range(4)]
    alone, at_once = [ranker.play(extract) for extract in extracts], ranker.play_all(extracts)
    for one, other in zip(alone, at_once, strict=True):
        assert one
        assert other
        assert list(map(to_json, one.matches)) == list(map(to_json, other.matches))
        assert [p.standings for p in one.played] == [p.standings for p in other.played]
        assert (one.lineup.query, one.classes, one.taken) == (other.lineup.query, other.classes, other.taken)
        for plain, told in zip(one.calls, other.calls, strict=True):
            assert plain.n == told.n
            for name in ("first", "second", "score_first", "score_second"):
                assert getattr(plain, name).tolist() == getattr(told, name).tolist()


def test_a_group_of_which_a_verdict_is_missing_is_not_at_hand() -> None:
    group = Group(query=Query(id="q", text="?"), rollouts=tuple(a_rollout(index) for index in range(4)))
    store, rules = MemoryStore(), Rules()
    extract = cached_group(group, plainly(group, store, ScriptedJudge(by_chance(1, 0.0)), rules), store.verdict)
    ranker = CachedRanker(rules)
    verdicts = dict(extract.verdicts)
    verdicts.pop((1, 0, 0))
    assert ranker.play(extract)
    whole, broken, nothing = ranker.play_all([extract, replace(extract, verdicts=verdicts), None])
    assert whole
    assert broken is nothing is None
