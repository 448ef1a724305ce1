"""Many tournaments of `arena`, played at once: the very matches and standings of each played by itself."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.ranking.arena import Arena
from harness.ranking.many_arenas import play_arenas


@given(st.integers(2, 17), st.data())
@settings(max_examples=100, deadline=None)
def test_arenas_played_at_once_are_those_played_alone(n: int, data: st.DataObject) -> None:
    anchor, most = data.draw(st.integers(0, n - 1)), data.draw(st.sampled_from([1, 3, 100]))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    scores = rng.integers(0, most, (5, n, n), endpoint=True)
    many = play_arenas(scores, anchor)
    for of, at in zip(scores.tolist(), range(5), strict=True):
        alone = Arena(range(n), anchor)
        while pairings := alone.pairings():
            for pairing in pairings:
                alone.record(pairing, of[pairing.a][pairing.b], of[pairing.b][pairing.a])
        columns = (many.rounds, many.a[at], many.b[at], many.score_a[at], many.score_b[at], many.repeated[at])
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == [
            (m.pairing.round, m.pairing.a, m.pairing.b, m.score_a, m.score_b, m.repeated) for m in alone.matches
        ]
        assert many.reached[at].tolist() == [s.round_reached for s in alone.standings()]
