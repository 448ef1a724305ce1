"""Progress as a line of text, for a log: how far the work is, what failed, what waits, what was spent."""

from collections import Counter

from harness.core.progress import Stage
from harness.core.records import Usage

_NAMES: dict[Stage, str] = {"rollouts": "rollouts", "judging": "verdicts"}


class ProgressTally:
    """Counts what a run tells while it goes on."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._expected, self._done, self._failed = Counter[Stage](), Counter[Stage](), Counter[Stage]()
        self._waiting = dict[str, int]()
        self._usage = Usage()
        self._usd: float = 0.0
        self._unpriced = False

    def expect(self, stage: Stage, count: int) -> None:
        """Count work that is now known of."""
        self._expected[stage] += count

    def done(self, stage: Stage, count: int) -> None:
        """Count work that ended."""
        self._done[stage] += count

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        """Count what a rollout or a verdict took."""
        self._failed[stage] += failed
        self._usage += usage
        self._usd += usd or 0.0
        self._unpriced |= usd is None and usage.requests > 0

    def waiting(self, place: str, calls: int) -> None:
        """Note how many calls wait for an endpoint."""
        self._waiting[place] = calls

    def line(self, seconds: float) -> str:
        """Return it all in a line; `seconds` is how long the work has taken."""
        minutes, rest = divmod(round(seconds), 60)
        stages = [self._stage(stage) for stage in _NAMES if self._expected[stage]]
        waits = [f"{calls} calls wait for {place}" for place, calls in self._waiting.items() if calls]
        tokens = f"{self._usage.tokens:,} tokens" if self._usage.tokens is not None else "tokens unknown"
        money = f"${self._usd:.4f}" + (" and more (a price is unknown)" if self._unpriced else "")
        return f"progress after {minutes}:{rest:02}: " + "; ".join(
            [*(stages or ["nothing yet"]), *waits, money, tokens]
        )

    def _stage(self, stage: Stage) -> str:
        failed = f" ({self._failed[stage]} failed)" if self._failed[stage] else ""
        return f"{self._done[stage]:,} of {self._expected[stage]:,} {_NAMES[stage]}{failed}"
