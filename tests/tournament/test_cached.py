"""Groups ranked by their caches: the very records that ranking by texts writes, for every topology and estimator."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.archive.store import MemoryStore
from harness.core.group_cache import CachedGroup, cached_group
from harness.core.rankings import GroupRanking, Judged, Unjudged
from harness.core.records import Group, Query, Rollout, to_json
from harness.core.settings import EstimatorName, OrderPolicy, TopologyName
from harness.judging.prompt import Task
from harness.ranking.reward_classes import learnt_from_queries
from harness.tournament.group import Rules
from harness.tournament.group_ranking import CachedRanker, finalize
from harness.tournament.pairwise import rank_group
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


def by_caches(extracts: Sequence[CachedGroup], rules: Rules) -> dict[str, GroupRanking] | None:
    ranker = CachedRanker(rules)
    results = {extract.query: played for extract in extracts if (played := ranker.play(extract))}
    if len(results) < len(extracts):
        return None
    taught = [calls for query in learnt_from_queries(list(results)) for calls in results[query].calls]
    judge = ranker.learn(taught) if rules.provisional else None
    return dict(zip(results, ranker.rank(list(results.values()), judge), strict=True))


@pytest.mark.nightly
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
    if (by_extracts := by_caches(extracts, rules)) is not None:
        assert by_extracts == plain
        assert list(map(to_json, by_extracts.values())) == list(map(to_json, plain.values()))
    else:  # an entrant that met nobody: whether its answer was cut is not known
        assert any(r.shown is None for extract in extracts for r in extract.rollouts if r.status == "ok")


def test_a_group_of_which_a_verdict_is_missing_is_not_cached() -> None:
    group = Group(query=Query(id="q", text="?"), rollouts=tuple(a_rollout(index) for index in range(4)))
    store, rules = MemoryStore(), Rules()
    extract = cached_group(group, plainly(group, store, ScriptedJudge(by_chance(1, 0.0)), rules), store.verdict)
    verdicts = dict(extract.verdicts)
    verdicts.pop((1, 0, 0))
    assert CachedRanker(rules).play(extract)
    assert CachedRanker(rules).play(replace(extract, verdicts=verdicts)) is None
