"""What a comparison's queries say of its sides: failures, open pairs, length, anchors, slices, strengths."""

import warnings
from typing import Any

import numpy as np
import pytest

from harness.comparison.conclusions import compare_queries, sentence, side_figures, side_names, strengths, with_beaten
from harness.comparison.intervals import share_below
from harness.comparison.outcomes import Pair
from harness.comparison.side_results import length_controlled, side_result, slices
from harness.core.comparisons import (
    ComparedQuery,
    ComparedRollout,
    CrossMatch,
    Interval,
    SideFigures,
    SideResult,
    Strength,
)
from tests.comparisons_by_hand import a_result, a_side, make

SIDES = ((0, 1), ("A", "B"))


def a_rollout(index: int, **changes: Any) -> ComparedRollout:
    plain: dict[str, Any] = {"index": index, "role": "sample" if index else "anchor", "status": "ok"}
    return ComparedRollout(**plain | changes)


def a_query(number: int, *outcomes: Any, **changes: Any) -> ComparedQuery:
    """Return a query with a match for each outcome: `second`, `tie`, `first`, None (open), or `forfeit second`."""
    matches: list[CrossMatch] = []
    for index, outcome in enumerate(outcomes, 1):
        forfeit = outcome.partition("forfeit ")[2] if outcome else ""
        matches.append(
            CrossMatch(
                sides=(0, 1),
                role="sample",
                first=index,
                second=index,
                winner=None if forfeit else outcome,
                forfeit=forfeit or None,
            )
        )
    rollouts = tuple(tuple(a_rollout(i) for i in range(len(outcomes) + 1)) for _ in range(2))
    plain: dict[str, Any] = {"query": f"{number:03}", "ids": ("q", "q"), "text": "?", "rollouts": rollouts}
    return ComparedQuery(**plain | changes, matches=tuple(matches))


def test_a_failure_is_a_loss_and_the_line_without_failures_stands_beside_it():
    queries = [a_query(i, "tie", "forfeit second") for i in range(10)] + [a_query(10, "forfeit both")]
    result = side_result(queries, *SIDES)
    assert (result.win_rate, result.worse, result.tied) == (pytest.approx((10 * 0.25 + 0.5) / 11), 10, 1)
    assert result.forfeits == (0, 10)
    assert result.without_forfeits
    assert result.without_forfeits.value == 0.5
    assert side_result([a_query(0, "tie")], *SIDES).without_forfeits is None


def test_open_pairs_are_the_best_and_the_worst_case():
    queries = [a_query(0, "second", None), a_query(1, "tie", "tie"), a_query(2, None, None)]
    result = side_result(queries, *SIDES)
    assert (result.queries, result.pairs, result.unjudged) == (2, 3, 3)
    assert result.win_rate == 0.75
    assert sentence(result).endswith("decide nothing. With 3 open pairs: 33 to 83 %.")
    assert result.bounds == pytest.approx(((0.5 + 0.5 + 0) / 3, (1 + 0.5 + 1) / 3))


def test_nothing_is_shown_while_the_open_pairs_could_turn_it_round():
    judged = [a_query(i, "second", "tie") for i in range(20)]
    result = side_result([*judged, *(a_query(20 + i, None) for i in range(14))], *SIDES)
    assert (result.interval[0] > 0.5, result.bounds[0] < 0.5, result.shown) == (True, True, None)
    assert sentence(result).endswith(
        "No clear winner while 14 pairs are open: they leave anything from 44 to 85 % possible."
    )
    few_open = side_result([*judged, a_query(20, None)], *SIDES)
    assert few_open.shown == "better"
    assert sentence(few_open).endswith("Clear winner: B. With 1 open pair: 71 to 76 %.")


