"""All that a comparison says: of each two sides, of each side, and of all of them together."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

import numpy as np

from harness.comparison import intervals, outcomes
from harness.comparison.rectified import LabelledSums, Rectified
from harness.comparison.side_results import side_result, slices
from harness.core import comparisons
from harness.core.errors import counted, round_number
from harness.core.records import AGENT_FAILURES, whole_percent

_STEPS, _ENOUGH, _LONGEST_STEP = 60, 1e-10, 2.0
_ADDED_TIE = 0.5
"""For each two sides half a query more, tied: without it a side that won everything would be infinitely strong."""


def strengths(
    queries: Sequence[comparisons.ComparedQuery],
    labels: Sequence[str],
    seed: int,
    clusters: Mapping[str, str] | None = None,
    labels_of_people: outcomes.PairLabels | None = None,
) -> tuple[comparisons.Strength, ...]:
    """Return the strength of each side: log odds of a win, their mean 0, with intervals by drawing the clusters again.

    Among the clusters are, for each two sides, one query more that either won, so that no draw of sides of which one
    won everything takes that for certain. `labels` are of all sides, in their order. Nothing below six clusters. With
    `labels_of_people` a side's wins are what people would say of them (harness.comparison.rectified).
    """
    met = list(combinations(range(len(labels)), 2))
    won, played = _by_cluster(queries, met, clusters, labels_of_people)
    count = won.shape[1]
    if count < comparisons.FEWEST_SHOWING:
        return ()
    one, none = np.eye(len(met)), np.zeros((len(met), len(met)))
    sums = (*np.hstack([won, one, none]), *np.hstack([played, one, one]))

    def fitted(*drawn: outcomes.Numbers, axis: int = -1) -> outcomes.Numbers:
        won, played = np.split(np.stack([clusters.sum(axis) for clusters in drawn]), 2)
        return bradley_terry(np.clip(won, 0, played), played, met)

    worth = outcomes.Clusters(played.sum(0), played.sum(0), isinstance(clusters, outcomes.OfOneSize)).fewest
    ends = [intervals.quantiles(of_side, worth) for of_side in intervals.redrawn(sums, fitted, seed)]
    return tuple(
        comparisons.Strength(label=label, strength=comparisons.Interval(value=float(value), low=low, high=high))
        for label, value, (low, high) in zip(labels, fitted(*sums), ends, strict=True)
    )


def with_beaten(
    fitted: Sequence[comparisons.Strength],
    results: Sequence[comparisons.SideResult],
    figures: Sequence[comparisons.SideFigures],
) -> tuple[comparisons.Strength, ...]:
    """Return the strengths with the sides that beat each in quality, cost and, if they did not run apart, time."""
    of = {side.label: side for side in figures}

    def beats(result: comparisons.SideResult, better: comparisons.SideFigures, worse: comparisons.SideFigures) -> bool:
        pairs = [(better.usd, worse.usd)]
        pairs += [] if result.run_together is False else [(better.duration_p95, worse.duration_p95)]
        return all(a.value <= b.value for a, b in pairs if a and b)

    wins = [(r, *(r.sides if r.shown == "worse" else r.sides[::-1])) for r in results if r.shown]
    beaten = [(b, a) for r, a, b in wins if beats(r, of[a], of[b])]
    return tuple(
        side.model_copy(update={"beaten_by": tuple(a for b, a in beaten if b == side.label)}) for side in fitted
    )


def bradley_terry(won: outcomes.Numbers, played: outcomes.Numbers, met: Sequence[tuple[int, int]]) -> outcomes.Numbers:
    """Return the maximum likelihood strengths [S, ...] of sides, their mean 0, half a tie added for each of `met`.

    `won` [P, ...] is how often the second of each of `met` won, of `played`; further axes are draws. By Newton's
    method, all draws at once. `met` connects all sides.
    """
    design = np.zeros((len(met), 1 + max(second for _, second in met)))
    for row, (first, second) in enumerate(met):
        design[row, first], design[row, second] = -1.0, 1.0
    free = design[:, :-1]  # the last side stands at 0 until the end
    wins, games = np.moveaxis(won + _ADDED_TIE / 2, 0, -1), np.moveaxis(played + _ADDED_TIE, 0, -1)
    at: outcomes.Numbers = np.zeros((*wins.shape[:-1], free.shape[1]))
    for _ in range(_STEPS):
        chance = (1 + np.tanh(at @ free.T / 2)) / 2
        slope = (wins - games * chance) @ free
        information: outcomes.Numbers = np.einsum("pi,...p,pj->...ij", free, games * chance * (1 - chance), free)
        step = np.asarray(np.linalg.solve(information, slope[..., None])[..., 0], np.float64)
        at = at + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        if np.abs(step).max() < _ENOUGH:
            break
    whole = np.concatenate([at, np.zeros((*at.shape[:-1], 1))], axis=-1)
    return np.moveaxis(whole - whole.mean(axis=-1, keepdims=True), -1, 0)


def _by_cluster(
    queries: Sequence[comparisons.ComparedQuery],
    met: Sequence[tuple[int, int]],
    clusters: Mapping[str, str] | None,
    labels_of_people: outcomes.PairLabels | None,
) -> tuple[outcomes.Numbers, outcomes.Numbers]:
    """Return for each two sides [P, C] what the second one won in each cluster, and on how many queries they met."""
    pairs = [outcomes.side_pairs(queries, sides, labels=labels_of_people) for sides in met]
    means = [outcomes.mean_by_query(outcomes.of_pairs(of_sides)) for of_sides in pairs]
    names = sorted({outcomes.cluster_name(query, clusters) for of_pair in means for query in of_pair})
    place = {name: i for i, name in enumerate(names)}
    won, played = np.zeros((len(met), len(names))), np.zeros((len(met), len(names)))
    for row, of_pair in enumerate(means):
        for query, mean in of_pair.items():
            column = place[outcomes.cluster_name(query, clusters)]
            won[row, column] += mean
            played[row, column] += 1
        if labels_of_people:
            sums = LabelledSums.of(pairs[row], clusters)
            won[row, [place[name] for name in sums.names]] = Rectified(sums).people_say
    return won, played


_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/:@+-]{0,39}")


def name_in_backticks(name: str) -> str:
    """Return a name as a sentence holds it; empty where it is long or might mean something in Markdown."""
    return f"`{name}`" if _PLAIN_NAME.fullmatch(name) else ""


def side_names(sides: Sequence[comparisons.ComparedSide]) -> tuple[str, ...]:
    """Return what sentences call the sides, in backticks: instructions file, agent or models, whichever differs first.

    Else the file with the models, as in a grid; the labels where nothing tells all sides apart.
    """
    files = [(side.instructions_file or "").rpartition("/")[2].rpartition(".") for side in sides]
    prompts, models = [stem or suffix for stem, _, suffix in files], [" + ".join(side.models) for side in sides]
    crossed = [f"{prompt} on {model}" for prompt, model in zip(prompts, models, strict=True)]
    for names in (prompts, [side.agent for side in sides], models, crossed):
        if len(set(names)) == len(sides) and all(map(name_in_backticks, names)):
            return tuple(map(name_in_backticks, names))
    return tuple(side.label for side in sides)


def sentence(result: comparisons.SideResult, names: Sequence[str] | None = None, judge: str = "") -> str:
    """Return what to take home of two sides, in the words that stdout, the page and a pull request show.

    `names` are what the sides are called, in place of their labels, and `judge` is who judged.
    """
    a, b = names or result.sides
    open_pairs = counted(result.unjudged, "open pair")
    if not result.queries:
        why = f"{open_pairs} of {a} and {b}" if result.unjudged else f"{a} and {b} have no pair of samples"
        return f"Nothing was judged: {why}."
    low, high, least, most = map(whole_percent, (*result.interval, *result.bounds))
    clusters = "" if result.clusters == result.queries else f" ({counted(result.clusters, 'cluster')})"
    by, judged, people = "", result.pairs - sum(result.forfeits), result.people
    if judge and judged:
        orders = {judged: " in both orders", 0: " in one order"}.get(result.both_orders, "")
        by = f", judged by {judge}{orders}"
    if people and people.rate:
        share, lowest, highest = map(whole_percent, (people.rate.value, people.rate.low, people.rate.high))
        by += f"; by people, with {counted(people.labels, 'labelled pair')}, in {share} % [{lowest}, {highest}]"
    figures = (
        f"{b} beats {a} on {result.better:,} of {counted(result.queries, 'query', 'queries')}{clusters}, loses on "
        f"{result.worse:,}, ties on {result.tied:,}: preferred in {whole_percent(result.win_rate)} % [{low}, {high}]"
        f"{by}."
    )
    if result.open_pairs_decide and comparisons.leaves_out_half(result.clusters, result.interval):
        pairs = counted(result.unjudged, "pair is", "pairs are")
        return f"{figures} No clear winner while {pairs} open: they leave anything from {least} to {most} % possible."
    bounds = f" With {open_pairs}: {least} to {most} %." if result.unjudged else ""
    return f"{figures} {_conclusion(result, a, b)}{bounds}"


def _conclusion(result: comparisons.SideResult, a: str, b: str) -> str:
    if direction := result.shown:
        return f"Clear winner: {b if direction == 'better' else a}."
    unit = "queries" if result.clusters == result.queries else "clusters"
    if result.clusters < comparisons.FEWEST_SHOWING:
        return f"No clear winner: fewer than {comparisons.FEWEST_SHOWING} {unit} decide nothing."
    if points := result.equal_within:
        return f"Equal to within {counted(points, 'point')}."
    if result.people and result.people.rate and result.people.more_labels:
        more = round_number(result.people.more_labels)
        return f"No clear winner; about {more} more labels would tell to within 5 points."
    if result.deciding_queries is None:
        return "No clear winner."
    return f"No clear winner; about {round_number(result.deciding_queries)} queries would decide."


def sentence_of_many(
    results: Sequence[comparisons.SideResult], strengths: Sequence[comparisons.Strength], names: Mapping[str, str]
) -> str:
    """Return what to take home of more than two sides: their order by strength, and what is shown after Holm.

    `names` says for each label what the side is called.
    """
    shown = [result.sides[::-1] if result.shown == "better" else result.sides for result in results if result.shown]
    wins = ", ".join(f"{names[better]} over {names[worse]}" for better, worse in shown)
    proven = f"Shown after Holm's correction: {wins}." if wins else "No difference is shown after Holm's correction."
    ordered = sorted(strengths, key=lambda side: (-side.strength.value, side.label))
    return f"By strength: {', '.join(names[side.label] for side in ordered)}. {proven}" if ordered else proven


def side_figures(
    queries: Sequence[comparisons.ComparedQuery],
    side: int,
    label: str,
    seed: int,
    clusters: Mapping[str, str] | None = None,
) -> comparisons.SideFigures:
    """Return cost, tokens, latency, steps, failures and rewards of one side's rollouts over the shared queries.

    Each query counts the same. A mean is over the rollouts of which the figure is known, without those that failed by
    the infrastructure's fault. With one query alone the interval is over its rollouts.
    """
    rollouts = _that_count(queries, side)

    def by_query(figure: Callable[[comparisons.ComparedRollout], float | None]) -> dict[str, list[float]]:
        return {query: [v for r in listed if (v := figure(r)) is not None] for query, listed in rollouts.items()}

    def summed(figure: Callable[[comparisons.ComparedRollout], float | None]) -> outcomes.Clusters:
        return outcomes.Clusters.of(
            outcomes.mean_by_query(outcomes.split_alone(by_query(figure))), clusters if len(rollouts) > 1 else None
        )

    known = summed(lambda r: r.cost.known)
    every_price = all(r.usd is not None for listed in rollouts.values() for r in listed)
    paid = intervals.interval_of_mean(known, seed) if every_price or known.sums.any() else None
    failed, rewards = summed(lambda r: float(r.status == "failed")), summed(lambda r: r.verified)
    # mostly 0 or 1, and their mean a share; but an agent's file may give any number
    are_shares = rewards.count and bool(((rewards.sums >= 0) & (rewards.sums <= rewards.sizes)).all())
    interval_of_rewards = intervals.interval_of_share if are_shares else intervals.interval_of_mean
    return comparisons.SideFigures(
        label=label,
        rollouts=sum(len(listed) for listed in rollouts.values()),
        failed=intervals.interval_of_share(failed, seed) if failed.count else None,
        left_out=sum(query.left_out[side] for query in queries if query.left_out),
        **{"usd" if every_price else "usd_at_least": paid},
        tokens=intervals.interval_of_mean(summed(lambda r: r.tokens), seed),
        duration_s=intervals.interval_of_mean(summed(lambda r: r.duration_s), seed),
        duration_p50=intervals.share_below(by_query(lambda r: r.duration_s), 0.5, clusters),
        duration_p95=intervals.share_below(by_query(lambda r: r.duration_s), 0.95, clusters),
        steps=intervals.interval_of_mean(summed(lambda r: r.steps), seed),
        passed=interval_of_rewards(rewards, seed),
    )


def _that_count(
    queries: Sequence[comparisons.ComparedQuery], side: int
) -> dict[str, list[comparisons.ComparedRollout]]:
    return {
        query.query: [r for r in query.rollouts[side] if r.status == "ok" or r.failure in AGENT_FAILURES]
        for query in queries
    }


def run_together(queries: Sequence[comparisons.ComparedQuery], sides: tuple[int, int]) -> bool | None:
    """Tell whether two sides were run at the same time; None where it is not known when either was.

    At least half of the rollouts of each began while the other side's were being run.
    """
    spans = [
        [
            (at, at + timedelta(seconds=r.duration_s or 0))
            for q in queries
            for r in q.rollouts[side]
            if (at := r.started_at)
        ]
        for side in sides
    ]
    if not all(spans):
        return None

    def began_within(ones: Sequence[tuple[datetime, datetime]], others: Sequence[tuple[datetime, datetime]]) -> bool:
        first, last = min(at for at, _ in others), max(end for _, end in others)
        return 2 * sum(first <= at <= last for at, _ in ones) >= len(ones)

    return began_within(*spans) and began_within(*spans[::-1])


def _with_times(
    result: comparisons.SideResult,
    queries: Sequence[comparisons.ComparedQuery],
    sides: tuple[int, int],
    clusters: Mapping[str, str] | None,
) -> comparisons.SideResult:
    facts: dict[str, object] = {"run_together": run_together(queries, sides)}
    if facts["run_together"]:
        first, second = (
            {query: [r.duration_s for r in listed if r.duration_s is not None] for query, listed in of_side.items()}
            for of_side in (_that_count(queries, side) for side in sides)
        )
        for name, share in (("slower_p50", 0.5), ("slower_p95", 0.95)):
            facts[name] = intervals.later_below(first, second, share, clusters)
    return result.model_copy(update=facts)


@dataclass(frozen=True)
class Conclusions:
    """The parts of a `Comparison` that statistics give, by the names that they have there."""

    sentence: str
    results: tuple[comparisons.SideResult, ...]
    strengths: tuple[comparisons.Strength, ...]
    figures: tuple[comparisons.SideFigures, ...]
    slices: tuple[comparisons.Slice, ...]


def compare_queries(
    queries: Sequence[comparisons.ComparedQuery],
    sides: Sequence[comparisons.ComparedSide],
    *,
    clusters: Mapping[str, str] | None = None,
    floors: Mapping[int, float] | None = None,
    seed: int = 0,
    judge: str = "",
    labels_of_people: outcomes.PairLabels | None = None,
) -> Conclusions:
    """Work out everything that the matches of two sides or more say.

    `clusters` names the cluster of a query's content hash. `floors` holds, by a side's place, the standard deviation of
    a query's win rate between that side and itself, where it was measured. Slices are of two sides only, strengths
    of more than two. The sentence names the `judge`. Where people labelled six clusters or more, it goes by what they
    would say.
    """
    labels = [side.label for side in sides]
    results = [
        side_result(
            queries,
            (a, b),
            (labels[a], labels[b]),
            clusters=clusters,
            floor=(floors or {}).get(a),
            seed=seed,
            labels_of_people=labels_of_people,
        )
        for a, b in combinations(range(len(sides)), 2)
    ]
    names, many = side_names(sides), len(sides) > 2
    if many:
        corrected = intervals.holm([result.deciding_p for result in results])
        results = [r.model_copy(update={"p_holm": p}) for r, p in zip(results, corrected, strict=True)]
    figures = [side_figures(queries, side, label, seed, clusters) for side, label in enumerate(labels)]
    pairings = zip(results, combinations(range(len(sides)), 2), strict=True)
    results = [_with_times(result, queries, pair, clusters) for result, pair in pairings]
    of_people = labels_of_people if all(result.people and result.people.rate for result in results) else None
    fitted = with_beaten(strengths(queries, labels, seed, clusters, of_people) if many else (), results, figures)
    return Conclusions(
        sentence=sentence_of_many(results, fitted, dict(zip(labels, names, strict=True)))
        if many
        else sentence(results[0], names, judge),
        results=tuple(results),
        strengths=fitted,
        figures=tuple(figures),
        slices=() if many else slices(queries, seed, clusters),
    )
