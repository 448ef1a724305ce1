"""What long work tells whoever watches. The rim decides how it looks; the default watcher says nothing.

All calls come from the event loop's thread, but for those of an agent's tools that run in threads of their own.
"""

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

    def total(self, stage: Stage, low: int, high: int | None) -> None:
        """A stage takes from `low` to `high` pieces of work in all; `high` is None while nobody knows.

        Of rollouts both are the same, and known once: queries times n, less what is kept; for a stream of queries once
        the stream has ended. Of verdicts they close in on each other as queries are ranked. Where this is not called
        for a stage, what `expect` counted is all.
        """

    def expect(self, stage: Stage, count: int) -> None:
        """`count` pieces of work (rollouts, or verdicts) begin, or wait for their turn."""

    def done(self, stage: Stage, count: int = 1) -> None:
        """`count` pieces of work ended, well or badly."""

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        """A rollout or a verdict was kept: what it took, its price where that is known, whether it failed."""

    def retried(self) -> None:
        """A call to a model failed and is made again. A wait for a rate limit is no such failure."""

    def waiting(self, place: str, calls: int) -> None:
        """So many calls now wait for the endpoint `place`: for its rate limit, or until it answers again."""

    def note(self, text: str) -> None:
        """Something that the user should read while the work goes on."""


class Silent(Progress):
    """Watches and says nothing. A watcher that wants to know of some things only can be made from it."""


class PartOfWork(Silent):
    """Tells a watcher of a run that is a part of larger work: the whole has a folder and totals of its own."""

    def __init__(self, progress: Progress) -> None:
        """Pass on to `progress`."""
        self.expect, self.done, self.kept = progress.expect, progress.done, progress.kept
        self.retried, self.waiting, self.note = progress.retried, progress.waiting, progress.note
