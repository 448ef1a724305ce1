"""Is a run's archive whole, and do its ranks follow from its matches? check_run(folder, rank, clock).

How a group is ranked is handed in, so that a ranking is played again by the very code that made it.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from harness.archive import Blobs, Finding, RunReader, RunStore, findings, move_aside
from harness.core.clock import Clock
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Failure, Group
from harness.core.settings import Settings
from harness.core.settings_sources import load
from harness.core.verdicts import Judged, Unjudged
from harness.judging import Buyer, Jury, Purse, Task
from harness.rollouts import parts
from harness.transcripts import ESTIMATE, Transcript, is_at_hand

Rank = Callable[[Group, Any, Settings, str], Awaitable[GroupRanking]]
"""Ranks a group with the verdicts that a Buyer gets, transcripts being cut by the counter named."""

_HIDDEN: tuple[dict[str, str], ...] = ({}, {"path": ""}, {"answer": ""})
"""What a rubric may keep from the judge: a block that it does not mark (`Rubric.shown`)."""


@dataclass(frozen=True)
class Validation:
    """What was found; and after a repair what is still damaged."""

    found: tuple[Finding, ...]
    left: tuple[Finding, ...]

    @property
    def damaged(self) -> int:
        """How many things are still damaged."""
        return _damage(self.left)


def check_run(folder: Path, rank: Rank, clock: Clock, *, repair: bool = False) -> Validation:
    """Look at everything in a run's archive.

    With `repair` damaged lines are moved aside, and then those that refer to them. Raises CannotWrite, ArchiveLocked.
    """
    left = found = _look(folder, rank)
    if repair and any(f.line for f in found if f.kind == "damage"):
        with RunStore(folder, clock()):
            while any(f.line for f in left if f.kind == "damage"):
                move_aside(folder, [f for f in left if f.kind == "damage"])
                left = _look(folder, rank)
    return Validation(found, left)


def _damage(found: tuple[Finding, ...]) -> int:
    return sum(f.kind == "damage" for f in found)


def _look(folder: Path, rank: Rank) -> tuple[Finding, ...]:
    blobs = Blobs(folder / "blobs")
    found = tuple(findings(folder, lambda name: parts(blobs.get(name))))
    if _damage(found):
        return found  # ranks are compared once the records are whole
    return (*found, *_wrong_ranks(RunReader(folder), rank))


def _wrong_ranks(reader: RunReader, rank: Rank) -> Iterator[Finding]:
    """Play every ranking again on the verdicts that its matches name, and compare the places."""
    for ranking in reader.rankings():
        # rankings from before there was a budget had no limit
        settings = load({"judge_budget": 0} | dict(ranking.head.settings))
        counter = str(ranking.head.judge.get("counter", ESTIMATE))
        path = reader.folder / "rankings" / f"{ranking.head.id}.jsonl"
        if settings.judge != "pairwise":
            continue  # no matches
        if not is_at_hand(counter):
            yield Finding("notice", path, f"ranks not compared: {counter} of its transcripts is not on this machine")
            continue
        for number, stored in enumerate(ranking.groups, 2):
            query = reader.query(stored.query)
            group = query and reader.group(query)
            if group is None or stored.basis not in {"", group.basis}:
                continue  # a newer record of a rollout: the one that it rests on is no longer read
            if not stored.matches and all(r.rank is None for r in stored.rollouts):
                continue  # left unranked: it claims nothing
            again = anyio.run(rank, group, _jury(reader, stored, settings), settings, counter)
            if [_place(r) for r in again.rollouts] != [_place(r) for r in stored.rollouts]:
                yield Finding("damage", path, f"the ranks of {stored.query!r} do not follow from its matches", number)


def _place(ranked: Ranked) -> tuple[float | None, ...]:
    told = (ranked.index, ranked.rank, ranked.reward, ranked.advantage, ranked.score)
    return tuple(None if value is None else round(value, 6) for value in told)


def _jury(reader: RunReader, stored: GroupRanking, settings: Settings) -> Jury:
    """Seat each juror that has a verdict in the ranking's matches."""
    verdicts = [v for match in stored.matches for key in match.verdicts if (v := reader.verdict(key))]
    judges = dict.fromkeys(v.judge for v in verdicts)
    return Jury([_OnRecord([v for v in verdicts if v.judge == judge]) for judge in judges], settings.jury)


class _OnRecord(Buyer):
    """Has one judge's verdicts in a ranking's matches, by the transcripts in the order shown; buys nothing."""

    def __init__(self, verdicts: Sequence[Judged]) -> None:
        self._known = {(v.first, v.second, v.repeat): v for v in verdicts}

    def at_hand(self, task: Task, first: Transcript, second: Transcript, purse: Purse) -> Judged | None:
        del purse
        for hidden in _HIDDEN:
            shown = replace(first, **hidden).hash, replace(second, **hidden).hash
            if known := self._known.get((*shown, task.repeat)):
                return known
        return None

    async def get(self, task: Task, first: Transcript, second: Transcript, purse: Purse) -> Judged | Unjudged:
        return self.at_hand(task, first, second, purse) or Unjudged(
            key=f"{first.hash}/{second.hash}",
            query="",
            first=first.hash,
            second=second.hash,
            rubric="",
            judge="",
            started_at=datetime.fromtimestamp(0, UTC),
            duration_s=0.0,
            failure=Failure(kind="internal", type="NotThere", message="no match of this ranking has that verdict"),
        )
