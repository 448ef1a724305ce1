"""What a jury seats: a juror gives verdicts on material, and a ledger notes which were bought."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeVar, TypeVarTuple

from harness.core.records import Usage
from harness.core.rounded import sum_if_known
from harness.core.verdicts import Judged, PairScores, Scored, Unjudged, Unscored
from harness.judging.prompt import Task
from harness.transcripts.transcript import Transcript

Ok = TypeVar("Ok", bound=Judged | Scored)
Failed = TypeVar("Failed", bound=Unjudged | Unscored)
Material = TypeVarTuple("Material")
"""What a judge judges: for pairs (task, first, second), for lists (task, transcripts)."""


@dataclass
class Ledger(Generic[Ok, Failed]):
    """The verdicts that a ranking took, by key: those bought now, and those that were there before."""

    bought: dict[str, Ok | Failed] = field(default_factory=dict[str, Ok | Failed])
    reused: dict[str, Ok | PairScores] = field(default_factory=dict[str, Ok | PairScores])

    @property
    def judged(self) -> int:
        """How many verdicts were bought and did not fail."""
        return sum(verdict.status == "ok" for verdict in self.bought.values())

    @property
    def usage(self) -> Usage:
        """The tokens of what was bought, failed verdicts included."""
        return sum((verdict.usage for verdict in self.bought.values()), Usage())

    @property
    def price_usd(self) -> float | None:
        """The price of what was bought; None where a part of the price is unknown."""
        return sum_if_known(verdict.price_usd for verdict in self.bought.values() if verdict.usage.requests)


PairLedger = Ledger[Judged, Unjudged]
ListLedger = Ledger[Scored, Unscored]


class Juror(ABC, Generic[Ok, Failed, *Material]):
    """One judge of a jury."""

    @abstractmethod
    async def get(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | Failed:
        """Return the verdict on the material, and note it in `ledger`."""

    @abstractmethod
    def at_hand(self, ledger: Ledger[Ok, Failed], *material: *Material) -> Ok | PairScores | None:
        """Return what rankings take of the verdict, noted in `ledger`, if that needs no waiting; None otherwise."""


PairJuror = Juror[Judged, Unjudged, Task, Transcript, Transcript]
