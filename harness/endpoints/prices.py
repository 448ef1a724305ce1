"""What tokens cost: the user's own prices, then the list price at the address, then, if asked, that of the name.

List prices are those of the price library's offline data; an unknown price is None, never a guess and never zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

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
        the endpoint did not tell, a model without a price, an address of no listed provider (any local server).
        """
        names = [name for name in models if name]
        if price := next((self.own[name] for name in names if name in self.own), None):
            return _own_usd(price, usage)
        if usage.input is None or usage.output is None or not names:
            return None
        share = 0.5 if tier in _HALF_PRICE else 1.0
        if _at_address(names[0], base_url):
            return share * _listed_usd(usage, names[0], at=base_url or OPENAI_URL)
        like = self.list_price(names, base_url) if self.by_name else None
        return share * _listed_usd(usage, like.model, provider=like.provider) if like else None

    def list_price(self, models: Sequence[str | None], base_url: str | None) -> ListPrice | None:
        """Return whose list price a model takes by its name alone.

        None where the address has a price list of its own, where the user named a price, and for an unknown name.
        """
        names = [name for name in models if name]
        if any(name in self.own or _at_address(name, base_url) for name in names):
            return None
        return next((like for name in names if (like := _by_name(name))), None)


LIST_PRICES = PriceList()
"""The prices of the offline data alone."""


@dataclass(frozen=True)
class Priced:
    """What a model's tokens are priced by. `free`: an embedded model. `model` None: one without a name."""

    model: str | None
    base_url: str | None
    free: bool = False
    prices: PriceList = LIST_PRICES

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


def _own_usd(price: Price, usage: Usage) -> float | None:
    if price.free:
        return 0.0
    if usage.input is None or usage.output is None:
        return None
    return price.usd(usage.input, usage.output, usage.cached or 0)


def _listed_usd(usage: Usage, model: str, *, provider: str | None = None, at: str | None = None) -> float:
    import genai_prices  # noqa: PLC0415 - its data takes a tenth of a second to load

    tokens = genai_prices.Usage(
        input_tokens=usage.input, cache_read_tokens=usage.cached or 0, output_tokens=usage.output
    )
    if provider:
        return float(genai_prices.calc_price(tokens, model, provider_id=provider).total_price)
    return float(genai_prices.calc_price(tokens, model, provider_api_url=at).total_price)


@cache
def _at_address(model: str, base_url: str | None) -> bool:
    """Return whether the offline data hold a price of the model at the address."""
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
