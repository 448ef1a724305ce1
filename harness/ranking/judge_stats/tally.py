"""How a judge decided: sums over a group's verdicts, which add up over groups."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import NamedTuple

from harness.core.rankings import GroupRanking, PairJudgment
from harness.ranking.judge_stats.agreement import Addable, Share, centred_ranks
from harness.ranking.judge_stats.orders import OrderSums, first_side, order_sums

TINY = 1e-9
"""Below this two margins of one decimal are the same."""
FLAT_FROM = 0.8
"""A judge that gives one whole mark to at least this share of all sides hardly uses the scale."""
_FEW = 8
"""Sides below which a histogram says nothing."""


class JudgeCall(NamedTuple):
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
class LengthSums(Addable):
    """Mean score and answer length as ranks within groups, about their means: sums over answers."""

    products: float = 0.0
    score_squares: float = 0.0
    length_squares: float = 0.0
    answers: int = 0


@dataclass(frozen=True)
class SideSums(Addable):
    """First-side effects b of the `margins` fits with their sds, weighted by the calls w of each group."""

    effects: float = 0.0
    """Sum of w b."""
    squares: float = 0.0
    """Sum of (w sd)^2."""
    weight: float = 0.0
    """Sum of w."""


@dataclass(frozen=True)
class NoiseSums(Addable):
    """Margins of verdicts that were bought again."""

    squares: float = 0.0
    """Sum of squares about the mean of each question."""
    freedom: int = 0
    """Degrees of freedom."""


@dataclass(frozen=True)
class Tally(Addable):
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
    """Verdicts that were asked for and failed."""
    stood_in: int = 0
    """Those of them that leave no match open: the verdicts of other jurors stand."""
    marks: Counter[int] = field(default_factory=Counter[int])
    """How many sides got a combined score that rounds (half up) to each whole mark 0..10."""
    length: LengthSums = LengthSums()
    side: SideSums = SideSums()
    noise: NoiseSums = NoiseSums()
    disagreements: Share = field(default_factory=Share)
    """Verdicts bought again that name another winner than the first of their kind."""
    orders: OrderSums = field(default_factory=OrderSums)

    @property
    def first_side(self) -> tuple[float, float] | None:
        """What standing first is worth in score points, mean over groups by their calls, and its posterior sd."""
        weight = self.side.weight
        return (self.side.effects / weight, math.sqrt(self.side.squares) / weight) if weight else None

    @property
    def first_side_is_real(self) -> bool:
        """Whether the first-side effect is more than 1.96 of its standard deviations from none."""
        return self.first_side is not None and abs(self.first_side[0]) > 1.96 * self.first_side[1]

    @property
    def length_correlation(self) -> float | None:
        """Spearman's correlation of score with answer length, ranks within groups; None where either is constant."""
        scores, lengths = self.length.score_squares, self.length.length_squares
        return self.length.products / math.sqrt(scores * lengths) if scores > 0 and lengths > 0 else None

    @property
    def self_noise(self) -> float | None:
        """The standard deviation of a margin when the same question is asked again; None if none was."""
        return math.sqrt(self.noise.squares / self.noise.freedom) if self.noise.freedom else None

    @property
    def flat_mark(self) -> tuple[int, float] | None:
        """The mark that nearly every side got, and the share that did; None for a judge that uses its scale."""
        total = sum(self.marks.values())
        if total < _FEW:
            return None
        mark, times = max(sorted(self.marks.items()), key=lambda at: at[1])
        return (mark, times / total) if times >= FLAT_FROM * total else None


def judge_calls(
    ranking: GroupRanking, verdicts: Iterable[PairJudgment], lengths: Mapping[int, int]
) -> dict[str, list[JudgeCall]]:
    """Return the calls a ranking rests on by judge; `lengths` are the answers' words by rollout.

    Each verdict counts once however many matches used it; one on two equal transcripts does not count.
    """
    shown = {
        key: (first, m.b if first == m.a else m.a)
        for m in ranking.matches
        for key, first in zip(m.verdicts, m.shown_first, strict=True)
    }
    by_judge: dict[str, list[JudgeCall]] = {}
    for v in {v.key: v for v in verdicts}.values():
        if v.first == v.second:
            continue
        first, second = shown.get(v.key, (-1, -1))
        by_judge.setdefault(v.judge, []).append(
            JudgeCall(
                first=v.first,
                second=v.second,
                score_first=v.a.combined,
                score_second=v.b.combined,
                repeat=v.repeat,
                claimed=bool(v.claims),
                claimed_winner="winner" in v.claims,
                repaired=v.repaired,
                length_first=lengths.get(first),
                length_second=lengths.get(second),
            )
        )
    return by_judge


