"""What a query's ranking came to, in the words and figures of the first screen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.core.rounded import sum_if_known
from harness.core.wording import counted
from harness.report.html.excerpts import ExcerptText, answer_excerpt
from harness.report.html.facts import SIGNAL, UNFINISHED, Fact, failed_words
from harness.report.summary.figures import AgentFigures
from harness.report.summary.first_two import FirstPlaces, first_places
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.summary.placed_rollouts import (
    PlacedRollout,
    certainty,
    fit_behind,
    rollout_label,
    score_name,
    with_a_rank,
)
from harness.report.text import as_sentence, dollars, enumeration, fixed, probability, readable_name, signed

_ANSWER = 1_400
"""Characters of an answer on the first screen; the whole stands with the rollout."""
_SIDE_BY_SIDE = 4
"""Rollouts that share first place whose answers are shown on the first screen."""


@dataclass(frozen=True)
class Outcome:
    """Who won, by how much and how sure, with the answer."""

    kind: Literal["won", "seeded", "tie", "none"]
    """`seeded`: one rollout is first though its match with the second was a tie."""
    title: str
    """A few words: `Rollout 3 won`."""
    sentences: tuple[str, ...]
    """How the first two places compare, on what the first won, how sure first place is."""
    answers: tuple[tuple[Rollout, ExcerptText], ...]
    """The winner with its answer, or those that share first place; none where they are too many to show."""
    figures: tuple[Fact, ...]


@dataclass(frozen=True)
class QuerySpending:
    """What one query took: its rollouts, and the verdicts that its ranking rests on or waits for."""

    agents: AgentFigures
    verdicts_usd: float | None
    failed_verdicts: int


def outcome(group: Group, ranking: GroupRanking, verdicts: VerdictLookup, spent: QuerySpending) -> Outcome:
    """Return what a ranking came to."""
    places = first_places(group, ranking, verdicts)
    placed = with_a_rank(group, ranking)
    sentence, because = headline(places)
    sure = certainty(group, ranking)
    shown = places.leaders if 0 < len(places.leaders) <= _SIDE_BY_SIDE else ()
    return Outcome(
        kind=_kind(places),
        title=_title(places),
        sentences=tuple(filter(None, (sentence, because, sure and as_sentence(sure)))),
        answers=tuple((r, answer_excerpt(r.trajectory, _ANSWER // len(shown))) for r in shown),
        figures=(*_score_figures(placed, places, ranking), *_spent_figures(spent)),
    )


def headline(places: FirstPlaces) -> tuple[str, str]:
    """Return how the first two places compare, in a sentence, and a second sentence on why."""
    best, leaders = places.ranked, places.leaders
    if not best:
        return "No rollout has a place.", ""
    if len(best) == 1:
        return as_sentence(f"{rollout_label(best[0])} stands alone"), ""
    if len(leaders) > 1:
        return _tie(leaders, len(best))
    if places.match is None and best[1].status == "failed":
        return f"#1 {rollout_label(best[0])}.", "All others failed."
    if places.match is None:
        return as_sentence(places.comparison), ""
    reasons = "; ".join(places.match.reasons(_lead)) or "level on every dimension"
    return as_sentence(places.comparison), as_sentence(reasons)


def _tie(leaders: Sequence[Rollout], ranked: int) -> tuple[str, str]:
    if len(leaders) == ranked:
        return f"All {ranked} rollouts share one rank.", "Nothing in the judging tells them apart."
    return f"Rollouts {enumeration([str(r.index) for r in leaders])} share first place.", ""


def _lead(dimension: str, marks: float) -> str:
    return f"{readable_name(dimension)} {signed(marks, 1)}"


def _kind(places: FirstPlaces) -> Literal["won", "seeded", "tie", "none"]:
    if len(places.leaders) > 1:
        return "tie"
    if not places.leaders or places.leaders[0].status != "ok":
        return "none"
    match = places.match
    return "seeded" if match is not None and match.score_first == match.score_second else "won"


def _title(places: FirstPlaces) -> str:
    first = next(iter(places.leaders), None)
    if first is None:
        return "No winner"
    if len(places.leaders) > 1:
        return "A tie" if len(places.leaders) == len(places.ranked) else "A tie for first place"
    if first.status != "ok":
        return "All rollouts failed"
    return f"Rollout {first.index} {'is first after a tie' if _kind(places) == 'seeded' else 'won'}"


def _score_figures(placed: Sequence[PlacedRollout], places: FirstPlaces, ranking: GroupRanking) -> list[Fact]:
    figures: list[Fact] = []
    won = len(places.leaders) == 1
    scores = [(p.rollout.index, p.ranked.score) for p in placed[:2] if p.ranked.score is not None]
    if scores and won:
        note = score_name(ranking)
        if len(scores) > 1:
            note += f"; {signed(scores[0][1] - scores[1][1])} against rollout {scores[1][0]}, the second"
        figures.append(Fact("Score", fixed(scores[0][1]), note))
    if won and len(placed) > 1 and placed[0].ranked.p_best is not None:
        figures.append(Fact("Probably the best", probability(placed[0].ranked.p_best), f"by {fit_behind(ranking)}"))
    meaning = SIGNAL[ranking.signal] if ranking.status == "complete" else UNFINISHED
    figures.append(Fact("Signal", ranking.signal, meaning))
    return figures


def _spent_figures(spent: QuerySpending) -> list[Fact]:
    agents, failed = spent.agents, spent.agents.failed.total()
    parts = f"agent {dollars(agents.usd)}, verdicts {dollars(spent.verdicts_usd)}"
    what_failed = [counted(failed, "rollout")] if failed else []
    what_failed += [counted(spent.failed_verdicts, "verdict")] if spent.failed_verdicts else []
    return [
        Fact("Cost", dollars(sum_if_known((agents.usd, spent.verdicts_usd))), parts),
        Fact("Failed", enumeration(what_failed) if what_failed else "nothing", failed_words(agents) if failed else ""),
    ]
