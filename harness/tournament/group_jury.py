"""A jury on the transcripts of one query, which a tournament names by numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.judging.jury import Averaging, PairJury, PairLedger
from harness.judging.prompt import Task
from harness.tournament.heard import OrderVerdicts
from harness.transcripts.transcript import Transcript


@dataclass(frozen=True)
class GroupJury:
    """Judges two of `texts`; `ledger` notes which verdicts were bought and which were there."""

    jury: PairJury
    texts: Mapping[int, Transcript]
    task: Task
    ledger: PairLedger
    repeats: int

    @property
    def averaging(self) -> Averaging:
        """How the scores of several jurors become one."""
        return self.jury.averaging

    async def hear(self, first: int, second: int, repeat: int) -> OrderVerdicts:
        """Return each juror's verdict."""
        return await self.jury.verdicts(self.ledger, self._task(repeat), self.texts[first], self.texts[second])

    def at_hand(self, first: int, second: int, repeat: int) -> OrderVerdicts | None:
        """Return each juror's verdict if that needs no waiting; None otherwise."""
        return self.jury.cached(self.ledger, self._task(repeat), self.texts[first], self.texts[second])

    def _task(self, repeat: int) -> Task:
        return replace(self.task, repeat=repeat) if repeat != self.task.repeat else self.task
