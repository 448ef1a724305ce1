"""The jury of a ranking or a comparison that is there: it gives the recorded verdicts again, and asks nobody."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from harness.core.records import Failure
from harness.core.settings import Settings
from harness.core.verdicts import Judged, Unjudged
from harness.judging import PairJuror, PairJury, PairLedger, Task
from harness.transcripts import Transcript

_HIDDEN: tuple[dict[str, str], ...] = ({}, {"path": ""}, {"answer": ""})
"""What a rubric may keep from the judge: a block that it does not mark (`Rubric.shown`)."""


def recorded_jury(verdicts: Sequence[Judged], settings: Settings) -> PairJury:
    """Seat each juror that gave one of the verdicts."""
    judges = dict.fromkeys(v.judge for v in verdicts)
    jurors = [RecordedJuror([v for v in verdicts if v.judge == judge]) for judge in judges]
    return PairJury(jurors, settings.jury)


class RecordedJuror(PairJuror):
    """Has one judge's recorded verdicts, by the transcripts in the order shown; asks nobody."""

    def __init__(self, verdicts: Sequence[Judged]) -> None:
        self._verdicts = {(v.first, v.second, v.repeat): v for v in verdicts}

    def at_hand(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Judged | None:
        """Return the recorded verdict; None where there is none."""
        del ledger
        for hidden in _HIDDEN:
            shown = replace(first, **hidden).hash, replace(second, **hidden).hash
            if verdict := self._verdicts.get((*shown, task.repeat)):
                return verdict
        return None

    async def get(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Return the recorded verdict, or a failed one."""
        return self.at_hand(ledger, task, first, second) or Unjudged(
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
