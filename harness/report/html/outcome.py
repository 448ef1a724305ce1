"""What a query's ranking came to: the figures of the first screen, its leaderboard, a card for each rollout."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.cost import Cost
from harness.core.errors import counted
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.report import text
from harness.report.html.diffs import Excerpt, ExcerptText, answer_excerpt, excerpt
from harness.report.html.facts import SIGNAL, UNFINISHED, Fact, failed_words
from harness.report.summary import rollouts
from harness.report.summary.group import AgentFigures
from harness.report.summary.match_details import MatchDetails
from harness.report.summary.match_verdicts import RolloutFlag, VerdictLookup
from harness.report.text import as_sentence, temperature_words

_ANSWER = 1_400
"""Characters of an answer on the first screen; the whole stands with the rollout."""
_SIDE_BY_SIDE = 4
"""Rollouts that share first place whose answers are shown on the first screen."""
OutcomeKind = Literal["won", "seeded", "tie", "none"]


@dataclass(frozen=True)
class Outcome:
    """Who won, by how much and how sure, with the answer."""

    kind: OutcomeKind
    """`seeded`: one rollout is first, but by a tie, or by judging that does not show it."""
    title: str
    """A few words: `Rollout 3 won`."""
    sentences: tuple[str, ...]
    """How the first two places compare, on what the first won, how sure first place is."""
    answers: tuple[tuple[Rollout, ExcerptText], ...]
    """The winner with its answer, or those that share first place; none where they are too many to show."""
    figures: tuple[Fact, ...]


def outcome(
    group: Group,
    ranking: GroupRanking,
    verdicts: VerdictLookup,
    agents: AgentFigures,
    verdicts_cost: Cost,
) -> Outcome:
    """Return what a ranking came to, and what it took: `verdicts_cost` for those that it rests on or waits for."""
    places = rollouts.first_places(group, ranking, verdicts)
    placed = rollouts.with_a_rank(group, ranking)
    judged = ranking.status == "complete"
    p_best = placed[0].ranked.p_best if placed else None
    won = rollouts.shows_winner(ranking.signal, p_best, complete=judged)
    kind, title = _kind_and_title(places, shown=won)
    sentence, because = headline(places)
    sure = rollouts.certainty(group, ranking)
    shown = places.leaders if 0 < len(places.leaders) <= _SIDE_BY_SIDE else ()
    signal, meaning = (text.signal_words(ranking), SIGNAL[ranking.signal]) if judged else ("–", UNFINISHED)
    parts = f"agent {text.dollars(agents.cost)}, verdicts {text.dollars(verdicts_cost)}"
    runs, missing = agents.failed.total(), len(ranking.failed_verdicts)
    failed = [counted(n, what) for n, what in ((runs, "rollout"), (missing, "verdict")) if n]
    return Outcome(
        kind=kind,
        title=title,
        sentences=tuple(filter(None, (sentence, because, sure and text.as_sentence(sure)))),
        answers=tuple((r, answer_excerpt(r.trajectory, _ANSWER // len(shown))) for r in shown),
        figures=(
            *_winner_figures(placed, places, ranking),
            Fact("Signal", signal, meaning),
            Fact("Cost", text.dollars(agents.cost + verdicts_cost), parts),
            Fact("Failed", text.enumeration(failed) if failed else "nothing", failed_words(agents) if runs else ""),
        ),
    )


def headline(places: rollouts.FirstPlaces) -> tuple[str, str]:
    """Return how the first two places compare, in a sentence, and a second sentence on why."""
    best, leaders = places.ranked, places.leaders
    if not best:
        return "No rollout has a place.", ""
    if len(best) == 1:
        return text.as_sentence(f"{rollouts.rollout_label(best[0])} stands alone"), ""
    if len(leaders) == len(best):
        return f"All {len(best)} rollouts share one rank.", "The judging shows no difference."
    if len(leaders) > 1:
        return f"Rollouts {text.enumeration([str(r.index) for r in leaders])} share first place.", ""
    if places.match is None:
        others_failed = best[1].status == "failed"
        first = f"#1 {rollouts.rollout_label(best[0])}." if others_failed else text.as_sentence(places.comparison)
        return first, "All others failed." if others_failed else ""
    reasons = places.match.reasons(lambda dimension, marks: f"{text.readable_name(dimension)} {text.signed(marks, 1)}")
    return text.as_sentence(places.comparison), text.as_sentence("; ".join(reasons) or "level on every dimension")


def _kind_and_title(places: rollouts.FirstPlaces, *, shown: bool) -> tuple[OutcomeKind, str]:
    if not places.leaders:
        return "none", "No winner"
    first, match = places.leaders[0], places.match
    if len(places.leaders) > 1:
        return "tie", "A tie" if len(places.leaders) == len(places.ranked) else "A tie for first place"
    if first.status != "ok":
        return "none", "All rollouts failed"
    if match is not None and match.score_first == match.score_second:
        return "seeded", f"Rollout {first.index} is first after a tie"
    if len(places.ranked) > 1 and not shown:
        return "seeded", "No clear winner"
    return "won", f"Rollout {first.index} won"


def _winner_figures(
    placed: Sequence[rollouts.PlacedRollout], places: rollouts.FirstPlaces, ranking: GroupRanking
) -> Iterator[Fact]:
    """Yield the score of the one winner, and how sure its place is; nothing where several share it."""
    if len(places.leaders) != 1:
        return
    scores = [(p.rollout.index, p.ranked.score) for p in placed[:2] if p.ranked.score is not None]
    if scores:
        note = rollouts.score_name(ranking)
        if len(scores) > 1:
            note += f"; {text.signed(scores[0][1] - scores[1][1])} against rollout {scores[1][0]}, the second"
        yield Fact("Score", text.fixed(scores[0][1]), note)
    if len(placed) > 1 and placed[0].ranked.p_best is not None:
        yield Fact("Probably the best", text.probability(placed[0].ranked.p_best))


@dataclass(frozen=True)
class StandingsLine:
    """One rollout in the ranking table."""

    row: rollouts.PlacedRollout
    place: str
    """From 1, `=` where several share it."""
    second_fit: str | None
    """The place that the second fit would give; None without one."""
    temperature: str
    effective: str | None
    """The temperature that was in force, where it is not the one asked for."""
    bar: float
    """The advantage as a share of the greatest in the group, -1..1."""


def standings(group: Group, ranking: GroupRanking) -> list[StandingsLine]:
    """Return a line a rollout, best first."""
    placed = rollouts.placed_rollouts(group, ranking)
    judged = ranking.status == "complete" or ranking.matches
    second_fit = rollouts.places_by_secondary_fit((p.ranked for p in placed), ranking.matches) if judged else {}
    greatest = max((abs(p.ranked.advantage or 0.0) for p in placed), default=0.0) or 1.0

    def requested(rollout: Rollout) -> str:
        return "own" if rollouts.at_own_temperature(rollout) else temperature_words(rollout.requested.temperature)

    def effective(rollout: Rollout) -> str | None:
        if rollout.effective.uniform or all(call.error for call in rollout.calls):
            return None
        temperature = rollout.effective.temperature
        same = temperature not in (None, rollout.requested.temperature)
        return f"{temperature:g}" if same else "not the same in every call"

    return [
        StandingsLine(
            row=p,
            place=rollouts.place_of(p, placed),
            second_fit=second_fit.get(p.rollout.index),
            temperature=requested(p.rollout),
            effective=effective(p.rollout),
            bar=round((p.ranked.advantage or 0.0) / greatest, 3),
        )
        for p in placed
    ]


@dataclass(frozen=True)
class RolloutMatch:
    """A match from the side of one of its rollouts."""

    number: int
    title: str
    opponent: int
    score: float
    against: float
    """The opponent's score."""
    result: str
    """`won`, `lost` or `tied`."""
    flags: tuple[str, ...]
    remarks: tuple[tuple[str, str], ...]
    """Path or answer, and what the judge said of the rollout's, in the first order that has a verdict."""


