"""play(topology, ask): the same outcome whatever the order of the replies, for every topology."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import cast, get_args

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.rankings import Judged, Match, Unjudged
from harness.core.settings import OrderPolicy, TopologyName
from harness.judging.verdict_cache import Averaging
from harness.ranking.topologies import Entry, calls_bounds, make_topology
from harness.ranking.topology import Standing
from harness.tournament.play import JurySource, PlayedTournament, VerdictScore, play, score_verdicts
from tests.builders import a_judged, an_unjudged

NAMES: tuple[TopologyName, ...] = get_args(TopologyName)
OneVerdict = Judged | Unjudged
Outcome = tuple[tuple[Match, ...], tuple[str, ...], tuple[Standing, ...], frozenset[tuple[int, int]]]


class OneJuror:
    """A jury of one, nothing of which is cached."""

    repeats = 1
    averaging: Averaging = "mean"

    def __init__(self, ask: Callable[[int, int], Awaitable[OneVerdict]]) -> None:
        self._ask = ask

    async def judge(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore]:
        return score_verdicts([await self._ask(first, second)])

    def cached(self, first: int, second: int, repeat: int) -> None:
        return None


def outcome(
    name: TopologyName,
    n: int,
    order: OrderPolicy | None,
    seed: int,
    fails: float,
    delay: int,
    budget: int | None = None,
) -> Outcome:
    """Play with scores drawn once for each order of each pair, replies in an order drawn from `delay`."""
    replies, asked = random.Random(delay), list[tuple[int, int]]()
    topology = make_topology(name, Entry(range(n), 0, order, random.Random(seed), budget))

    async def ask(first: int, second: int) -> OneVerdict:
        asked.append((first, second))
        for _ in range(replies.randrange(15)):
            await anyio.lowlevel.checkpoint()
        rng, key = random.Random(f"{seed}/{first}/{second}"), f"{first}-{second}"
        scores = float(rng.randint(3, 7)), float(rng.randint(3, 7))
        return an_unjudged(key) if rng.random() < fails else a_judged(key, *scores)

    async def go() -> Outcome:
        played = await play(topology, cast("JurySource", OneJuror(ask)))
        return played.matches, played.open_verdicts, tuple(topology.standings()), frozenset(asked)

    found = anyio.run(go)
    assert len(set(asked)) == len(asked), "a pair was asked twice in one order"
    return found


@given(
    st.sampled_from(NAMES),
    st.integers(1, 13),
    st.sampled_from([None, "both", "balanced", "single"]),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.1]),
    st.none() | st.integers(1, 150),
)
def test_every_topology_has_the_same_outcome_whatever_the_order_of_the_replies(
    name: TopologyName, n: int, order: OrderPolicy | None, seed: int, fails: float, budget: int | None
) -> None:
    found = [outcome(name, n, order, seed, fails, delay, budget) for delay in range(3)]
    assert found[0] == found[1] == found[2]
    low, high = calls_bounds(name, n, order, budget)
    assert fails or low <= len(found[0][3]) <= high


@pytest.mark.parametrize("name", ["single", "double", "round_robin", "anchor", "cyclic"])
def test_a_failed_match_stops_only_what_depends_on_it(name: TopologyName) -> None:
    """Whole, a match failed, and all that was played: nothing that does not follow from the open match is missing."""
    whole = outcome(name, 8, "both", 3, 0.0, 0)[0]
    for broken in (m for m in whole if not m.repeated):

        def without(match: Match = broken) -> PlayedTournament:
            topology = make_topology(name, Entry(range(8), 0, "both", random.Random(3)))

            async def ask(first: int, second: int) -> OneVerdict:
                rng, key = random.Random(f"3/{first}/{second}"), f"{first}-{second}"
                scores = float(rng.randint(3, 7)), float(rng.randint(3, 7))
                return an_unjudged(key) if {first, second} == {match.a, match.b} else a_judged(key, *scores)

            return anyio.run(play, topology, cast("JurySource", OneJuror(ask)))

        matches, failed = (played := without()).matches, played.open_verdicts
        assert sorted(failed) == sorted(f"{a}-{b}" for a, b in ((broken.a, broken.b), (broken.b, broken.a)))
        follows = {broken.a, broken.b} if name in {"single", "double"} else set[int]()
        missing = [m for m in whole if m not in matches]
        assert broken in missing
        for match in missing[1:]:
            assert match.round > broken.round
            assert {match.a, match.b} & follows
            follows |= {match.a, match.b}


def test_a_match_in_one_order_does_not_rest_on_the_other_order_of_its_pair() -> None:
    matches, *_ = outcome("cyclic", 5, None, 1, 0.0, 0, budget=20)
    assert len(matches) == 20
    assert {(len(m.verdicts), m.shown_first) for m in matches} == {(1, (m.a,)) for m in matches}


def test_a_repeated_match_names_the_verdicts_of_the_first_meeting() -> None:
    matches, *_ = outcome("double", 8, "single", 5, 0.0, 0)
    first = {frozenset((m.a, m.b)): m.verdicts for m in matches if not m.repeated}
    repeated = [m for m in matches if m.repeated]
    assert repeated
    assert all(m.verdicts == first[frozenset((m.a, m.b))] for m in repeated)
