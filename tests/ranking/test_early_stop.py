"""Best-of-N stops when nothing left could change who is best, and not before."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.ranking.comparisons import Comparisons
from harness.ranking.fixed_pairs import Cyclic
from harness.ranking.margins import SPAN, EarlyStop, fit_margins, leads_for_certain


def play(decided: EarlyStop, strength: list[float], noise: random.Random) -> list[tuple[int, int, float]]:
    made: list[tuple[int, int, float]] = []
    while pairings := decided.pairings():
        for p in pairings:
            lead = max(-10.0, min(10.0, round(strength[p.a] - strength[p.b] + noise.gauss(0, 0.5), 1)))
            decided.record(p, Fraction(repr(lead)), Fraction())
            made.append((p.a, p.b, lead))
    return made


def winner(n: int, made: list[tuple[int, int, float]]) -> int:
    a, b, lead = zip(*made, strict=True)
    return int(fit_margins(Comparisons.of(n, a, b, lead, [0.0] * len(a))).estimates.argmax())


@given(st.integers(2, 10), st.integers(0, 10**6))
@example(7, 2234)  # at the worst a draw
def test_what_was_not_judged_could_not_have_changed_the_winner(n: int, seed: int):
    rng = random.Random(seed)
    strength = [rng.uniform(0, 2) for _ in range(n)]
    strength[rng.randrange(n)] += rng.choice([0, 8, 20])
    plan = Cyclic(range(n)).pairings()
    decided = EarlyStop(range(n))
    made = play(decided, strength, rng)
    assert decided.saved_calls == len(plan) - len(made)
    best = winner(n, made)
    left = [p for p in plan if (p.a, p.b) not in {(a, b) for a, b, _ in made}]
    for draw in range(20):
        worst = {p: SPAN * rng.choice([-1, 1]) if draw else SPAN * (-1 if p.a == best else 1) for p in left}
        assert winner(n, [*made, *((p.a, p.b, lead) for p, lead in worst.items())]) == best


def test_a_leader_far_ahead_spares_calls_and_a_close_race_spares_none():
    ahead = EarlyStop(range(8))
    play(ahead, [20.0, *[0.0] * 7], random.Random(0))
    assert ahead.saved_calls > 0
    close = EarlyStop(range(8))
    assert len(play(close, [1.0, 0.9, *[0.0] * 6], random.Random(0))) == 28
    assert close.saved_calls == 0


def test_a_lower_certainty_stops_earlier():
    strength = [3.0, *[0.0] * 7]
    exact, likely = (EarlyStop(range(8), sure=sure) for sure in (1.0, 0.9))
    assert len(play(likely, strength, random.Random(1))) < len(play(exact, strength, random.Random(1)))


@pytest.mark.parametrize("sure", [0.0, 1.5, -1.0])
def test_a_certainty_that_is_none_is_refused(sure: float):
    with pytest.raises(ValueError, match="sure"):
        EarlyStop([0, 1], sure=sure)


def test_nothing_is_certain_before_the_first_call():
    plan = Comparisons.of(3, [0, 1, 0], [1, 2, 2], [0.0] * 3, [0.0] * 3)
    assert not leads_for_certain(plan, np.zeros(3, dtype=bool))