def test_nothing_judged_says_nothing():
    conclusions = compare_queries([a_query(0, None, None)], [a_side("A"), a_side("B")])
    assert conclusions.sentence == "Nothing was judged: 2 open pairs of `a` and `b`."
    assert conclusions.results[0].interval == conclusions.results[0].bounds == (0, 1)
    assert compare_queries([], [a_side("A"), a_side("B")]).sentence.startswith("Nothing was judged: `a` and `b` have")


def test_alike_queries_count_as_their_cluster():
    queries = [a_query(i, "second" if i < 20 else "first") for i in range(40)]
    clusters = {query.query: f"{i // 20}" for i, query in enumerate(queries)}
    alone, together = side_result(queries, *SIDES), side_result(queries, *SIDES, clusters=clusters)
    assert (alone.method, alone.clusters) == ("bootstrap", 40)
    assert (together.method, together.clusters, together.interval) == ("t", 2, (0, 1))


def test_a_judge_that_loves_length_prefers_nobody_at_equal_length():
    rng = np.random.default_rng(0)
    pairs: dict[str, list[Pair]] = {}
    for query in range(2000):
        lengths = np.rint(np.exp(rng.normal(6.5, 0.5) + rng.normal([0, 0.3], 0.3, (2, 2)))).astype(int).tolist()
        pairs[f"{query}"] = [
            Pair(outcome=float(rng.normal() + 3 * np.log(b / a) > 0), lengths=(a, b)) for a, b in lengths
        ]
    outcomes = [pair.outcome for listed in pairs.values() for pair in listed if pair.outcome is not None]
    controlled = length_controlled(pairs, None)
    assert controlled
    assert np.mean(outcomes) > 0.65
    assert controlled.value == pytest.approx(0.5, abs=0.02)
    assert controlled.low < 0.5 < controlled.high


