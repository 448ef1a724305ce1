"""The matches of each rollout, seen from its side, with what the judge said of the rollout."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.report.summary.match_details import MatchDetails


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

    @property
    def margin(self) -> float:
        """The rollout's score less its opponent's."""
        return self.score - self.against


def matches_by_rollout(matches: Iterable[MatchDetails]) -> dict[int, list[RolloutMatch]]:
    """Return the matches of each rollout that played, in the order played."""
    played: dict[int, list[RolloutMatch]] = {}
    for match in matches:
        for side in (0, 1):
            played.setdefault(match.sides[side].rollout.index, []).append(_seen_from(match, side))
    return played


def _seen_from(match: MatchDetails, side: int) -> RolloutMatch:
    ours, theirs = match.sides[side], match.sides[1 - side]
    judged = next((order for order in match.orders if order.verdict), None)
    return RolloutMatch(
        number=match.number,
        title=match.title,
        opponent=theirs.rollout.index,
        score=ours.score,
        against=theirs.score,
        result="won" if ours.won else "lost" if theirs.won else "tied",
        flags=match.flags,
        remarks=tuple((title, pair[side]) for title, pair in judged.remarks if pair[side])
        if judged and not match.match.repeated
        else (),
    )
