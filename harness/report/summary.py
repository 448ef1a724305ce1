"""What people want to know first, computed from an archive's records. Pure; tables and page draw it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from harness.core.rankings import Agreement, GroupRanking, Match, Ranked
from harness.core.records import Group, Rollout, Step
from harness.core.sums import sum_if_known
from harness.core.verdicts import AnyVerdict, Judged, Unjudged, Unscored
from harness.ranking import Tally, judge_calls, tally

_NOISE: dict[str, str] = {
    "none": "this ranking is noise: no two scores in its matches differ, so all that was judged shares one rank",
    "weak": "this ranking is noise, or close to it: the scores do not tell these rollouts apart (signal weak)",
}
Verdicts = Callable[[str], Judged | None]
"""Finds a verdict by its key."""
Tallies = Mapping[str, Tally]
"""By judge."""


@dataclass(frozen=True)
class Row:
    """One rollout and its place, for a table."""

    rollout: Rollout
    ranked: Ranked


@dataclass(frozen=True)
class Duel:
    """The match of the first two places: scores, whether the orders agree, what it was won and lost on."""

    first: int
    second: int
    score_first: float
    score_second: float
    agreement: str
    won: tuple[tuple[str, float], ...]
    """Dimensions in which the first is ahead, mean marks over the orders, largest lead first."""
    lost: tuple[tuple[str, float], ...]

    def reasons(self, lead: Callable[[str, float], str], most: int | None = None) -> list[str]:
        """Return a clause on what it was won on and one on what it was lost on, each with its `most` largest leads."""
        return [
            f"{how} on {', '.join(lead(name, marks) for name, marks in leads[:most])}"
            for how, leads in (("won", self.won), ("lost", self.lost))
            if leads
        ]


@dataclass(frozen=True)
class Outcome:
    """Who came out first in a group, and how the first two stand to each other."""

    ranked: tuple[Rollout, ...]
    """Those that have a rank, best first."""
    leaders: tuple[Rollout, ...]
    """Those that share first place."""
    duel: Duel | None
    listed: tuple[float, float] | None = None
    """Scores of the first two where a listwise judge gave them; such rollouts meet in no match."""

    @property
    def first_two(self) -> str:
        """Who stands above whom and by which scores, without a full stop; at least two must be ranked."""
        first, second = (named(r) for r in self.ranked[:2])
        met = self.duel
        if self.listed:
            return f"#1 {first} stands above #2 {second}: {self.listed[0]:g} v {self.listed[1]:g}, judged in one list"
        if met is None:
            return f"#1 {first} stands above #2 {second}; the two never met"
        verb = "beats" if met.score_first > met.score_second else "stands above"
        return f"#1 {first} {verb} #2 {second}: {met.score_first:g} v {met.score_second:g}, {met.agreement}"


@dataclass(frozen=True)
class JudgeFigures:
    """How the judge behaved and what it cost, over one or more groups."""

    matches: int = 0
    both_orders: int = 0
    """Matches judged in both orders with two different transcripts: the ones that can flip."""
    flips: int = 0
    decided: int = 0
    """Verdicts with a winner, of two different transcripts."""
    first_wins: int = 0
    failed: int = 0
    bought: int = 0
    reused: int = 0
    calls: int = 0
    """Model calls paid for in this ranking, repair turns included."""
    cached: int = 0
    """Input tokens that the provider says came from its cache."""
    usd: float | None = 0.0

    def __add__(self, other: "JudgeFigures") -> "JudgeFigures":
        """Add up; a bill with an unknown part is unknown."""
        names = [f.name for f in fields(self) if f.name != "usd"]
        return JudgeFigures(
            **{n: getattr(self, n) + getattr(other, n) for n in names}, usd=sum_if_known((self.usd, other.usd))
        )

    @property
    def first_share(self) -> float | None:
        """Share of decided verdicts that the first-shown side won; one half is unbiased."""
        return self.first_wins / self.decided if self.decided else None


@dataclass(frozen=True)
class AgentFigures:
    """What the rollouts came to and cost."""

    runs: int
    failed: Counter[str]
    tokens: int | None
    usd: float | None

    @classmethod
    def none(cls) -> "AgentFigures":
        """Return the figures of no rollout at all."""
        return cls(0, Counter(), None, 0.0)

    def __add__(self, other: "AgentFigures") -> "AgentFigures":
        """Add up; a bill with an unknown part is unknown."""
        told = [t for t in (self.tokens, other.tokens) if t is not None]
        return AgentFigures(
            self.runs + other.runs,
            self.failed + other.failed,
            sum(told) if told else None,
            sum_if_known((self.usd, other.usd)),
        )


def rows(group: Group, ranking: GroupRanking | None) -> list[Row]:
    """Return the rollouts best first; those without a rank last, by index."""
    places = {r.index: r for r in ranking.rollouts} if ranking else {}
    found = [Row(r, places.get(r.index) or Ranked(index=r.index)) for r in group.rollouts]
    return sorted(found, key=lambda r: (r.ranked.rank is None, r.ranked.rank or 0.0, r.rollout.index))


def place_of(row: Row, ranked: Sequence[Row]) -> str:
    """Return a place for people: from 1; `=` before places that several share; `–` for none."""
    rank = row.ranked.rank
    if rank is None:
        return "–"
    better = sum(r.ranked.rank is not None and r.ranked.rank < rank for r in ranked)
    shared = sum(r.ranked.rank == rank for r in ranked) > 1
    return f"{'=' if shared else ''}{better + 1}"


def places_by_margins(ranked: Iterable[Ranked]) -> dict[int, str]:
    """Return the place that the margins alone would give, for people, by rollout; of those that have a margin."""
    margins = {r.index: r.margin for r in ranked if r.margin is not None}
    every = list(margins.values())
    return {i: f"{'=' if every.count(m) > 1 else ''}{1 + sum(o > m for o in every)}" for i, m in margins.items()}


def certainty(group: Group, ranking: GroupRanking) -> str | None:
    """Return how sure first place is, and where the margins see the group otherwise; None where nothing is told."""
    best = [row for row in rows(group, ranking) if row.ranked.rank is not None and row.ranked.p_best is not None]
    if len(best) < 2 or ranking.signal == "none":
        return None
    by_margins = places_by_margins(row.ranked for row in best)
    told = [f"{named(best[0].rollout)} is the best with a probability of {best[0].ranked.p_best or 0:.0%}"]
    likely = max(best, key=lambda row: row.ranked.p_best or 0)
    if (likely.ranked.p_best or 0) > (best[0].ranked.p_best or 0):
        told.append(f"rollout {likely.rollout.index} with {likely.ranked.p_best or 0:.0%}")
    differ = sum(place_of(row, best) != by_margins[row.rollout.index] for row in best)
    if differ:
        told.append(f"{ranking.estimator} and margins differ on {differ} of {len(best)} places")
    return "; ".join(told)


def named(rollout: Rollout) -> str:
    """Return what a sentence calls a rollout."""
    return f"rollout {rollout.index} ({rollout.role})"


def outcome(group: Group, ranking: GroupRanking, verdicts: Verdicts) -> Outcome:
    """Return who came out first, and the match of the first two."""
    best = [row for row in rows(group, ranking) if row.ranked.rank is not None]
    return Outcome(
        ranked=tuple(row.rollout for row in best),
        leaders=tuple(row.rollout for row in best if row.ranked.rank == best[0].ranked.rank),
        duel=duel(group, ranking, verdicts),
        listed=_listed([row.ranked for row in best[:2]]) if ranking.verdicts else None,
    )


def _listed(first_two: Sequence[Ranked]) -> tuple[float, float] | None:
    scores = [r.score for r in first_two if r.score is not None]
    return (scores[0], scores[1]) if len(scores) == 2 else None


def duel(group: Group, ranking: GroupRanking, verdicts: Verdicts) -> Duel | None:
    """Return the match between the first two places, the latest if they met more than once; None if they never met."""
    best = [r.rollout.index for r in rows(group, ranking) if r.ranked.rank is not None][:2]
    met = [m for m in ranking.matches if {m.a, m.b} == set(best)]
    if len(best) < 2 or not met:
        return None
    match = met[-1]
    leads = _leads(match, best[0], verdicts)
    own, other = (match.score_a, match.score_b) if match.a == best[0] else (match.score_b, match.score_a)
    return Duel(
        best[0],
        best[1],
        own,
        other,
        _agreement(match),
        tuple(sorted(((k, v) for k, v in leads if v > 0), key=lambda kv: -kv[1])),
        tuple(sorted(((k, v) for k, v in leads if v < 0), key=lambda kv: kv[1])),
    )


def judge_figures(rankings: Iterable[GroupRanking], verdicts: Verdicts) -> JudgeFigures:
    """Sum up rankings. Costs are those of the verdicts bought for them; a repeated match counts once."""
    return sum((_one_group(r, verdicts) for r in rankings), JudgeFigures())


def _one_group(ranking: GroupRanking, verdicts: Verdicts) -> JudgeFigures:
    matches = [m for m in ranking.matches if not m.repeated]
    keys = dict.fromkeys(key for m in matches for key in m.verdicts)
    decided = [v for k in keys if (v := verdicts(k)) and v.winner != "tie" and v.first != v.second]
    return JudgeFigures(
        matches=len(matches),
        both_orders=sum(_both_orders(m) for m in matches),
        flips=sum(m.flipped for m in matches),
        decided=len(decided),
        first_wins=sum(v.winner == "A" for v in decided),
        failed=len(ranking.failed_verdicts),
        bought=ranking.judged,
        reused=ranking.reused,
        calls=ranking.judge_usage.requests,
        cached=ranking.judge_usage.cached or 0,
        usd=ranking.judge_usd,
    )


def tallies(group: Group, ranking: GroupRanking, verdicts: Verdicts) -> dict[str, Tally]:
    """Sum up one group's verdicts by judge."""
    keys = dict.fromkeys(key for match in ranking.matches for key in match.verdicts)
    lengths = {r.index: len(r.trajectory.answer.split()) for r in group.rollouts}
    found = judge_calls(ranking, (v for key in keys if (v := verdicts(key))), lengths)
    return {judge: tally(calls) for judge, calls in found.items()}


