"""The rollouts of one query on its page: their lines in the leaderboard, and a card for each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.report.html.excerpts import Excerpt, excerpt
from harness.report.summary.match_details import MatchDetails
from harness.report.summary.match_verdicts import RolloutFlag
from harness.report.summary.rollouts import PlacedRollout, place_of, placed_rollouts, places_by_secondary_fit
from harness.report.text import as_sentence, temperature_words


@dataclass(frozen=True)
class StandingsLine:
    """One rollout in the ranking table."""

    row: PlacedRollout
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
    placed = placed_rollouts(group, ranking)
    judged = ranking.status == "complete" or ranking.matches
    second_fit = places_by_secondary_fit((p.ranked for p in placed), ranking.matches) if judged else {}
    greatest = max((abs(p.ranked.advantage or 0.0) for p in placed), default=0.0) or 1.0

    def effective(rollout: Rollout) -> str | None:
        if rollout.effective.uniform or not rollout.calls:
            return None
        temperature = rollout.effective.temperature
        same = temperature not in (None, rollout.requested.temperature)
        return f"{temperature:g}" if same else "not the same in every call"

    return [
        StandingsLine(
            row=p,
            place=place_of(p, placed),
            second_fit=second_fit.get(p.rollout.index),
            temperature=temperature_words(p.rollout.requested.temperature),
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
