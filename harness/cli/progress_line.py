"""How far the work is, as numbers and in words: what is done of how much, how fast, for how long, at what price."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from harness.core.errors import counted
from harness.core.progress import Stage
from harness.core.records import Usage
from harness.report.text import dollars

_NAMES: dict[Stage, str] = {"rollouts": "rollout", "judging": "verdict"}


@dataclass(frozen=True)
class StageTotal:
    """How many pieces a stage takes in all. `high` None: nobody knows yet."""

    low: int
    high: int | None
    first_high: int | None
    """The first bound from above that was reported."""

    def left(self, done: int) -> float | None:
        """Return how many pieces are expected to be left; None where nobody knows.

        `low` pieces are sure to come. Of what is open up to `high`, that share is expected which came of the rest.
        """
        if self.high is None or self.first_high is None:
            return None
        if self.low == self.high:
            return max(0.0, self.high - done)
        known = self.low + max(0, self.first_high - self.high)
        share = self.low / known if known else 1.0
        return max(0.0, share * (self.high - self.low) - max(0, done - self.low))

    def words(self) -> str:
        """Return ` of N`, ` of at most N`, or nothing where nobody knows."""
        if self.high is None:
            return ""
        return f" of {'' if self.low == self.high else 'at most '}{self.high:,}"


class ProgressTally:
    """Counts what a run reports while it goes on. The event loop writes it, and what draws reads it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing, now by `clock`, which is in seconds."""
        self._clock, self._began = clock, clock()
        self._expected, self._done = Counter[Stage](), Counter[Stage]()
        self._kept, self._failed = Counter[Stage](), Counter[Stage]()
        self._kept_before = Counter[Stage]()
        self._totals = dict[Stage, StageTotal]()
        self._stage_began = dict[Stage, float]()
        self._waiting = dict[str, int]()
        self._retries = 0
        self._usage = Usage()
        self._usd: float = 0.0
        self._unpriced = False

    def go_on(self) -> None:
        """Note that a further round of the work begins: totals from now on are of what comes after this."""
        self._kept_before = self._kept.copy()

    def total(self, stage: Stage, low: int, high: int | None) -> None:
        """Note how much work there is in all."""
        before = self._kept_before[stage]
        low, high = low + before, None if high is None else high + before
        first = self._totals[stage].first_high if stage in self._totals else None
        self._totals[stage] = StageTotal(low, high, high if first is None else first)

    def expect(self, stage: Stage, count: int) -> None:
        """Count work that begins."""
        self._stage_began.setdefault(stage, self._clock())
        self._expected[stage] += count

    def done(self, stage: Stage, count: int = 1) -> None:
        """Count work that ended, or that is not begun any more."""
        self._done[stage] += count

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        """Count what a rollout or a verdict took."""
        self._kept[stage] += 1
        self._failed[stage] += failed
        self._usage += usage
        self._usd += usd or 0.0
        self._unpriced |= usd is None and usage.requests > 0

    def retried(self) -> None:
        """Count a call that is made again."""
        self._retries += 1

    def waiting(self, place: str, calls: int) -> None:
        """Note how many calls wait for an endpoint."""
        self._waiting[place] = calls

    @property
    def stages(self) -> list[Stage]:
        """The stages that have work."""
        return [stage for stage in _NAMES if self._expected[stage] or (self._of(stage).high or 0) > 0]

    @property
    def any_done(self) -> bool:
        """Whether any work ended."""
        return self._kept.total() > 0

    def share(self, stage: Stage) -> float | None:
        """Return which part of a stage is done, 0 to 1; None where nobody knows how much there is."""
        left, done = self._of(stage).left(self._kept[stage]), self._kept[stage]
        return None if left is None else done / (done + left) if done + left else 1.0

    def count(self, stage: Stage) -> str:
        """Return what is done of how much, and how many pieces failed."""
        failed = f" ({self._failed[stage]:,} failed)" if self._failed[stage] else ""
        return f"{self._kept[stage]:,}{self._of(stage).words()}{failed}"

    def rate(self, stage: Stage) -> str:
        """Return how fast a stage goes, in words; nothing before a piece is done."""
        a_second = self._rate(stage)
        if not a_second:
            return ""
        return f"{a_second:.1f}/s" if a_second >= 1 else f"{a_second * 60:.1f}/min"

    def took(self) -> str:
        """Return for how long the work has gone on."""
        return _minutes(self._clock() - self._began)

    def left(self) -> str:
        """Return for how long the work is likely to go on; nothing where that is not known."""
        times: list[float] = []
        for stage in self.stages:
            pieces, rate = self._of(stage).left(self._done[stage]), self._rate(stage)
            if pieces is None or (pieces and not rate):
                return ""
            times.append(pieces / rate if pieces else 0.0)
        return f"about {_minutes(max(times))} left" if any(times) else ""

    def spent(self) -> list[str]:
        """Return what waits, what it cost, what was tried again, and the tokens, the most important first."""
        waits = [
            f"{calls:,} {'call waits' if calls == 1 else 'calls wait'} for {place}"
            for place, calls in [*self._waiting.items()]
            if calls
        ]
        more = " and more (a price is unknown)" if self._unpriced else ""
        money = f"{dollars(self._usd)}{more}" if self._usd or not more else "cost unknown"
        retries = [counted(self._retries, "retry", "retries")] if self._retries else []
        tokens = [counted(self._usage.tokens, "token")] if self._usage.tokens is not None else []
        return [*waits, money, *tokens, *retries]

    def line(self) -> str:
        """Return it all in a line, for a log."""
        stages = [", ".join(filter(None, (self._named(stage), self.rate(stage)))) for stage in self.stages]
        parts = [*(stages or ["nothing yet"]), self.left(), *self.spent()]
        return f"progress after {self.took()}: " + "; ".join(filter(None, parts))

    def summary(self) -> str:
        """Return in a line what was done, once the work has ended."""
        self._waiting.clear()
        done = [self._named(stage, ended=True) for stage in self.stages]
        return f"took {self.took()}: " + "; ".join([*done, *self.spent()])

    def _named(self, stage: Stage, *, ended: bool = False) -> str:
        failed = f" ({self._failed[stage]:,} failed)" if self._failed[stage] else ""
        whole = ended and self._kept[stage] == self._of(stage).high
        total = "" if whole else self._of(stage).words()
        of = self._of(stage).high if total else self._kept[stage]
        return f"{self._kept[stage]:,}{total} {_NAMES[stage]}{'' if of == 1 else 's'}{failed}"

    def _of(self, stage: Stage) -> StageTotal:
        """Return a stage's total: as reported, else what was expected."""
        expected = self._expected[stage]
        return self._totals.get(stage) or StageTotal(expected, expected, expected)

    def _rate(self, stage: Stage) -> float:
        seconds = self._clock() - self._stage_began.get(stage, self._began)
        return self._kept[stage] / seconds if seconds > 0 else 0.0


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