def together(parts: Iterable[Tallies]) -> dict[str, Tally]:
    """Add up groups."""
    sums: dict[str, Tally] = {}
    for part in parts:
        for judge, one in part.items():
            sums[judge] = sums.get(judge, Tally()) + one
    return sums


def agent_figures(rollouts: Iterable[Rollout]) -> AgentFigures:
    """Sum up rollouts."""
    found = list(rollouts)
    told = [r.usage.tokens for r in found if r.usage.tokens is not None]
    return AgentFigures(
        runs=len(found),
        failed=Counter(r.failure.kind for r in found if r.failure),
        tokens=sum(told) if told else None,
        usd=sum_if_known(r.price_usd for r in found),
    )


def numbered(path: Iterable[Step], within: str = "") -> Iterator[tuple[str, Step]]:
    """Yield steps with their numbers: 2, and 2.1 for the first of the steps inside it."""
    for number, step in enumerate(path, 1):
        yield f"{within}{number}", step
        yield from numbered(step.inner, f"{within}{number}.")


def anchor_is_greedy(group: Group) -> bool | None:
    """Tell whether every model call of the anchor really carried temperature 0; None if it made no call."""
    anchor = next((r for r in group.rollouts if r.role == "anchor"), None)
    if anchor is None or not any(c.error is None for c in anchor.calls):
        return None
    return anchor.effective.uniform and anchor.effective.temperature == 0