@dataclass(frozen=True)
class RolloutCard:
    """All that a page shows of one rollout."""

    line: StandingsLine
    """Its line in the ranking."""
    matches: Sequence[RolloutMatch]
    flags: tuple[str, ...]
    """What the harness found in its transcript, and which marks this lowered: sentences."""
    shown: Excerpt


def rollout_cards(
    lines: Iterable[StandingsLine], matches: Iterable[MatchDetails], flags: Sequence[RolloutFlag], room: int
) -> list[RolloutCard]:
    """Return a card for each line of the ranking; each path has `room` characters."""
    played: dict[int, list[RolloutMatch]] = {}
    for match in matches:
        judged = next((order.remarks for order in match.orders if order.verdict), ())
        remarks = () if match.match.repeated else judged
        for side in (0, 1):
            ours, theirs = match.sides[side], match.sides[1 - side]
            seen = RolloutMatch(
                number=match.number,
                title=match.title,
                opponent=theirs.rollout.index,
                score=ours.score,
                against=theirs.score,
                result="won" if ours.won else "lost" if theirs.won else "tied",
                flags=match.flags,
                remarks=tuple((title, pair[side]) for title, pair in remarks if pair[side]),
            )
            played.setdefault(ours.rollout.index, []).append(seen)
    return [
        RolloutCard(
            line=line,
            matches=played.get(line.row.rollout.index, ()),
            flags=tuple(as_sentence(flag.sentence) for flag in flags if flag.rollout == line.row.rollout.index),
            shown=excerpt(line.row.rollout.trajectory, room),
        )
        for line in lines
    ]