@pytest.mark.parametrize(
    ("lengths", "outcomes"),
    [
        ([(100, 200)] * 40, [0.0, 1.0] * 20),  # the same difference everywhere
        ([(100, 200), (200, 100)] * 20, [1.0, 0.0] * 20),  # the longer one always wins
        ([(100, 150 + i) for i in range(40)], [1.0] * 40),  # nobody else ever wins
        ([(0, 0)] * 40, [0.5, 1.0] * 20),
        ([(None, 7)] * 40, [0.5, 1.0] * 20),
        ([(100, 200), (200, 100)] * 2, [1.0, 0.0, 0.0, 1.0]),  # too few
    ],
)
def test_where_the_fit_means_nothing_there_is_no_length_controlled_rate(lengths: list[Any], outcomes: list[float]):
    pairs = {
        f"{i}": [Pair(outcome=outcome, lengths=both)]
        for i, (outcome, both) in enumerate(zip(outcomes, lengths, strict=True))
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert length_controlled(pairs, None) is None


def test_figures_of_a_side_leave_out_the_infrastructures_failures():
    rollouts = (
        a_rollout(0, usd=1.0, tokens=10, verified=1.0),
        a_rollout(1, usd=3.0, status="failed", failure="timeout", verified=0.0),
        a_rollout(2, usd=99.0, status="failed", failure="network"),
    )
    queries = [a_query(i, "tie", rollouts=((), rollouts), left_out=(0, 1)) for i in range(8)]
    figures = side_figures(queries, 1, "B", 0)
    assert (figures.rollouts, figures.left_out) == (16, 8)
    assert figures.usd
    assert figures.failed
    assert figures.passed
    assert (figures.usd.value, figures.failed.value, figures.passed.value) == (2.0, 0.5, 0.5)
    assert figures.failed.low < 0.4 < 0.6 < figures.failed.high
    assert figures.duration_s is None
    alone = side_figures(queries[:1], 1, "B", 0).usd
    assert alone
    assert alone.low < 1 < 3 < alone.high
    assert side_figures(queries, 0, "A", 0).failed is None


@pytest.mark.parametrize("alike", [0.0, 0.8])
def test_the_time_that_95_percent_take_at_most_has_an_interval_that_holds_it(alike: float):
    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        of_query, own = rng.normal(size=(60, 1)), rng.normal(size=(60, 4))
        values = np.exp(np.sqrt(alike) * of_query + np.sqrt(1 - alike) * own)
        interval = share_below({f"q{i}": row.tolist() for i, row in enumerate(values)}, 0.95)
        assert interval is None or interval.low <= interval.value <= interval.high
        held += interval is None or interval.low <= np.exp(1.645) <= interval.high
    assert held >= 0.93 * 300
    assert share_below({"q": [1.0, 3.0, 2.0] * 30}, 0.95) == Interval(value=3.0, low=3.0, high=3.0)
    assert share_below({"a": [1.0] * 20, "b": [2.0] * 20}, 0.95) is None, "nothing lies surely above"
    assert share_below({}, 0.5) is None


def test_a_side_is_beaten_by_one_that_is_shown_to_win_costs_no_more_and_is_no_slower():
    fitted = [Strength(label=label, strength=Interval(value=0, low=-1, high=1)) for label in "ABC"]
    shown: dict[str, Any] = {"interval": (0.6, 0.8), "win_rate": 0.7, "p_holm": 0.001, "unjudged": 0}
    results = [a_result((), pair, clusters=9, **shown) for pair in ((0, 1), (0, 2), (1, 2))]  # the second of each wins

    def took(label: str, usd: float | None, seconds: float | None) -> SideFigures:
        def exactly(amount: float | None) -> Interval | None:
            return None if amount is None else Interval(value=amount, low=amount, high=amount)

        return SideFigures(label=label, rollouts=1, usd=exactly(usd), duration_p95=exactly(seconds))

    def beaten(*figures: SideFigures) -> list[tuple[str, ...]]:
        return [side.beaten_by for side in with_beaten(fitted, results, figures)]

    assert beaten(took("A", 2, 2), took("B", 1, 2), took("C", 3, 1)) == [("B",), (), ()]
    assert beaten(took("A", 2, 2), took("B", 1, 9), took("C", 2, None)) == [("C",), (), ()]
    assert beaten(*(took(label, None, None) for label in "ABC")) == [("B", "C"), ("C",), ()]
    apart = [result.model_copy(update={"run_together": False}) for result in results]
    slow = [took("A", 2, 2), took("B", 1, 9), took("C", 2, 9)]
    assert [side.beaten_by for side in with_beaten(fitted, apart, slow)] == [("B", "C"), (), ()]
    level = [result.model_copy(update={"p_holm": 0.2}) for result in results]
    assert {side.beaten_by for side in with_beaten(fitted, level, [took(label, 1, 1) for label in "ABC"])} == {()}


def test_slices_go_by_metadata_tools_and_length_with_p_corrected():
    def query(i: int) -> ComparedQuery:
        hard = i % 2 == 0
        tools = ("search",) if i < 15 else ()
        rollouts = tuple((a_rollout(1, tools=tools, answer_length=100 * i),) for _ in range(2))
        metadata = {"level": "hard" if hard else "easy", "id": i, "checked": True}
        return a_query(i, "second" if hard else "first", rollouts=rollouts, metadata=metadata)

    queries = [query(i) for i in range(30)] + [a_query(30, None, metadata={"level": "open"})]
    named = {(s.key, s.value): s for s in slices(queries, 0)}
    assert list(named) == [
        ("level", "easy"),
        ("level", "hard"),
        ("uses tools", "no"),
        ("uses tools", "yes"),
        *(("answer length", third) for third in ("short", "middle", "long")),
    ]
    hard = named["level", "hard"]
    assert (hard.queries, hard.win_rate and hard.win_rate.value, hard.p) == (15, 1.0, pytest.approx(7 * 2 / 10001))
    assert named["answer length", "long"].queries == 10
    named_alike = [query.model_copy(update={"metadata": {"answer length": i % 3}}) for i, query in enumerate(queries)]
    assert [s.value for s in slices(named_alike, 0)][:3] == ["0", "1", "2"]
    few = slices(queries[:8], 0)
    assert {(s.win_rate, s.p) for s in few if s.key == "id"} == {(None, None)}


def test_more_than_two_sides_have_strengths_and_p_by_holm():
    made = make(40, sides=3)
    conclusions = compare_queries(made.queries, [a_side(label) for label in "ABC"])
    assert [result.sides for result in conclusions.results] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert all(result.p_holm is not None and result.p_holm >= result.p for result in conclusions.results)
    values = [strength.strength for strength in conclusions.strengths]
    assert sum(value.value for value in values) == pytest.approx(0, abs=1e-12)
    assert all(value.low < value.value < value.high for value in values)
    assert conclusions.sentence.startswith("By strength: ")
    assert "after Holm's correction" in conclusions.sentence
    assert compare_queries(made.queries[:5], [a_side(label) for label in "ABC"]).strengths == ()


def test_no_strength_is_certain_where_one_side_won_everything_or_all_tied():
    def query(number: int, winner: Any) -> ComparedQuery:
        matches = tuple(
            CrossMatch(sides=pair, role="sample", first=0, second=0, winner=winner) for pair in ((0, 1), (0, 2), (1, 2))
        )
        return ComparedQuery(
            query=f"{number}", ids=("q",) * 3, text="?", rollouts=((a_rollout(0),),) * 3, matches=matches
        )

    for winner in ("second", "tie"):
        a, b, c = (side.strength for side in strengths([query(i, winner) for i in range(20)], "ABC", 0))
        assert (a.value < b.value < c.value) == (winner == "second")
        assert min(side.high - side.low for side in (a, b, c)) > 0.15


def mirrored(query: ComparedQuery) -> ComparedQuery:
    """Return what `compare B A` makes of a query of `compare A B`."""
    turned = {"first": "second", "second": "first"}
    matches = tuple(
        match.model_copy(
            update={
                "first": match.second,
                "second": match.first,
                "score_first": match.score_second,
                "score_second": match.score_first,
                "winner": turned.get(match.winner or "", match.winner),
                "forfeit": turned.get(match.forfeit or "", match.forfeit),
            }
        )
        for match in query.matches
    )
    return query.model_copy(update={"rollouts": query.rollouts[::-1], "matches": matches})


def turned_round(interval: Interval | None, whole: float) -> Any:
    return interval and pytest.approx((whole - interval.value, whole - interval.high, whole - interval.low), abs=1e-9)


@pytest.mark.parametrize("count", [12, 40])
def test_b_against_a_mirrors_every_figure_of_a_against_b(count: int):
    rng = np.random.default_rng(count)

    def with_lengths(query: ComparedQuery) -> ComparedQuery:
        rollouts = [
            [r.model_copy(update={"answer_length": int(rng.integers(50, 500))}) for r in s] for s in query.rollouts
        ]
        return query.model_copy(update={"rollouts": tuple(map(tuple, rollouts))})

    queries = [with_lengths(query) for query in make(count, failed=True).queries]
    queries.append(a_query(99, "tie", None))
    ours, theirs = side_result(queries, *SIDES), side_result([mirrored(query) for query in queries], *SIDES)
    assert ours.length_controlled
    assert ours.without_forfeits
    for name, whole in (("margin", 0), ("length_controlled", 1), ("without_forfeits", 1), ("anchors", 1)):
        figure = getattr(theirs, name)
        assert (figure.value, figure.low, figure.high) == turned_round(getattr(ours, name), whole), name
    assert theirs.interval == pytest.approx((1 - ours.interval[1], 1 - ours.interval[0]), abs=1e-12)
    assert theirs.bounds == pytest.approx((1 - ours.bounds[1], 1 - ours.bounds[0]))
    assert (theirs.better, theirs.worse, theirs.tied) == (ours.worse, ours.better, ours.tied)
    assert (theirs.p, theirs.flips, theirs.forfeits) == (ours.p, ours.flips, ours.forfeits[::-1])
    assert (theirs.detectable, theirs.enough_queries) == (pytest.approx(ours.detectable), ours.enough_queries)


def test_the_same_queries_in_any_order_give_the_same_figures():
    made = make(35, failed=True)
    sides = [a_side("A"), a_side("B")]
    assert compare_queries(made.queries, sides) == compare_queries(made.queries[::-1], sides)


def a_share(rate: float, half: float, **changes: Any) -> SideResult:
    ends = (rate - half, rate + half)
    plain = {"queries": 2000, "clusters": 2000, "win_rate": rate, "interval": ends, "enough_queries": None}
    return a_result([]).model_copy(update=plain | changes)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (a_share(0.51, 0.03), "Equal to within 4 points."),  # 51 % ± 2.52, at 90 %
        (a_share(0.49, 0.03), "Equal to within 4 points."),
        (a_share(0.5, 0.005), "Equal to within 1 point."),
        (a_share(0.51, 0.047), "Equal to within 5 points."),
        (a_share(0.51, 0.049), "No clear winner; about 6,700 queries would decide."),  # 5.1 points
        (
            a_share(0.501, 0.1, queries=40, clusters=40, enough_queries=33_000),
            "No clear winner; about 380 queries would decide.",
        ),
        (
            a_share(0.56, 0.115, queries=40, clusters=40, enough_queries=270),
            "No clear winner; about 270 queries would decide.",
        ),
        (a_share(0.53, 0.02), "Clear winner: B."),
        (a_share(0.47, 0.02), "Clear winner: A."),
        (a_share(0.5, 0.01, clusters=5), "No clear winner: fewer than 6 clusters decide nothing."),
        (
            a_share(0.5, 0.01, unjudged=9, bounds=(0.45, 0.55)),
            "No clear winner. With 9 open pairs: 45 to 55 %.",
        ),
    ],
)
def test_two_sides_are_equal_where_the_90_percent_interval_lies_within_five_points(result: SideResult, words: str):
    assert sentence(result).endswith(words)


