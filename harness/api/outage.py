"""What becomes of a training while its judge cannot be had: `wait 5m, then skip, then stop after 30m`."""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from harness.core.errors import CeilingReached, JudgeFailed, Refused, UsageError, on_a_line, quoted
from harness.core.records import Failure
from harness.endpoints.pace import duration_s

_T = TypeVar("_T")

OUTAGE = "wait 5m, then skip, then stop after 30m"
"""The usual rule."""
JUDGE_BUSY_S = 5.0
"""A judge that answers with 429 alone, and names no time, is out after so long: other faults take as long to retry."""
_LENGTH = r"(\d+(?:\.\d+)?(?:ms|s|m|h))"
_RULE = re.compile(rf"(?:wait {_LENGTH})?(?:(?:^|, then )(skip))?(?:(?:^|, then )(stop)(?: after {_LENGTH})?)?")
_OF_ONE_REQUEST = {"content_filter", "context_length", "output", "refusal", "truncated"}
"""Kinds of failures that say nothing of whether other requests are answered."""
_REFUSED_REQUEST = {"BadRequestError", "UnprocessableEntityError"}


@dataclass(frozen=True)
class OutageRule:
    """For how long to wait for the judge, whether groups then go without rewards, and when the training stops."""

    wait_s: float
    skips: bool
    stop_s: float
    """Since the outage began; infinite: never."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a rule. Raises UsageError."""
        found = _RULE.fullmatch(text) if isinstance(text, str) and text else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if found is None:
            raise UsageError(f"outage={quoted(text)}: give a rule such as '{OUTAGE}'; each of its parts may be missing")
        waits, skips, stops, until = found.groups()
        wait_s = duration_s(waits or "") or 0.0
        stop_s = duration_s(until or "")
        if stop_s is None:
            stop_s = math.inf if skips or not stops else wait_s
        return cls(wait_s, bool(skips) or not stops, max(wait_s, stop_s))

    def now(self, waited_s: float, out_s: float) -> Literal["wait", "skip", "stop"]:
        """Return what a group does after it waited so long, in an outage that is so long."""
        if out_s >= self.stop_s:
            return "stop"
        return "wait" if waited_s < self.wait_s else "skip" if self.skips else "stop"


def is_outage(error: JudgeFailed | UsageError) -> bool:
    """Return whether no verdict could be had, from whatever cause but the requests themselves."""
    if isinstance(error, Refused):
        return True
    return isinstance(error, JudgeFailed) and (not error.failures or any(map(is_of_judge, error.failures)))


class JudgeOutage:
    """Keeps to the rule of outages for one judge: whoever gets no verdict asks here whether to wait."""

    def __init__(self, rule: str, clock: Callable[[], float]) -> None:
        """Read the rule; `clock` gives seconds. Raises UsageError."""
        self._rule, self._clock = OutageRule.read(rule), clock
        self.over()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: its clock is another."""
        return self.__dict__ | {"_since": None}

    def over(self) -> None:
        """Note that the judge is there."""
        self._since: float | None = None
        self._without = 0

    async def ride_out(
        self, ask: Callable[[], Awaitable[_T]], since: Callable[[], float], kept: object = None
    ) -> _T | JudgeFailed | UsageError:
        """Return what `ask` gives, which is called again as long as the rule says to wait; else why the group has none.

        `since` tells when the group last had a verdict, `kept` where verdicts are kept. Raises JudgeFailed where the
        rule says to stop, and what `ask` raises that is no outage.
        """
        tries = 0
        while True:
            try:
                given = await ask()
            except (JudgeFailed, UsageError) as exc:
                if isinstance(exc, CeilingReached) or not is_outage(exc):
                    raise
                if not await self._waits(exc, since(), tries, kept):
                    return exc
                tries += 1
            else:
                self.over()
                return given

    async def _waits(self, error: Exception, since: float, tries: int, kept: object) -> bool:
        """Wait for the judge, and return True; False where the group goes without. Raises JudgeFailed to stop."""
        if self._since is None:
            self._since = since
        now, log = self._clock(), logging.getLogger("arena-harness")
        waited_s, out_s = now - min(since, self._since), now - self._since
        match self._rule.now(waited_s, out_s):
            case "wait":
                left_s = self._rule.wait_s - waited_s
                if not tries:
                    log.warning("the judge is out, and is waited for up to %.0f s: %s", left_s, on_a_line(error))
                await asyncio.sleep(min(2.0**tries / 2, _LONGEST_PAUSE_S, left_s))
                return True
            case "skip":
                self._without += 1
                return False
            case "stop":
                place = f"; verdicts bought so far are in {kept}" if kept else ""
                raise JudgeFailed(
                    f"the judge has been out for {out_s:.0f} s, and the training stops ({on_a_line(error)}): this "
                    f"group and {self._without} before it have no rewards; see to the judge, and go on from the last "
                    f"checkpoint{place}"
                ) from error


_LONGEST_PAUSE_S = 30.0


def refuse_part(missing: Sequence[Failure]) -> None:
    """Raise JudgeFailed where missing verdicts may yet come: those that are there rank all, on a part of the calls."""
    if of_judge := [failure for failure in missing if is_of_judge(failure)]:
        error = JudgeFailed(f"verdicts are missing: {of_judge[0].message}")
        error.failures = tuple(missing)
        raise error


def is_of_judge(failure: Failure) -> bool:
    """Return whether a verdict failed for what other requests may meet as well."""
    return failure.kind not in _OF_ONE_REQUEST and failure.type not in _REFUSED_REQUEST
