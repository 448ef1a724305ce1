"""What tokens cost, what a run may come to before anything is spent, and `--max-cost`.

Prices are those of the price library's offline data; an unknown price is None, never a guess and never zero. The
bounds rest on stated assumptions on tokens, which suit an agent of a few turns; `--max-cost` holds anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import fsum
from typing import Literal

import anyio

from harness.core.records import Usage
from harness.endpoints.credentials import OPENAI_URL


def price_usd(usage: Usage, model: str | None, base_url: str | None) -> float | None:
    """Return the price of `usage` at `base_url` (None: OpenAI's own address), or None where it is not known.

    Unknown are: tokens that the endpoint did not tell, a model without a listed price, an address of no listed
    provider (any local server).
    """
    if model is None or usage.input is None or usage.output is None or not _is_listed(model, base_url):
        return None
    import genai_prices  # noqa: PLC0415 - its data takes a tenth of a second to load

    tokens = genai_prices.Usage(
        input_tokens=usage.input, cache_read_tokens=usage.cached or 0, output_tokens=usage.output
    )
    return float(genai_prices.calc_price(tokens, model, provider_api_url=base_url or OPENAI_URL).total_price)


@cache
def _is_listed(model: str, base_url: str | None) -> bool:
    import genai_prices  # noqa: PLC0415 - as above

    try:
        genai_prices.calc_price(genai_prices.Usage(), model, provider_api_url=base_url or OPENAI_URL)
    except LookupError:
        return False
    return True


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
class Priced:
    """Where tokens are priced. `free`: an embedded model. `model` None: unknown, for the agent brings its own."""

    model: str | None
    base_url: str | None
    free: bool = False

    def usd(self, tokens: Tokens) -> float | None:
        """Return a price, None where it is not known."""
        return 0.0 if self.free else price_usd(tokens.usage(), self.model, self.base_url)


@dataclass(frozen=True)
class CostBounds:
    """From USD `low` to `high`."""

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
    low, high = (priced.usd(tokens) for tokens in each)
    return None if low is None or high is None else CostBounds(pieces[0] * low, pieces[1] * high)


def total_bounds(agent: CostBounds | None, judge: CostBounds | None) -> CostBounds | None:
    """Return the sum of two bounds, None where either is unknown."""
    if agent is None or judge is None:
        return None
    return CostBounds(fsum((agent.low, judge.low)), fsum((agent.high, judge.high)))


Purchase = Literal["agent", "judge"]
"""A rollout, or a verdict."""


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
                self.stopped = f"--max-cost {self._usd:g} is reached: ${self.spent:.4f} spent"
                break
            await self._ended.wait()
        if self.stopped:
            return False
        self._under_way[kind] = self._under_way.get(kind, 0) + 1
        return True

    def end(self, kind: Purchase, usd: float | None) -> None:
        """Note what a purchase cost. None, an unknown price, ends all buying under a ceiling."""
        self._under_way[kind] -= 1
        if usd is None and self._usd is not None:
            self.stopped = (
                f"--max-cost {self._usd:g} cannot be kept: a price is unknown (${self.spent:.4f} spent before)"
            )
        self.spent += usd or 0.0
        if usd is not None and usd > 0:
            before = self._dearest.get(kind, 0.0) if kind in self._seen else 0.0
            self._dearest[kind] = max(usd, before)
            self._seen.add(kind)
        self._ended.set()
        self._ended = anyio.Event()

    def _fits(self, kind: Purchase, usd: float) -> bool:
        under_way = sum(n * self._dearest.get(k, 0.0) for k, n in self._under_way.items())
        price = self._dearest.get(kind)
        return self.spent + under_way + (price or 0.0) <= usd and (price is not None or self.spent < usd)
