"""A rollout by itself: its place, its matches, what the judge said of it, its flags, its answer and path."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core.rankings import GroupRanking
from harness.report.html.excerpts import Excerpt, excerpt
from harness.report.html.query.standings import StandingsLine
from harness.report.summary.flags import rollout_flags
from harness.report.summary.match_details import MatchDetails
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.summary.rollout_matches import RolloutMatch, matches_by_rollout
from harness.report.text import as_sentence


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
    lines: Iterable[StandingsLine],
    matches: Iterable[MatchDetails],
    ranking: GroupRanking,
    verdicts: VerdictLookup,
    room: int,
) -> list[RolloutCard]:
    """Return a card for each line of the ranking; each path has `room` characters."""
    played = matches_by_rollout(matches)
    flags = rollout_flags(ranking, verdicts)
    return [
        RolloutCard(
            line=line,
            matches=played.get(line.row.rollout.index, ()),
            flags=tuple(as_sentence(flag.sentence) for flag in flags if flag.rollout == line.row.rollout.index),
            shown=excerpt(line.row.rollout.trajectory, room),
        )
        for line in lines
    ]
