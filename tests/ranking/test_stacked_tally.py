"""The tally of many groups at once is the sum of their tallies."""

import random
from dataclasses import asdict
from typing import Any

import pytest

from harness.ranking.judge_stats.stacked_tally import TallySum
from harness.ranking.judge_stats.tally import JudgeCall, Tally, tally

CHANCE = random.Random(20261123)


def a_call(first: str, second: str, lengths: dict[str, int | None], repeat: int = 0) -> JudgeCall:
    marks = [round(CHANCE.choice((CHANCE.uniform(0, 10), CHANCE.randrange(4, 7))), 1) for _ in range(2)]
    claimed = CHANCE.random() < 0.2
    return JudgeCall(
        *(first, second, marks[0], marks[1], repeat, claimed, claimed and CHANCE.random() < 0.5),
        *(CHANCE.random() < 0.2, lengths[first], lengths[second]),
    )


def a_group(again: float = 0.0) -> list[JudgeCall]:
    """Calls among some entrants: some pairs in both orders, some in one, some not at all."""
    n, density = CHANCE.randrange(2, 10), CHANCE.choice((0.2, 0.5, 1.0))
    names = [f"{CHANCE.getrandbits(32):08x}" for _ in range(n)]
    lengths = {name: CHANCE.choice((None, 10, CHANCE.randrange(50))) for name in names}
    calls = [a_call(i, j, lengths) for i in names for j in names if i != j and CHANCE.random() < density]
    CHANCE.shuffle(calls)
    return [*calls, *(a_call(c.first, c.second, lengths, 1) for c in calls if CHANCE.random() < again)]


def flat(value: Any) -> Any:
    """Dicts and tuples with floats that may be compared."""
    if isinstance(value, dict):
        return {key: flat(each) for key, each in value.items()}
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize(("groups", "again"), [(1, 0.0), (31, 0.0), (40, 0.0), (700, 0.0), (60, 0.1)])
def test_the_tally_of_a_stack_is_the_sum_of_its_groups(groups: int, again: float):
    stack, every = TallySum(), [a_group(again) for _ in range(groups)]
    for calls in every:
        stack.add(calls)
    assert flat(asdict(stack.tally)) == asdict(sum(map(tally, every), Tally()))
    assert stack.tally == stack.tally


def test_nothing_is_the_empty_tally():
    assert TallySum().tally == Tally()
