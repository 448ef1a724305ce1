"""What a run may come to before anything is spent, and `--max-cost`.

The bounds rest on stated assumptions on tokens, which suit an agent of a few turns; `--max-cost` holds anyway.

List prices are those of the price library's offline data; an unknown price is None, never a guess and never zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import fsum
from typing import Any, Literal

import anyio

from harness.core.errors import option
from harness.core.prices import Price, prices_of
from harness.core.records import Usage
from harness.core.settings import Settings
from harness.endpoints.credentials import OPENAI_URL

UNKNOWN_ADDRESS = "unknown:"
"""In place of a base URL, where the models of an agent's own are: no list has a price for it."""

_HALF_PRICE = {"flex", "batch"}
"""The service tiers of which every provider's list price is half of the ordinary one."""


@dataclass(frozen=True)
class ListPrice:
    """A model in the offline data: whose, and its name there."""

    provider: str
    provider_name: str
    model: str


@dataclass(frozen=True)
class PriceList:
    """The prices that hold in a run. Without anything of the user's, list prices alone."""

    own: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """Those that the user named (--price), by model."""
    by_name: bool = False
    """Whether a model at an address of no listed provider takes the list price of its name (--price-by-name)."""

    def usd(
        self, usage: Usage, models: Sequence[str | None], base_url: str | None, tier: str | None = None
    ) -> float | None:
        """Return the price of `usage` at `base_url` (None: OpenAI's own address), or None where it is not known.

        A list price is half in the tiers `flex` and `batch`; a price of the user's own holds in each tier.

        `models` are the names of the one model, the best first: as replied, as asked for. Unknown are: tokens that
        the endpoint did not count, a model without a price, an address of no listed provider (any local server).
        """
        names = [name for name in models if name]
        price = next((self.own[name] for name in names if name in self.own), None)
        if price and price.free:
            return 0.0
        if usage.input is None or usage.output is None or not names:
            return None
        if price:
            return price.usd(usage.input, usage.output, usage.cached or 0)
        share = 0.5 if tier in _HALF_PRICE else 1.0
        if _at_address(names[0], base_url):
            return share * _listed_usd(usage, names[0], at=base_url or OPENAI_URL)
        like = self.list_price(names, base_url) if self.by_name else None
        return share * _listed_usd(usage, like.model, provider=like.provider) if like else None

    def list_price(self, models: Sequence[str | None], base_url: str | None) -> ListPrice | None:
        """Return whose list price a model takes by its name alone; None where another price holds, or none."""
        names = [name for name in models if name]
        if any(name in self.own or _at_address(name, base_url) for name in names):
            return None
        return next(filter(None, map(_by_name, names)), None)


@dataclass(frozen=True)
class Priced:
    """What a model's tokens are priced by. `free`: an embedded model. `model` None: one without a name."""

    model: str | None
    base_url: str | None
    free: bool = False
    prices: PriceList = PriceList()

    def of(self, usage: Usage, tier: str | None = None) -> float | None:
        """Return the price in USD at a service tier (None: the ordinary one), None where it is not known."""
        return 0.0 if self.free else self.prices.usd(usage, (self.model,), self.base_url, tier)

    @property
    def list_price(self) -> ListPrice | None:
        """Whose list price the model would take by its name alone; None where it needs none, or there is none."""
        return None if self.free else self.prices.list_price((self.model,), self.base_url)


def price_list(settings: Settings) -> PriceList:
    """Return the prices that hold under `settings`."""
    return PriceList(prices_of(settings.prices), settings.price_by_name)


def _listed_usd(usage: Usage, model: str, *, provider: str | None = None, at: str | None = None) -> float:
    import genai_prices  # noqa: PLC0415 - its data takes a tenth of a second to load

    into, out, cached = usage.input, usage.output, usage.cached or 0
    tokens = genai_prices.Usage(input_tokens=into, cache_read_tokens=cached, output_tokens=out)
    whose: dict[str, Any] = {"provider_id": provider} if provider else {"provider_api_url": at}
    return float(genai_prices.calc_price(tokens, model, **whose).total_price)


@cache
def _at_address(model: str, base_url: str | None) -> bool:
    import genai_prices  # noqa: PLC0415 - as above

    try:
        genai_prices.calc_price(genai_prices.Usage(), model, provider_api_url=base_url or OPENAI_URL)
    except LookupError:
        return False
    return True


@cache
def _by_name(model: str) -> ListPrice | None:
    """Return the model of this name in the offline data; of `vendor/name`, which gateways say, also that of `name`."""
    import genai_prices  # noqa: PLC0415 - as above

    for name in dict.fromkeys((model, model.rpartition("/")[2])):
        try:
            match = genai_prices.calc_price(genai_prices.Usage(), name)
        except LookupError:
            continue
        return ListPrice(match.provider.id, match.provider.name, match.model.id)
    return None


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
        self._usd, self.spent = usd, 0.0
        self._dearest: dict[Purchase, float] = dict(expected or {})
        self._seen: set[Purchase] = set()
        self._under_way: dict[Purchase, int] = {}
        self._ended, self._priced = anyio.Event(), True
        self.stopped: str | None = None
        """Why nothing more is bought."""

    async def begin(self, kind: Purchase) -> bool:
        """Return whether a purchase may begin; waits while that depends on purchases under way."""
        while self._usd is not None and not self.stopped and not self._fits(kind, self._usd):
            if any(self._under_way.values()):
                await self._ended.wait()
                continue
            ceiling, spent = option("max_cost", self._usd), f"${self.spent:.4f} spent"
            next_one = f"the next {_IN_WORDS[kind]} could exceed {ceiling}: {spent}"
            self.stopped = f"{ceiling} is reached: {spent}" if self.spent >= self._usd else next_one
        if self.stopped:
            return False
        self._under_way[kind] = self._under_way.get(kind, 0) + 1
        return True

    def expected(self, kind: Purchase) -> float:
        """Return the USD that a purchase of a kind is taken to cost."""
        return self._dearest.get(kind, 0.0)

    @property
    def next_usd(self) -> float | None:
        """A ceiling under which more is bought, twice this one or the dearest purchase; None where none helps."""
        dearest = max(self._dearest.values(), default=0.0)
        return max(2 * self._usd, 2 * dearest) or None if self._usd is not None and self._priced else None

    def end(self, kind: Purchase, usd: float | None) -> None:
        """Note what a purchase cost. None, an unknown price, ends all buying under a ceiling."""
        self._under_way[kind] -= 1
        if usd is None and self._usd is not None:
            before = f"a price is unknown (${self.spent:.4f} spent before)"
            self.stopped = f"{option('max_cost', self._usd)} cannot be kept: {before}"
            self._priced = False
        self.spent += usd or 0.0
        if usd is not None and usd > 0:
            self._dearest[kind] = max(usd, self.expected(kind) if kind in self._seen else 0.0)
            self._seen.add(kind)
        self._ended.set()
        self._ended = anyio.Event()

    def _fits(self, kind: Purchase, usd: float) -> bool:
        under_way = sum(n * self._dearest.get(k, 0.0) for k, n in self._under_way.items())
        price = self._dearest.get(kind)
        return self.spent + under_way + (price or 0.0) <= usd and (price is not None or self.spent < usd)
