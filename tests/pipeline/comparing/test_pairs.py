"""What two runs share and which rollouts meet: the same whoever is named first."""

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from harness.core.records import FailureKind, Query, Rollout
from harness.pipeline.comparing.sides import Draw, SharedQuery, by_content, hash_content, met, shared
from harness.tournament.pairwise import CrossPair
from tests.builders import a_rollout

sizes = st.integers(0, 6)


def mirrored(pairs: list[CrossPair], last: int) -> set[tuple[object, ...]]:
    """Each pair as it stands when the sides are named in the other order."""
    return {((last - p.sides[1], last - p.sides[0]), p.role, p.second, p.first) for p in pairs}


def test_queries_are_matched_by_what_they_ask_and_not_by_their_ids() -> None:
    asked = Query(id="one", text="Why?", reference="because")
    assert hash_content(asked) == hash_content(asked.model_copy(update={"id": "two", "metadata": {"level": 1}}))
    for other in ({"reference": None}, {"text": "Why not?"}, {"items": ({"role": "user", "content": "Why?"},)}):
        assert hash_content(asked) != hash_content(asked.model_copy(update=other))
    a = by_content([asked, Query(id="only-a", text="Who?")])
    b = by_content([Query(id="only-b", text="How?"), asked.model_copy(update={"id": "uno"})])
    assert shared([a, b]) == [SharedQuery(hash_content(asked), ("one", "uno"))]


def test_a_query_that_stands_twice_on_both_sides_is_compared_twice() -> None:
    twice = [Query(id=name, text="Why?") for name in ("x", "y")]
    assert {query.ids for query in shared([by_content(twice), by_content(reversed(twice))])} == {("x", "y"), ("y", "x")}
    assert len(shared([by_content(twice), by_content(twice[:1])])) == 1


@given(st.lists(sizes, min_size=2, max_size=4), st.integers(1, 9), st.integers(0, 3))
def test_naming_the_sides_in_the_other_order_mirrors_the_pairs(samples: list[int], pairs: int, seed: int) -> None:
    sides = [[a_rollout(i) for i in range(n + 1)] for n in samples]
    runs = tuple(f"run-{i}" for i in range(len(sides)))
    drawn = Draw(pairs, seed, runs).of_query("content", sides)
    other = Draw(pairs, seed, runs[::-1]).of_query("content", sides[::-1])
    as_set = {(p.sides, p.role, p.first, p.second) for p in drawn}
    assert mirrored(other, len(sides) - 1) == as_set
    assert len(as_set) == len(drawn)
    anchors = [p for p in drawn if p.role == "anchor"]
    assert [(p.sides, p.first, p.second) for p in anchors] == [(p, 0, 0) for p in combinations(range(len(sides)), 2)]


@given(sizes, sizes, st.integers(0, 40))
def test_pairs_are_disjoint_as_far_as_can_be_and_never_come_twice(first: int, second: int, count: int) -> None:
    pairs = met(range(first), range(100, 100 + second), count)
    assert len(pairs) == len(set(pairs)) == min(count, first * second)
    assert pairs == met(range(first), range(100, 100 + second), 50)[:count], "more pairs keep the first ones"
    for side in (0, 1):
        times = Counter(pair[side] for pair in pairs)
        assert all(n <= -(-len(pairs) // min(first, second)) for n in times.values())
    if count <= min(first, second):
        assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == count


def test_a_rollout_that_drops_out_leaves_the_order_of_the_others() -> None:
    draw = Draw(9, 0, ("a", "b"))
    full = [[a_rollout(i) for i in range(4)] for _ in range(2)]
    before = {(p.first, p.second) for p in draw.of_query("content", full) if p.role == "sample"}
    gone = next(iter(before))[0]
    fewer = [[r for r in full[0] if r.index != gone], full[1]]
    after = {(p.first, p.second) for p in draw.of_query("content", fewer) if p.role == "sample"}
    assert after == {pair for pair in before if pair[0] != gone}


def test_only_failures_of_the_infrastructure_keep_a_rollout_out() -> None:
    def side(failed: FailureKind) -> list[Rollout]:
        return [a_rollout(0), a_rollout(1, failed=failed)]

    of = Draw(2, 0, ("a", "b")).of_query
    assert [p.role for p in of("c", [side("timeout"), [a_rollout(0), a_rollout(1)]])] == ["sample", "anchor"]
    assert [p.role for p in of("c", [side("network"), [a_rollout(0), a_rollout(1)]])] == ["anchor"]
