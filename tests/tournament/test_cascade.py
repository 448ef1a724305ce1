"""Agents behind models: the fit of what the models said decides which pairs go to the agents, the same each time."""

import random
from dataclasses import replace
from itertools import combinations
from typing import Literal

import anyio
import pytest

from harness.archive.store import MemoryStore
from harness.core.rankings import GroupRanking, Ranked
from harness.core.settings import TopologyName
from harness.judging.verdict_cache import CachedPairJudge, NotAsked, PairJury, VerdictCache
from harness.tournament.group import Rules
from harness.tournament.pairwise import TournamentRanker
from tests.builders import Script, a_group, a_rollout, by_strength
from tests.judging.test_jury import Juror

Scores = dict[tuple[str, str], tuple[float, float]]
RR = Rules(topology="round_robin", agents_when="unsure", one_of_many=True)
"""As in a run: `margins` stands in for `pooled` in the ranking, which is quick; what is left for agents goes by it."""
CLEAR = {str(i): 9.0 - 2 * i for i in range(4)}


class Cut(BaseException):
    """The end of the process."""


class Asked:
    """A model and an agent with one store, and what each was asked."""

    def __init__(self, model: Script, agent: Script, rng: random.Random | None = None, *more: Script) -> None:
        self.store = MemoryStore()
        self.models, self.agent = (
            [Juror(f"m{at}", each) for at, each in enumerate((model, *more))],
            Juror("agent", agent),
        )
        for juror in (*self.models, self.agent):
            juror._rng = rng

    @property
    def pairs(self) -> set[str]:
        """The pairs that the agent was asked of."""
        return {"".join(sorted(call)) for call in self.agent.calls}

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Every call."""
        return [(j.identity, *call) for j in (*self.models, self.agent) for call in j.calls]

    def ranked(self, n: int = 4, rules: Rules = RR, *, free: bool = False, same: bool = False) -> GroupRanking:
        """Rank n rollouts, all of one answer if they are the `same`."""
        group = a_group(a_rollout(i, "same" if same else None) for i in range(n))
        self.seat(rules, free=free)
        return anyio.run(self.ranker, group)

    def seat(self, rules: Rules = RR, *, free: bool = False) -> TournamentRanker:
        """Seat both."""
        cache = VerdictCache(self.store, free=free)
        models, agent = [CachedPairJudge(m, cache) for m in self.models], CachedPairJudge(self.agent, cache)
        self.ranker = TournamentRanker(PairJury([agent, *models], before=PairJury([NotAsked(agent), *models])), rules)
        return self.ranker


def besides(strength: dict[str, float], scores: Scores) -> Script:
    """Score by strength, but for some orders."""
    return lambda a, b: scores.get((a, b), (strength[a], strength[b]))


FAIR = by_strength(CLEAR)
NOISY: Scores = {
    pair: (5 + margin / 2, 5 - margin / 2)
    for (a, b), margins in zip(
        combinations("0123", 2), [(1.2, 4), (-3, -1), (5, 0.5), (3, -3), (-4, 0.2), (2, 6)], strict=True
    )
    for pair, margin in zip(((a, b), (b, a)), (margins[0], -margins[1]), strict=True)
}


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (FAIR, set[str]()),
        (besides(CLEAR, {("1", "2"): (7, 5), ("2", "1"): (7, 5)}), {"12"}),
        (by_strength({**CLEAR, "2": 7.0}), {"12"}),
        (lambda a, b: None if {a, b} == {"0", "3"} else FAIR(a, b), {"03"}),
        (by_strength({"0": 6.2, "1": 5.4, "2": 4.6, "3": 3.8}), set[str]()),
        (lambda a, b: NOISY[a, b], {"01", "02", "03", "12", "13", "23"}),
        (lambda _, __: (7.0, 4.0), {"01", "02", "03", "12", "13", "23"}),
        (lambda _, __: None, {"01", "02", "03", "12", "13", "23"}),
    ],
    ids=["clear", "flips", "level", "fails", "by less than a mark", "noisy", "likes the first", "fails always"],
)
def test_the_fit_flips_and_failures_leave_pairs_for_the_agent_and_nothing_else_does(model: Script, left: set[str]):
    asked = Asked(model, FAIR)
    ranking = asked.ranked()
    assert asked.pairs == left
    assert (ranking.status, len(asked.models[0].calls), len(asked.agent.calls)) == ("complete", 12, 2 * len(left))
    assert sorted(r.rank for r in ranking.rollouts if r.rank is not None) == [0, 1, 2, 3] or not left - {"12", "03"}


def test_of_equal_records_no_agent_is_asked():
    asked = Asked(lambda _, __: (5.0, 5.0), FAIR)
    asked.ranked(same=True)
    assert asked.pairs == set()


def wavering(a: str, b: str) -> tuple[float, float]:
    """Like later ones a little, and what comes by chance more."""
    margin = random.Random(a + b).gauss(0.4 * (int(a) - int(b)), 2)
    return 5 + margin / 2, 5 - margin / 2


@pytest.mark.few(3)
@pytest.mark.parametrize("topology", ["arena", "single", "double", "swiss", "cyclic", "anchor", "round_robin"])
@pytest.mark.parametrize("order", ["both", "single"])
def test_each_topology_asks_for_the_same_whatever_comes_first_once_and_within_its_bounds(
    topology: TopologyName, order: Literal["both", "single"]
):
    rules = replace(RR, topology=topology, order=order)
    made = list[tuple[list[tuple[str, str, str]], tuple[Ranked, ...]]]()
    for seed in range(2):
        asked = Asked(wavering, by_strength({str(i): 9.0 - i for i in range(6)}), random.Random(seed))
        ranking = asked.ranked(6, rules)
        made.append((sorted(asked.calls), ranking.rollouts))
        assert len(asked.calls) == len(set(asked.calls)) == ranking.judged
        low, high = asked.ranker.call_bounds(6)
        assert low <= len(asked.calls) <= high
        assert asked.agent.calls
        again = asked.ranked(6, rules, free=True)
        assert (ranking.status, len(asked.calls), again.rollouts) == ("complete", ranking.judged, ranking.rollouts)
    assert made[0] == made[1]


@pytest.mark.parametrize(("budget", "most"), [(15, 30), (20, 60), (30, 60)])
def test_the_bounds_count_second_orders_that_agents_give_to_other_pairs(budget: int, most: int):
    asked = Asked(wavering, by_strength({str(i): 9.0 - i for i in range(6)}))
    asked.ranked(6, replace(RR, topology="cyclic", budget=budget))
    assert (len(asked.models[0].calls) > budget) == (budget == 20)
    assert asked.ranker.call_bounds(6) == (budget, most)


@pytest.mark.parametrize("topology", ["arena", "round_robin"])
def test_cut_off_after_any_call_it_goes_on_and_buys_what_is_missing(topology: TopologyName):
    rules = replace(RR, topology=topology)
    whole = Asked(wavering, FAIR)
    ranking = whole.ranked(rules=rules)
    for last in range(3, len(whole.calls), 6):
        asked = Asked(wavering, FAIR)

        def until(script: Script, asked: Asked = asked, last: int = last) -> Script:
            def scores(a: str, b: str) -> tuple[float, float] | None:
                if len(asked.calls) > last:
                    raise Cut
                return script(a, b)

            return scores

        asked.models, asked.agent = [Juror("m0", until(wavering))], Juror("agent", until(FAIR))
        with pytest.raises((Cut, BaseExceptionGroup)):
            asked.ranked(rules=rules)
        asked.models, asked.agent = [Juror("m0", wavering)], Juror("agent", FAIR)
        again = asked.ranked(rules=rules)
        assert len(asked.calls) == len(whole.calls) - again.reused
        assert again.rollouts == ranking.rollouts


def test_while_a_models_verdict_is_not_bought_no_agent_is_asked():
    asked = Asked(wavering, FAIR)
    ranking = asked.ranked(free=True)
    assert (asked.calls, ranking.status, len(ranking.failed_verdicts)) == ([], "incomplete", 12)


def test_before_all_rollouts_are_in_the_models_alone_are_asked():
    asked = Asked(wavering, FAIR)

    async def go() -> None:
        async with anyio.create_task_group() as tasks:
            asked.seat(replace(RR, show_instructions=False)).early(tasks).prefetch(
                a_group(a_rollout(i) for i in range(3)), [3]
            )

    anyio.run(go)
    assert [call[0] for call in asked.calls] == ["m0"] * 6


def test_of_what_two_models_see_differently_the_agent_is_asked():
    asked = Asked(FAIR, FAIR, None, besides(CLEAR, {("0", "1"): (5, 9), ("1", "0"): (9, 5)}))
    ranking = asked.ranked()
    assert (asked.pairs, ranking.judged) == ({"01"}, 12 + 12 + 2)


@pytest.mark.nightly
@pytest.mark.parametrize("n", [4, 8])
def test_of_what_is_left_to_a_noisy_model_few_are_wrong_and_a_lead_of_a_mark_would_be_wrong_often(n: int):
    rng, pairs, left, wrong, lead, wrong_lead = random.Random(n), 0, 0, 0, 0, 0
    for _ in range(1200 // (n * (n - 1))):
        quality = {str(i): 1.5 * rng.gauss(0, 1) for i in range(n)}
        said = dict[tuple[str, str], float]()
        for a, b in combinations(quality, 2):
            own, first = rng.gauss(0, 1.2), rng.gauss(1.5, 0.75)
            ahead = quality[a] - quality[b] + own
            said[a, b], said[b, a] = (first + sign * ahead + rng.gauss(0, 2.3) for sign in (1, -1))
        asked = Asked(lambda a, b, said=said: (5 + said[a, b] / 2, 5 - said[a, b] / 2), by_strength(quality))
        ranking = asked.ranked(n)
        assert ranking.judged == n * (n - 1) + 2 * len(asked.pairs)
        for a, b in combinations(quality, 2):
            ahead, is_flip = said[a, b] - said[b, a], said[a, b] * said[b, a] > 0
            is_wrong = (quality[a] - quality[b]) * ahead < 0
            pairs, lead = pairs + 1, lead + (abs(ahead) >= 2 and not is_flip)
            wrong_lead += abs(ahead) >= 2 and not is_flip and is_wrong
            left, wrong = left + (a + b not in asked.pairs), wrong + (a + b not in asked.pairs and is_wrong)
    assert left > pairs / 8
    assert wrong / left < 0.06 < wrong_lead / lead
