"""Cross matches: rollouts of different runs on one query, judged in both orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.comparisons import ComparedRollout, CrossMatch, ForfeitedBy
from harness.core.rankings import Match
from harness.core.records import Group, Role, Rollout
from harness.judging.prompt import Task
from harness.judging.verdict_cache import PairJury, PairLedger
from harness.ranking.fixed_pairs import GivenPairs
from harness.tournament.group import Rules, brief_task
from harness.tournament.play import JurySource, play
from harness.transcripts.transcript import Transcript

Place = tuple[int, int]
"""A rollout by its side's place in the comparison and its index."""


@dataclass(frozen=True)
class CrossPair:
    """Two rollouts that are to meet: the one of `sides[0]`, then the one of `sides[1]`."""

    sides: tuple[int, int]
    role: Role
    first: int
    second: int

    @property
    def places(self) -> tuple[Place, Place]:
        """Where the two are."""
        return (self.sides[0], self.first), (self.sides[1], self.second)


@dataclass(frozen=True)
class PlayedPairs:
    """What the pairs of one query came to, in their order."""

    matches: tuple[CrossMatch, ...]
    failed_verdicts: tuple[str, ...]
    """Keys of the verdicts that could not be had: a juror's, where the others' stand, or those of an open match."""


@dataclass(frozen=True)
class SharedTask:
    """The one task that the judge is shown for all sides."""

    task: Task
    differs: bool = False
    """The sides' instructions or tools differ, so that the judge is shown neither: it would judge by one side's."""


def shared_task(groups: Sequence[Group], rules: Rules, name: str, brief: str | None = None) -> SharedTask:
    """Return the task of a query that every side has; `brief` replaces the agents' instructions and tools."""
    briefs = [brief_task(group, rules).brief for group in groups]
    differs = brief is None and len(set(briefs)) > 1
    query = groups[0].query
    return SharedTask(Task(name, query.text, brief or (None if differs else briefs[0]), query.reference), differs)


async def play_cross(
    pairs: Sequence[CrossPair],
    rollouts: Mapping[Place, Rollout | ComparedRollout],
    texts: Mapping[Place, Transcript],
    task: Task,
    jury: PairJury,
    ledger: PairLedger,
    repeats: int,
) -> PlayedPairs:
    """Play the pairs. A rollout that failed loses without being judged; where both failed, the two tie.

    A match of which a verdict is missing stays open.
    """
    numbers = {place: number for number, place in enumerate(dict.fromkeys(p for pair in pairs for p in pair.places))}
    judged = [pair for pair in pairs if _forfeit(pair, rollouts) is None]
    if not judged:
        return PlayedPairs(tuple(_forfeited(pair, rollouts) for pair in pairs), ())
    by_number = {numbers[place]: texts[place] for pair in judged for place in pair.places}
    met = [(numbers[pair.places[0]], numbers[pair.places[1]]) for pair in judged]
    played = await play(GivenPairs(met), JurySource(jury, by_number, task, ledger, repeats))
    matches = {(match.a, match.b): match for match in played.matches}
    results = {pair: _cross_match(pair, matches.get(pair_met)) for pair, pair_met in zip(judged, met, strict=True)}
    return PlayedPairs(
        tuple(results[pair] if pair in results else _forfeited(pair, rollouts) for pair in pairs),
        tuple(sorted({*played.open_verdicts, *played.absent_verdicts})),
    )


def _forfeit(pair: CrossPair, rollouts: Mapping[Place, Rollout | ComparedRollout]) -> ForfeitedBy | None:
    first, second = (rollouts[place].status == "failed" for place in pair.places)
    if first and second:
        return "both"
    return "first" if first else "second" if second else None


def _forfeited(pair: CrossPair, rollouts: Mapping[Place, Rollout | ComparedRollout]) -> CrossMatch:
    forfeit = _forfeit(pair, rollouts)
    winner: Literal["first", "second", "tie"] = (
        "tie" if forfeit == "both" else "second" if forfeit == "first" else "first"
    )
    return CrossMatch(
        sides=pair.sides, role=pair.role, first=pair.first, second=pair.second, winner=winner, forfeit=forfeit
    )


def _cross_match(pair: CrossPair, match: Match | None) -> CrossMatch:
    """Return a judged pair as a record; without a match one that is open."""
    plain = CrossMatch(sides=pair.sides, role=pair.role, first=pair.first, second=pair.second)
    if match is None:
        return plain
    first_stood_first = [shown == match.a for shown in match.shown_first]
    scores = zip(first_stood_first, match.scores, strict=True)
    return plain.model_copy(
        update={
            "verdicts": match.verdicts,
            "shown_first": tuple("first" if first else "second" for first in first_stood_first),
            "scores": tuple((a, b) if first else (b, a) for first, (a, b) in scores),
            "score_first": match.score_a,
            "score_second": match.score_b,
            "winner": "tie" if match.winner is None else "first" if match.winner == match.a else "second",
            "flipped": match.flipped,
            "inconsistent": match.inconsistent,
        }
    )