def tally(calls: Sequence[JudgeCall], failed: int = 0) -> Tally:
    """Sum up one group's calls of one judge."""
    decided = [c.margin for c in calls if abs(c.margin) > TINY]
    margins: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for c in calls:
        margins[c.first, c.second].append(c.margin)
    means = {pair: round(sum(ms) / len(ms), 9) for pair, ms in sorted(margins.items())}
    both = [(m, means[j, i]) for (i, j), m in means.items() if i < j and (j, i) in means]
    noise, disagreements = _noise(calls)
    return Tally(
        verdicts=len(calls),
        flips=Share(sum(forth * back > TINY**2 for forth, back in both), len(both)),
        first_wins=Share(sum(m > 0 for m in decided), len(decided)),
        ties=Share(len(calls) - len(decided), len(calls)),
        cycles=_cycles(means),
        claims=Share(sum(c.claimed for c in calls), len(calls)),
        claimed_winners=sum(c.claimed_winner for c in calls),
        repaired=sum(c.repaired for c in calls),
        failed=failed,
        marks=Counter(math.floor(score + 0.5) for c in calls for score in (c.score_first, c.score_second)),
        length=_length(calls),
        side=_side(calls),
        noise=noise,
        disagreements=disagreements,
        orders=order_sums(means),
    )


def _cycles(means: Mapping[tuple[str, str], float]) -> Share:
    """Count the triples with all pairs judged, and those that go round, by sets of entrants as the bits of a number."""
    nodes = {node: k for k, node in enumerate(dict.fromkeys(node for pair in means for node in pair))}
    lead: defaultdict[tuple[int, int], float] = defaultdict(float)
    met, beats, beaten_by = ([0] * len(nodes) for _ in range(3))
    for (i, j), margin in means.items():
        a, b = nodes[i], nodes[j]
        lead[min(a, b), max(a, b)] += margin if a < b else -margin
        met[a] |= 1 << b
        met[b] |= 1 << a
    decided = [(a, b) if margin > 0 else (b, a) for (a, b), margin in lead.items() if abs(margin) > TINY]
    for winner, loser in decided:
        beats[winner] |= 1 << loser
        beaten_by[loser] |= 1 << winner
    cyclic = sum((beats[loser] & beaten_by[winner]).bit_count() for winner, loser in decided)
    return Share(cyclic // 3, sum((met[a] & met[b]).bit_count() for a, b in lead) // 3)


def _length(calls: Iterable[JudgeCall]) -> LengthSums:
    scores: defaultdict[str, list[float]] = defaultdict(list)
    lengths: dict[str, int] = {}
    for c in calls:
        sides = ((c.first, c.score_first, c.length_first), (c.second, c.score_second, c.length_second))
        for node, score, length in sides:
            if length is not None:
                scores[node].append(score)
                lengths[node] = length
    if len(lengths) < 2:
        return LengthSums()
    means = [round(sum(scores[node]) / len(scores[node]), 9) for node in lengths]
    ours, theirs = centred_ranks(means), centred_ranks(list(lengths.values()))
    pairs = ((ours, theirs), (ours, ours), (theirs, theirs))
    products, of_scores, of_lengths = (math.fsum(map(mul, *sides)) for sides in pairs)
    return LengthSums(products, of_scores, of_lengths, len(lengths))


def _side(calls: Sequence[JudgeCall]) -> SideSums:
    if not calls:
        return SideSums()
    nodes = {node: k for k, node in enumerate(dict.fromkeys(node for c in calls for node in (c.first, c.second)))}
    margins = [(nodes[c.first], nodes[c.second], c.score_first - c.score_second) for c in calls]
    effect, sd = first_side(len(nodes), margins)
    weight = float(len(calls))
    return SideSums(weight * effect, (weight * sd) ** 2, weight)


def _noise(calls: Sequence[JudgeCall]) -> tuple[NoiseSums, Share]:
    """Return the noise of questions asked again, and the share of replies that name another winner than the first."""
    by_question: defaultdict[tuple[str, str], list[JudgeCall]] = defaultdict(list)
    for c in calls:
        by_question[c.first, c.second].append(c)
    noise, disagreements = NoiseSums(), Share()
    for repeats in by_question.values() if len(by_question) < len(calls) else ():  # most questions are asked once
        margins = [c.margin for c in sorted(repeats, key=lambda c: c.repeat)]
        mean, again = sum(margins) / len(margins), len(margins) - 1
        noise += NoiseSums(sum((m - mean) ** 2 for m in margins), again)
        disagreements += Share(sum(_sign(m) != _sign(margins[0]) for m in margins[1:]), again)
    return noise, disagreements


def _sign(margin: float) -> int:
    return (margin > TINY) - (margin < -TINY)
