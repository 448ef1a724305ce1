"""What a run may come to before anything is spent, and `--max-cost`.

The bounds rest on stated assumptions on tokens, which suit an agent of a few turns; `--max-cost` holds anyway.

List prices are those of the price library's offline data; an unknown price is None, never a guess and never zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from math import fsum
from typing import Any, Literal

import anyio

from harness.core.cost import UNKNOWN, Cost
from harness.core.errors import option, switch
from harness.core.prices import Price, prices_of
from harness.core.records import Bill, Usage
from harness.core.settings import Settings
from harness.endpoints.credentials import OPENAI_URL

UNKNOWN_ADDRESS = "unknown:"
"""In place of a base URL, where the models of an agent's own are: no list has a price for it."""

_BATCH = "batch"
"""The tier of what a batch brought: half of the ordinary price at every provider, where the list has none for it."""
_ORDINARY = {None, "default", "standard", "auto", "on_demand"}
"""What replies name the ordinary tier; `auto` names none."""
_FEES = {"web_search": "web_searches_kcount", "file_search": "storage_searches_kcount"}
"""Where the price list has what a thousand calls of a provider's own tool cost. Of other such tools no list tells."""


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

    def cost(self, bill: Bill, models: Sequence[str | None], base_url: str | None) -> Cost:
        """Return the price of a call at `base_url` (None: OpenAI's own address), as far as it is known.

        A list price is that of the call's service tier, with the fees of the provider's own tools; of a tier that the
        list does not have nothing is known. A price of the user's own holds in each tier, and has no fees.

        `models` are the names of the one model, the best first: as replied, as asked for. Unknown are: tokens that
        the endpoint did not count, a model without a price, an address of no listed provider (any local server).
        """
        names, usage = [name for name in models if name], bill.usage
        price = next((self.own[name] for name in names if name in self.own), None)
        if price and price.free:
            return Cost()
        is_whole = not (bill.is_odd or bill.is_part or usage.input is None or usage.output is None)
        if price:
            usd = price.usd(usage.input or 0, usage.output or 0, _read_from_cache(bill))
            return Cost(usd, is_whole and not bill.tools)
        if names and _at_address(names[0], base_url):
            listed = _listed(bill, names[0], provider_api_url=base_url or OPENAI_URL)
        elif names and self.by_name and (like := self.list_price(names, base_url)):
            listed = _listed(bill, like.model, provider_id=like.provider)
        else:
            return UNKNOWN
        return listed if is_whole else Cost(listed.known, exact=False)

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

    def cost(self, bill: Bill) -> Cost:
        """Return the price of a call, as far as it is known."""
        return Cost() if self.free else self.prices.cost(bill, (self.model,), self.base_url)

    @property
    def list_price(self) -> ListPrice | None:
        """Whose list price the model would take by its name alone; None where it needs none, or there is none."""
        return None if self.free else self.prices.list_price((self.model,), self.base_url)


def price_list(settings: Settings) -> PriceList:
    """Return the prices that hold under `settings`."""
    return PriceList(prices_of(settings.prices), settings.price_by_name)


def _listed(bill: Bill, model: str, **whose: Any) -> Cost:
    import genai_prices  # noqa: PLC0415 - its data takes a tenth of a second to load

    usage, tier = bill.usage, None if bill.tier in _ORDINARY else bill.tier
    context = {"processing" if tier == _BATCH else "service_tier": tier} if tier else None
    counts = {"cache_read_tokens": (cached := _read_from_cache(bill))}
    if usage.cache_write:
        counts["cache_write_tokens"] = min(usage.cache_write, (usage.input or 0) - cached)
    tokens = genai_prices.Usage(input_tokens=usage.input, output_tokens=usage.output, **counts)
    price = genai_prices.calc_price(tokens, model, price_context=context, **whose)
    usd, is_listed = float(price.total_price), True
    if context and not any(variant.when == context for variant in price.model.price_variants or ()):
        usd, is_listed = (0.5 * usd, True) if tier == _BATCH else (0.0, False)
    for tool, times in bill.tools.items():
        fee = getattr(price.model_price, _FEES[tool], None) if tool in _FEES else None
        if isinstance(fee, Decimal):
            usd += times * float(fee) / 1000
        else:
            is_listed = False
    return Cost(usd, is_listed)


def _read_from_cache(bill: Bill) -> int:
    """Return how many tokens in were cached: of counts that contradict each other all, which costs least."""
    read, cached = bill.usage.input or 0, bill.usage.cached
    return read if cached is None and bill.is_odd else min(cached or 0, read)


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
    low, high = (priced.cost(Bill(tokens.usage())).usd for tokens in each)
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
        while self._usd is not None and not self.stopped:
            under_way = sum(n * self._dearest.get(k, 0.0) for k, n in self._under_way.items())
            price = self._dearest.get(kind)
            if self.spent + under_way + (price or 0.0) <= self._usd and (price is not None or self.spent < self._usd):
                break
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

    def also_expect(self, prices: Mapping[Purchase, float]) -> None:
        """Take purchases to cost these prices at least."""
        for kind, usd in prices.items():
            self._dearest[kind] = max(usd, self.expected(kind))

    def expected(self, kind: Purchase) -> float:
        """Return the USD that a purchase of a kind is taken to cost."""
        return self._dearest.get(kind, 0.0)

    @property
    def next_usd(self) -> float | None:
        """A ceiling under which more is bought, twice this one or the dearest purchase; None where none helps."""
        dearest = max(self._dearest.values(), default=0.0)
        return max(2 * self._usd, 2 * dearest) or None if self._usd is not None and self._priced else None

    def end(self, kind: Purchase, cost: Cost) -> None:
        """Note what a purchase cost. A price that is not known as a whole ends all buying under a ceiling."""
        self._under_way[kind] -= 1
        if not cost.exact and self._usd is not None:
            part = f"of a price only ${cost.known:.4f} are known" if cost.known else "a price is unknown"
            before = f"{part} (${self.spent:.4f} spent before)"
            way_out = f"{switch('price_by_name')} may name the rest, else leave {option('max_cost')} out"
            self.stopped = f"{option('max_cost', self._usd)} cannot be kept: {before}; {way_out}"
            self._priced = False
        self.spent += cost.known
        if cost.known > 0:
            self._dearest[kind] = max(cost.known, self.expected(kind) if kind in self._seen else 0.0)
            self._seen.add(kind)
        self._ended.set()
        self._ended = anyio.Event()
