"""What a group's verdicts say of their judge, as sums that add up over groups."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from harness.core.rankings import GroupRanking
from harness.core.verdicts import Judged
from harness.ranking.comparisons import Comparisons
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.orders import OrderSums, order_sums
from harness.ranking.margins import fit_margins
from harness.ranking.ranks import average_ranks

_TINY = 1e-9
"""Below this two margins of one decimal are the same."""
FLAT_FROM = 0.8
"""A judge that gives one whole mark to at least this share of all sides hardly uses the scale."""
_FEW = 8
"""Sides below which a histogram says nothing."""


@dataclass(frozen=True)
class JudgeCall:
    """A verdict on two different transcripts, named by their hashes. Lengths are the answers', in words."""

    first: str
    second: str
    score_first: float
    score_second: float
    repeat: int = 0
    claimed: bool = False
    """The judge claimed an overall, a combined score or a winner that its own marks do not give."""
    claimed_winner: bool = False
    repaired: bool = False
    length_first: int | None = None
    length_second: int | None = None

    @property
    def margin(self) -> float:
        """The first's score less the second's, to the nearest billionth."""
        return round(self.score_first - self.score_second, 9)


@dataclass(frozen=True)
class Tally:
    """Sums over verdicts of one judge by one rubric. Two verdicts on one transcript against itself are in none."""

    verdicts: int = 0
    flips: Share = field(default_factory=Share)
    """Pairs judged in both orders of which the two orders name opposite winners."""
    first_wins: Share = field(default_factory=Share)
    """Verdicts with a winner that name the side shown first."""
    ties: Share = field(default_factory=Share)
    cycles: Share = field(default_factory=Share)
    """Triples with all three pairs judged of which each beats the next and the last the first."""
    claims: Share = field(default_factory=Share)
    claimed_winners: int = 0
    repaired: int = 0
    failed: int = 0
    """Verdicts that were asked for and are still to be had."""
    marks: Mapping[int, int] = field(default_factory=dict[int, int])
    """How many sides got a combined score that rounds (half up) to each whole mark 0..10."""
    length: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)
    """Of mean score and answer length as ranks within groups: sum of products, of squares of each, and the answers."""
    side: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """First-side effects of the `margins` fits: sum of w b, of (w sd)^2, and of w, the calls of each group."""
    noise: tuple[float, int] = (0.0, 0)
    """Of margins in verdicts bought again: sum of squares about their mean, and degrees of freedom."""
    disagreements: Share = field(default_factory=Share)
    """Verdicts bought again that name another winner than the first of their kind."""
    orders: OrderSums = field(default_factory=OrderSums)

    def __add__(self, other: "Tally") -> "Tally":
        plain = (
            "verdicts",
            "flips",
            "first_wins",
            "ties",
            "cycles",
            "claims",
            "claimed_winners",
            "repaired",
            "failed",
            "disagreements",
            "orders",
        )
        sums = {n: getattr(self, n) + getattr(other, n) for n in plain}
        pairwise = ("length", "side", "noise")
        sums |= {n: tuple(a + b for a, b in zip(getattr(self, n), getattr(other, n), strict=True)) for n in pairwise}
        assert {*sums, "marks"} == {f.name for f in fields(self)}  # noqa: S101 - a field that is forgotten is never added
        return Tally(**sums, marks=dict(sorted((Counter(self.marks) + Counter(other.marks)).items())))

    @property
    def first_side(self) -> tuple[float, float] | None:
        """What standing first is worth in score points, mean over groups by their calls, and its posterior sd."""
        total, squares, weight = self.side
        return (total / weight, math.sqrt(squares) / weight) if weight else None

    @property
    def first_side_is_real(self) -> bool:
        """Whether the first-side effect is more than 1.96 of its standard deviations from none."""
        return self.first_side is not None and abs(self.first_side[0]) > 1.96 * self.first_side[1]

    @property
    def length_correlation(self) -> float | None:
        """Spearman's correlation of score with answer length, ranks within groups; None where either is constant."""
        products, scores, lengths, _ = self.length
        return products / math.sqrt(scores * lengths) if scores > 0 and lengths > 0 else None

    @property
    def self_noise(self) -> float | None:
        """The standard deviation of a margin when the very same is asked again; None if nothing was."""
        squares, freedom = self.noise
        return math.sqrt(squares / freedom) if freedom else None

    @property
    def flat_mark(self) -> tuple[int, float] | None:
        """The mark that nearly every side got, and the share that did; None for a judge that uses its scale."""
        total = sum(self.marks.values())
        if total < _FEW:
            return None
        mark, times = max(self.marks.items(), key=lambda at: at[1])
        return (mark, times / total) if times >= FLAT_FROM * total else None


def judge_calls(
    ranking: GroupRanking, verdicts: Iterable[Judged], lengths: Mapping[int, int]
) -> dict[str, list[JudgeCall]]:
    """Return the calls a ranking rests on by judge; `lengths` are the answers' words by rollout.

    Each verdict counts once however many matches used it; one on two equal transcripts does not count.
    """
    shown = {
        key: (first, m.b if first == m.a else m.a)
        for m in ranking.matches
        for key, first in zip(m.verdicts, m.shown_first, strict=True)
    }
    found: dict[str, list[JudgeCall]] = {}
    for v in {v.key: v for v in verdicts}.values():
        if v.first == v.second:
            continue
        first, second = shown.get(v.key, (-1, -1))
        found.setdefault(v.judge, []).append(
            JudgeCall(
                v.first,
                v.second,
                v.a.combined,
                v.b.combined,
                v.repeat,
                bool(v.claims),
                "winner" in v.claims,
                v.repaired,
                lengths.get(first),
                lengths.get(second),
            )
        )
    return found


