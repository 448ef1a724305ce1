"""What becomes of a training while its judge cannot be had: `wait 5m, then skip, then stop after 30m`."""

import math
import re
from dataclasses import dataclass
from typing import Literal, Self

from harness.core.errors import JudgeFailed, Refused, UsageError, quoted
from harness.core.records import Failure

OUTAGE = "wait 5m, then skip, then stop after 30m"
"""The usual rule."""
_LENGTH = r"(\d+(?:\.\d+)?)(ms|s|m|h)"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
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
        waits, unit, skips, stops, until, until_unit = found.groups()
        wait_s = float(waits) * _SECONDS[unit] if waits else 0.0
        stop_s = float(until) * _SECONDS[until_unit] if until else (math.inf if skips or not stops else wait_s)
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


def is_of_judge(failure: Failure) -> bool:
    """Return whether a verdict failed for what other requests may meet as well."""
    return failure.kind not in _OF_ONE_REQUEST and failure.type not in _REFUSED_REQUEST
