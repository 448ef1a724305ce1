"""Service tiers of judge calls: which tier an attempt asks for, and what an endpoint says of a tier.

The flex tier costs half and has no room at times. Such a 429 is waited out like any other; where the ordinary tier is
named as well, the call goes there once flex has had no room for all tries, or gave no reply in time.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

import anyio
import openai

from harness.core.errors import Refused
from harness.core.settings import JudgeTier
from harness.core.wording import option

_Reply = TypeVar("_Reply")
Tier = Literal["default", "flex"]
FLEX_REPLY_S = 900.0
"""The time that OpenAI advises to allow for a reply of the flex tier."""


class TierChoice:
    """The tiers of one call's attempts. Without `--judge-tier` no tier is sent."""

    def __init__(self, setting: JudgeTier, tries: int) -> None:
        """Ask for the cheap tier `tries` times before the ordinary one, where that is named too."""
        self._named = setting != "default"
        self._falls_back = setting == "flex,default"
        self._left = tries

    async def send(self, call: Callable[[Mapping[str, Any]], Awaitable[_Reply]]) -> _Reply:
        """Make an attempt; `call` gets what names the tier. Raises what `call` raises."""
        if not self._named:
            return await call({})
        tier: Tier = "default" if self._falls_back and self._left <= 0 else "flex"
        try:
            return await call({"service_tier": tier})
        except (openai.APITimeoutError, anyio.get_cancelled_exc_class()):  # the gate cancels what comes too late
            self._left = 0
            raise
        except openai.RateLimitError as exc:
            self._left -= _has_no_room(exc)
            raise


def tier_refusal(exc: openai.APIError, model: str, host: str) -> Refused | None:
    """Return the one-line error for a call whose tier is refused; None for a call refused for anything else."""
    if exc.param != "service_tier" and not ("service_tier" in exc.message or "flex" in exc.message.lower()):
        return None
    return Refused(
        f"{host} has no tier flex for the judge's model {model!r} ({exc.message}); leave {option('judge_tier')} out, "
        f"or name a model that has it with {option('judge_model')}"
    )


def _has_no_room(exc: openai.RateLimitError) -> bool:
    """Return whether a 429 says that the tier has no room, and not that the caller asks too often."""
    return "resource unavailable" in f"{exc.code} {exc.type} {exc.message}".lower().replace("_", " ")