def test_sides_are_named_by_what_tells_them_apart():
    def names(*changes: dict[str, Any]) -> tuple[str, ...]:
        return side_names([a_side(label, **change) for label, change in zip("ABC", changes, strict=False)])

    files = [{"instructions_file": "prompts/baseline.txt"}, {"instructions_file": "concise"}]
    assert names(*files) == ("`baseline`", "`concise`")
    alike = {"instructions_file": None}
    assert names({**alike, "agent": "a.py:x"}, {**alike, "agent": "b.py:x"}) == ("`a.py:x`", "`b.py:x`")
    assert names({**alike, "models": ("m", "n")}, {**alike, "models": ("m",)}) == ("`m + n`", "`m`")
    assert names(alike, alike) == ("A", "B")
    grid = [{**file, "models": (model,)} for file in files for model in "mn"]
    assert names(*grid[:3]) == ("`baseline on m`", "`baseline on n`", "`concise on m`")
    assert names({"instructions_file": "a`b.txt"}, files[1]) == ("A", "B"), "what would close the code span is no name"
    assert names(*files, {"instructions_file": "x/concise.md"}) == ("A", "B", "C")


def test_the_sentence_has_names_and_who_judged_in_which_orders():
    made = make(20)
    said = compare_queries(made.queries, [a_side("A"), a_side("B")], judge="`gpt-6.1-terra`").sentence
    assert said.startswith("`b` beats `a` on ")
    assert ", judged by `gpt-6.1-terra` in both orders. No clear winner; about " in said
    of_many = compare_queries(make(40, sides=3).queries, [a_side(label) for label in "ABC"]).sentence
    assert of_many.startswith("By strength: `")
