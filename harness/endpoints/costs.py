"""What a run may come to before anything is spent, and `--max-cost`.

The bounds rest on stated assumptions on tokens, which suit an agent of a few turns; `--max-cost` holds anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Literal

import anyio

from harness.core.records import Usage
from harness.core.wording import option
from harness.endpoints.prices import Priced

_NO_BUDGET = 32_000
"""Tokens taken for two transcripts where --judge-budget sets no limit."""


@dataclass(frozen=True)
class Tokens:
    """What one piece of work takes: model calls, and tokens in and out of each."""

    calls: int
    input: int
    output: int

    def usage(self) -> Usage:
        """Return the usage of all calls together."""
        return Usage(requests=self.calls, input=self.calls * self.input, output=self.calls * self.output)


@dataclass(frozen=True)
class CostBounds:
    """From USD `low` to `high`: estimates both, since nobody knows yet how many tokens a call takes."""

    low: float
    high: float


def agent_tokens(max_turns: int) -> tuple[Tokens, Tokens]:
    """Return what one rollout is taken to need: a quick answer, and ten turns that each read more."""
    return Tokens(1, 500, 200), Tokens(min(10, max_turns), 5_000, 1_000)


def judge_tokens(judge_budget: int) -> tuple[Tokens, Tokens]:
    """Return what one judge call is taken to need: the fixed prompt and next to nothing, or a full budget."""
    return Tokens(1, 2_000, 500), Tokens(1, 2_000 + (judge_budget or _NO_BUDGET), 1_500)


def cost_bounds(pieces: tuple[int, int], each: tuple[Tokens, Tokens], priced: Priced) -> CostBounds | None:
    """Return what `pieces` (fewest, most) cost; None where the price is not known."""
    low, high = (priced.of(tokens.usage()) for tokens in each)
    return None if low is None or high is None else CostBounds(pieces[0] * low, pieces[1] * high)


def total_bounds(agent: CostBounds | None, judge: CostBounds | None) -> CostBounds | None:
    """Return the sum of two bounds, None where either is unknown."""
    if agent is None or judge is None:
        return None
    return CostBounds(fsum((agent.low, judge.low)), fsum((agent.high, judge.high)))


Purchase = Literal["agent", "judge"]
"""A rollout, or a verdict."""
_IN_WORDS: Mapping[Purchase, str] = {"agent": "rollout", "judge": "judge call"}


class Ceiling:
    """A ceiling on spending. Purchases under way are never stopped: they are paid for.

    A purchase may begin if it fits beside what was spent and what is under way. Each purchase is taken at the price of
    the dearest of its kind so far, or at `expected` before the first. Only a purchase dearer than all before it can go
    beyond the ceiling.
    """

    def __init__(self, usd: float | None = None, expected: Mapping[Purchase, float] | None = None) -> None:
        """Allow `usd`; None for no ceiling."""
        self._usd = usd
        self._dearest: dict[Purchase, float] = dict(expected or {})
        self._seen: set[Purchase] = set()
        self._under_way: dict[Purchase, int] = {}
        self._ended = anyio.Event()
        self.spent = 0.0
        self.stopped: str | None = None
        """Why nothing more is bought."""

    async def begin(self, kind: Purchase) -> bool:
        """Return whether a purchase may begin; waits while that depends on purchases under way."""
        while self._usd is not None and not self.stopped and not self._fits(kind, self._usd):
            if not any(self._under_way.values()):
                self.stopped = self._no_room(kind, self._usd)
                break
            await self._ended.wait()
        if self.stopped:
            return False
        self._under_way[kind] = self._under_way.get(kind, 0) + 1
        return True

    def expected(self, kind: Purchase) -> float:
        """Return the USD that a purchase of a kind is taken to cost."""
        return self._dearest.get(kind, 0.0)

    def end(self, kind: Purchase, usd: float | None) -> None:
        """Note what a purchase cost. None, an unknown price, ends all buying under a ceiling."""
        self._under_way[kind] -= 1
        if usd is None and self._usd is not None:
            self.stopped = (
                f"{option('max_cost', self._usd)} cannot be kept: a price is unknown (${self.spent:.4f} spent before)"
            )
        self.spent += usd or 0.0
        if usd is not None and usd > 0:
            before = self._dearest.get(kind, 0.0) if kind in self._seen else 0.0
            self._dearest[kind] = max(usd, before)
            self._seen.add(kind)
        self._ended.set()
        self._ended = anyio.Event()

    def _no_room(self, kind: Purchase, usd: float) -> str:
        ceiling = option("max_cost", usd)
        if self.spent >= usd:
            return f"{ceiling} is reached: ${self.spent:.4f} spent"
        return f"the next {_IN_WORDS[kind]} could exceed {ceiling}: ${self.spent:.4f} spent"

    def _fits(self, kind: Purchase, usd: float) -> bool:
        under_way = sum(n * self._dearest.get(k, 0.0) for k, n in self._under_way.items())
        price = self._dearest.get(kind)
        return self.spent + under_way + (price or 0.0) <= usd and (price is not None or self.spent < usd)
