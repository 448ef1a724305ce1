"""The jury of a ranking or a comparison that is there: it gives the recorded verdicts again, and asks nobody."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from harness.core.records import Failure
from harness.core.settings import Settings
from harness.core.verdicts import Judged, Unjudged
from harness.judging.jury import PairJuror, PairJury, PairLedger
from harness.judging.prompt import Task
from harness.transcripts.transcript import Transcript

_HIDDEN: tuple[dict[str, str], ...] = ({}, {"path": ""}, {"answer": ""})
"""What a rubric may keep from the judge: a block that it does not mark (`Rubric.shown`)."""


_FEWEST = 2
"""Seats are told of juries alone."""


def recorded_jury(verdicts: Sequence[Judged], settings: Settings, seats: Mapping[str, int] | None = None) -> PairJury:
    """Seat each juror that gave one of the verdicts.

    `seats` says where a judge sat; who gave none of them keeps a place, and has nothing to say.
    """
    told, judges = dict(seats or {}), dict.fromkeys(v.judge for v in verdicts)
    free = max(_FEWEST, 1 + max(told.values())) if told else 0
    told |= {judge: free + number for number, judge in enumerate(judge for judge in judges if judge not in told)}
    by_seat = {seat: [v for v in verdicts if v.judge == judge] for judge, seat in told.items()}
    seated = range(max(free, 1 + max(by_seat, default=-1)))
    return PairJury([RecordedJuror(by_seat.get(seat, ())) for seat in seated], settings.jury)


class RecordedJuror(PairJuror):
    """Has one judge's recorded verdicts, by the transcripts in the order shown; asks nobody."""

    def __init__(self, verdicts: Sequence[Judged]) -> None:
        self._verdicts = {(v.first, v.second, v.repeat): v for v in verdicts}

    def cached(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Judged | None:
        """Return the recorded verdict; None where there is none."""
        del ledger
        for hidden in _HIDDEN:
            shown = replace(first, **hidden).hash, replace(second, **hidden).hash
            if verdict := self._verdicts.get((*shown, task.repeat)):
                return verdict
        return None

    async def get(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Return the recorded verdict, or a failed one."""
        return self.cached(ledger, task, first, second) or Unjudged(
            key=f"{first.hash}/{second.hash}",
            query="",
            first=first.hash,
            second=second.hash,
            rubric="",
            judge="",
            started_at=datetime.fromtimestamp(0, UTC),
            duration_s=0.0,
            failure=Failure(kind="internal", type="NotThere", message="no match has that verdict"),
        )
