"""What a user chooses of a fork. Light: the command line reads it for --help."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from harness.core.errors import UsageError, joined, option, quoted

ForkAt = Literal["auto", "parted", "tools", "all"]
FORK_AT: tuple[ForkAt, ...] = get_args(ForkAt)


@dataclass(frozen=True, kw_only=True)
class ForkRules:
    """Where rollouts are taken up again, and how often."""

    at: str | None = None
    """Numbers of model calls that are given again, with commas (0: a fresh rollout), or one of FORK_AT.

    auto: where a branch tells most of which step decided, for its calls; it needs a budget. parted: where ranked
    rollouts part ways. tools: after each result of a tool. all: before every call but the first. None: auto with a
    budget, else parted.
    """
    rollouts: tuple[int, ...] = ()
    """Their indices; none: all that ended well."""
    query: str | None = None
    """Its id; None: all."""
    branches: int = 1
    """How many from each place."""
    budget: int | None = None
    """New model calls at most; None: as many as the branches make."""
    live_tools: bool = False
    """Whether the tools of the calls that are given again run again."""
    edit: Mapping[str, Any] | None = None
    """What a person changes of one step: `call` (from 1) and `output` or `message`; `tool` where it called several."""

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError."""
        for name, least, may_miss in (("branches", 1, False), ("budget", 1, True)):
            value = getattr(self, name)
            if not (may_miss and value is None) and (type(value) is not int or value < least):
                raise UsageError(f"{joined(option(name), quoted(value))}: give a whole number, at least {least}")
        if not isinstance(self.at, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{joined(option('at'), quoted(self.at))}: give a text, such as '2,5' or 'tools'")
        if not isinstance(self.rollouts, tuple) or not all(type(index) is int for index in self.rollouts):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{joined(option('rollouts'), quoted(self.rollouts))}: give a tuple of indices")

    @property
    def places(self) -> ForkAt | tuple[int, ...]:
        """Where to fork. Raises UsageError."""
        at = self.at if self.at is not None else "parted" if self.budget is None else "auto"
        if at in FORK_AT:
            return at
        words = [word.strip() for word in at.split(",")]
        if not all(re.fullmatch(r"[0-9]{1,6}", word) for word in words):
            expected = f"numbers of model calls with commas, or {', '.join(FORK_AT)}"
            raise UsageError(f"{joined(option('at'), quoted(at))}: expected {expected}")
        return tuple(dict.fromkeys(map(int, words)))
