"""What cannot be so in a comparison's records, beyond what their types say.

Whoever computes with a line that has none of these faults meets no rollout, side or score that is not there.
"""

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Protocol

from pydantic import JsonValue

from harness.archive.record_faults import HIGHEST, LONGEST_S, MOST, head_faults, name_fault, time_faults
from harness.core.comparisons import ComparedQuery, ComparedRollout, ComparedSide, CrossMatch

_SHA256 = re.compile("[0-9a-f]{64}")
_WINNERS = {"first": "second", "second": "first", "both": "tie"}
"""By who forfeited."""
_LETTERS = string.ascii_uppercase


class _HasSides(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def sides(self) -> Sequence[ComparedSide]: ...


class _HasFloors(_HasSides, Protocol):
    @property
    def floors(self) -> Sequence[float | None]: ...


class _HasSettings(_HasSides, Protocol):
    @property
    def settings(self) -> Mapping[str, JsonValue]: ...


def info_faults(info: _HasSettings) -> Iterator[str]:
    """Yield what is wrong with `compare.json`."""
    yield from head_faults(info)
    yield from _sides_faults(info.sides)


def comparison_head_faults(head: _HasFloors) -> Iterator[str]:
    """Yield what is wrong with the head of a comparison's file."""
    if fault := name_fault(head.id):
        yield f"id: {fault}"
    yield from time_faults("created_at", head.created_at, aware=True)
    yield from _sides_faults(head.sides)
    if len(head.floors) not in {0, len(head.sides)} or not all(0 <= (floor or 0) <= 1 for floor in head.floors):
        yield "floors: for each side a number from 0 to 1, or none, is expected"


def compared_faults(compared: ComparedQuery) -> Iterator[str]:
    """Yield what is wrong with a line of a comparison's file."""
    sides = len(compared.rollouts)
    if not 2 <= sides <= len(_LETTERS) or len(compared.ids) != sides or len(compared.left_out) not in {0, sides}:
        yield "rollouts, ids, left_out: as many as sides are expected, and two or more"
    if not all(0 <= count <= MOST for count in compared.left_out):
        yield "left_out: whole numbers from 0 are expected"
    for number, rollouts in enumerate(compared.rollouts):
        if max(Counter(r.index for r in rollouts).values(), default=1) > 1:
            yield f"rollouts.{number}: two have one index"
        yield from (f"rollouts.{number}: {fault}" for rollout in rollouts for fault in _rollout_faults(rollout))
    for number, match in enumerate(compared.matches):
        yield from (f"matches.{number}: {fault}" for fault in _match_faults(match, compared.rollouts))


def _sides_faults(sides: Sequence[ComparedSide]) -> Iterator[str]:
    if not 2 <= len(sides) <= len(_LETTERS) or [side.label for side in sides] != list(_LETTERS[: len(sides)]):
        yield "sides: two or more are expected, labelled A, B and so on"
    if len({side.run for side in sides}) != len(sides):
        yield "sides: a run is compared with itself"
    for number, side in enumerate(sides):
        if fault := name_fault(side.run):
            yield f"sides.{number}.run: {fault}"
        if not _SHA256.fullmatch(side.sha256):
            yield f"sides.{number}.sha256: the sha256 of a run.json is expected"
        if not 0 <= side.only_here <= MOST:
            yield f"sides.{number}.only_here: a whole number from 0 is expected"


def _rollout_faults(rollout: ComparedRollout) -> Iterator[str]:
    counts = {"index": rollout.index, "steps": rollout.steps, "tokens": rollout.tokens or 0}
    counts["answer_length"] = rollout.answer_length or 0
    for name, count in counts.items():
        if not 0 <= count <= MOST:
            yield f"{name}: a whole number from 0 is expected"
    if not 0 <= (rollout.duration_s or 0) <= LONGEST_S:
        yield "duration_s: no rollout takes so long"
    if any(abs(number or 0) > HIGHEST for number in (rollout.usd, rollout.verified)):
        yield "usd, verified: a number that no rollout has"
    for name in (rollout.transcript, rollout.path_blob, rollout.answer_blob):
        if name is not None and not _SHA256.fullmatch(name):
            yield "transcript, path_blob, answer_blob: a sha256 is expected"


def _match_faults(match: CrossMatch, rollouts: Sequence[Sequence[ComparedRollout]]) -> Iterator[str]:
    first, second = match.sides
    if not 0 <= first < second < len(rollouts):
        yield "sides: two of the sides are expected, the smaller one first"
        return
    pair = (_of_index(rollouts[first], match.first), _of_index(rollouts[second], match.second))
    if None in pair:
        yield "it refers to a rollout that is not there"
    if not len(match.verdicts) == len(match.shown_first) == len(match.scores):
        yield "one rollout shown first, and one pair of scores, for each verdict is expected"
    means = [score for score in (match.score_first, match.score_second) if score is not None]
    if any(abs(score) > HIGHEST for score in chain(means, *match.scores)):
        yield "a score that no judge gives"
    if len(means) == 1:
        yield "score_first, score_second: both or none are expected"
    if match.forfeit and (match.verdicts or match.winner != _WINNERS[match.forfeit]):
        yield "a match that was lost by a failure has its winner, and no verdicts"
    if not match.forfeit and match.winner and not means:
        yield "a match without scores has no winner"


def _of_index(rollouts: Sequence[ComparedRollout], index: int) -> ComparedRollout | None:
    return next((rollout for rollout in rollouts if rollout.index == index), None)
