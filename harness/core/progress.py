"""What long work tells whoever watches. The rim decides how it looks; the default watcher says nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from harness.core.records import Usage


@dataclass
class StopSign:
    """Whether the user has asked the work to end: what is under way goes on, nothing new is begun."""

    asked: bool = False


Stage = Literal["rollouts", "judging"]


class Progress(Protocol):
    """A watcher of one run."""

    def opened(self, folder: Path) -> None:
        """The run's folder is there: from now on nothing that was paid for is lost."""
        ...

    def expect(self, stage: Stage, count: int) -> None:
        """`count` more pieces of work (rollouts, or verdicts) are now known of."""
        ...

    def done(self, stage: Stage, count: int = 1) -> None:
        """`count` pieces of work ended, well or badly."""
        ...

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        """A rollout or a verdict was kept: what it took, its price where that is known, whether it failed."""
        ...

    def waiting(self, place: str, calls: int) -> None:
        """So many calls now wait for the endpoint `place`: for its rate limit, or until it answers again."""
        ...

    def note(self, text: str) -> None:
        """Something that the user should read while the work goes on."""
        ...


class Silent:
    """Watches and says nothing. A watcher that wants to know of some things only can be made from it."""

    def opened(self, folder: Path) -> None:
        """Do nothing."""

    def expect(self, stage: Stage, count: int) -> None:
        """Do nothing."""

    def done(self, stage: Stage, count: int = 1) -> None:
        """Do nothing."""

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        """Do nothing."""

    def waiting(self, place: str, calls: int) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