def open_reasons(verdicts: Iterable[AnyVerdict], rankings: Iterable[GroupRanking]) -> Counter[str]:
    """Count why verdicts that rankings still wait for failed."""
    wanted = {key for ranking in rankings for key in ranking.failed_verdicts}
    last = {v.key: v for v in verdicts if v.key in wanted}
    return Counter(v.failure.message for v in last.values() if isinstance(v, Unjudged | Unscored))


def notes(group: Group, ranking: GroupRanking) -> list[str]:
    """Return what has to be known of a group before its ranks are believed."""
    told = list(ranking.notes)
    if anchor_is_greedy(group) is False:
        told.append("the anchor was not greedy: the endpoint, or the agent, did not take temperature 0")
    if ranking.matches and ranking.signal in _NOISE and sum(r.rank is not None for r in ranking.rollouts) > 1:
        told.append(_NOISE[ranking.signal])
    return told


def jury_lines(ranking: GroupRanking) -> list[str]:
    """Return how far each two jurors agree, a line each."""
    return [agreement_line(found) for found in ranking.agreement if found.items]


def agreement_line(found: Agreement) -> str:
    """Return how far two jurors agree, in a line."""
    figures = [("kappa", found.kappa), ("Spearman", found.spearman)]
    told = ", ".join(f"{name} {'–' if value is None else f'{value:.2f}'}" for name, value in figures)
    return f"jurors {' and '.join(found.jurors)}: {told} on {found.items} pairs"


def samples_beat_anchor(group: Group, ranking: GroupRanking) -> tuple[int, int]:
    """Return how many ranked samples stand above the anchor, and how many ranked samples there are."""
    anchors = {r.index for r in group.rollouts if r.role == "anchor"}
    ranks = {r.index: r.rank for r in ranking.rollouts if r.rank is not None}
    anchor = next((ranks[i] for i in anchors if i in ranks), None)
    samples = [rank for i, rank in ranks.items() if i not in anchors]
    return (0, 0) if anchor is None else (sum(s < anchor for s in samples), len(samples))


def _both_orders(match: Match) -> bool:
    """Tell whether both orders were judged, of two different transcripts: identical ones have one key for both."""
    return len(set(match.shown_first)) == 2 and len(set(match.verdicts)) == len(match.verdicts)


def _agreement(match: Match) -> str:
    if match.winner is None:
        return "a tie, so the better seed goes on"
    if len(set(match.shown_first)) < 2:
        return "one order only"
    if match.flipped:
        return "the two orders name opposite winners"
    return "one order calls it a tie" if match.inconsistent else "both orders agree"


def _leads(match: Match, own: int, verdicts: Verdicts) -> list[tuple[str, float]]:
    """Return by how much `own` leads in each dimension, in mean marks over the match's verdicts."""
    leads: dict[str, list[int]] = {}
    for key, first in zip(match.verdicts, match.shown_first, strict=True):
        verdict = verdicts(key)
        if verdict is None:
            continue
        ours, theirs = (verdict.a, verdict.b) if first == own else (verdict.b, verdict.a)
        for name, mark in ours.dimensions.items():
            leads.setdefault(name, []).append(mark - theirs.dimensions[name])
    return [(name, sum(marks) / len(marks)) for name, marks in leads.items()]