def tally(calls: Sequence[JudgeCall], failed: int = 0) -> Tally:
    """Sum up one group's calls of one judge."""
    decided = [c.margin for c in calls if abs(c.margin) > _TINY]
    means = _margins(calls)
    noise, others = _noise(calls)
    return Tally(
        verdicts=len(calls),
        flips=_flips(means),
        first_wins=Share(sum(m > 0 for m in decided), len(decided)),
        ties=Share(len(calls) - len(decided), len(calls)),
        cycles=_cycles(means),
        claims=Share(sum(c.claimed for c in calls), len(calls)),
        claimed_winners=sum(c.claimed_winner for c in calls),
        repaired=sum(c.repaired for c in calls),
        failed=failed,
        marks=_marks(calls),
        length=_length(calls),
        side=_side(calls),
        noise=noise,
        disagreements=others,
        orders=order_sums(means),
    )


def _margins(calls: Iterable[JudgeCall]) -> dict[tuple[str, str], float]:
    """Return the mean margin of each pair in each order, over repeats."""
    heard: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for c in calls:
        heard[c.first, c.second].append(c.margin)
    return {pair: round(sum(ms) / len(ms), 9) for pair, ms in sorted(heard.items())}


def _flips(means: Mapping[tuple[str, str], float]) -> Share:
    both = [(m, means[j, i]) for (i, j), m in means.items() if i < j and (j, i) in means]
    return Share(sum(forth * back > _TINY**2 for forth, back in both), len(both))


def _cycles(means: Mapping[tuple[str, str], float]) -> Share:
    """Count triples by matrix products: trace(J^3)/6 of them are judged, trace(W^3)/3 go round."""
    nodes = {node: k for k, node in enumerate(dict.fromkeys(node for pair in means for node in pair))}
    lead, met = (np.zeros((len(nodes), len(nodes))) for _ in range(2))
    for (i, j), margin in means.items():
        a, b = nodes[i], nodes[j]
        met[a, b] = met[b, a] = 1
        lead[a, b] += margin
        lead[b, a] -= margin
    beats = (lead > _TINY).astype(float)
    return Share(round(float(np.trace(beats @ beats @ beats)) / 3), round(float(np.trace(met @ met @ met)) / 6))


def _marks(calls: Iterable[JudgeCall]) -> dict[int, int]:
    return dict(sorted(Counter(math.floor(s + 0.5) for c in calls for s in (c.score_first, c.score_second)).items()))


def _length(calls: Iterable[JudgeCall]) -> tuple[float, float, float, int]:
    scores: defaultdict[str, list[float]] = defaultdict(list)
    lengths: dict[str, int] = {}
    for c in calls:
        for node, score, length in (
            (c.first, c.score_first, c.length_first),
            (c.second, c.score_second, c.length_second),
        ):
            if length is not None:
                scores[node].append(score)
                lengths[node] = length
    if len(lengths) < 2:
        return 0.0, 0.0, 0.0, 0
    score_ranks = average_ranks({node: round(sum(scores[node]) / len(scores[node]), 9) for node in lengths})
    length_ranks = average_ranks(lengths)
    ours, theirs = (np.array([float(ranks[node]) for node in lengths]) for ranks in (score_ranks, length_ranks))
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    return float(ours @ theirs), float(ours @ ours), float(theirs @ theirs), len(lengths)


def _side(calls: Sequence[JudgeCall]) -> tuple[float, float, float]:
    if not calls:
        return 0.0, 0.0, 0.0
    nodes = {node: k for k, node in enumerate(dict.fromkeys(node for c in calls for node in (c.first, c.second)))}
    fit = fit_margins(
        Comparisons.of(
            len(nodes),
            [nodes[c.first] for c in calls],
            [nodes[c.second] for c in calls],
            [c.score_first for c in calls],
            [c.score_second for c in calls],
        )
    )
    weight = float(len(calls))
    return weight * fit.first_side, (weight * fit.first_side_sd) ** 2, weight


def _noise(calls: Iterable[JudgeCall]) -> tuple[tuple[float, int], Share]:
    asked: defaultdict[tuple[str, str], list[JudgeCall]] = defaultdict(list)
    for c in calls:
        asked[c.first, c.second].append(c)
    squares, freedom, others = 0.0, 0, Share()
    for same in asked.values():
        told = [c.margin for c in sorted(same, key=lambda c: c.repeat)]
        mean = sum(told) / len(told)
        squares, freedom = squares + sum((m - mean) ** 2 for m in told), freedom + len(told) - 1
        others += Share(sum(_sign(m) != _sign(told[0]) for m in told[1:]), len(told) - 1)
    return (squares, freedom), others


def _sign(margin: float) -> int:
    return (margin > _TINY) - (margin < -_TINY)
