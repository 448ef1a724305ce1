"""Prices that a user names: `MODEL=IN/OUT[/CACHED]`, in USD a million tokens."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

_DEAREST = 1_000_000.0
"""USD a million tokens, which is a dollar a token: a price beyond that is a slip."""
_LONGEST_NAME = 200
_NUMBER = r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*"
_PRICE = re.compile(rf"{_NUMBER}/{_NUMBER}(?:/{_NUMBER})?", re.ASCII)
_FORM = "should be MODEL=IN/OUT or MODEL=IN/OUT/CACHED, in USD a million tokens, as in my-model=0.5/1.5"


@dataclass(frozen=True)
class Price:
    """USD a million tokens: read anew, written, and read from the endpoint's cache."""

    input: float
    output: float
    cached: float

    @property
    def free(self) -> bool:
        """Whether nothing costs anything."""
        return not (self.input or self.output or self.cached)

    def usd(self, read: int, written: int, cached: int) -> float:
        """Return what tokens cost; those `cached` are among those `read`."""
        cached = min(cached, read)
        return ((read - cached) * self.input + cached * self.cached + written * self.output) / 1e6


def price_words(value: Any) -> Any:
    """Return prices as the option takes them, from a mapping of models to prices; anything else as it is.

    A price is text, IN/OUT[/CACHED], or a sequence of two or three numbers.
    """
    if not isinstance(value, Mapping):
        return value
    prices = cast("Mapping[Any, Any]", value)
    return [f"{model}={_written(price)}" for model, price in prices.items()]


def _written(price: Any) -> str:
    if isinstance(price, str) or not isinstance(price, Sequence):
        return str(price)
    return "/".join(map(str, cast("Sequence[Any]", price)))


def price_word(word: str) -> str:
    """Return a price as it is written down, without spaces. Raises ValueError for what is none."""
    model, price = _parts(word)
    return f"{model}={price}"


def prices_of(words: Iterable[str]) -> dict[str, Price]:
    """Return what `price_word` has checked, by model."""
    prices: dict[str, Price] = {}
    for model, numbers in map(_parts, words):
        read, written, *cached = map(float, numbers.split("/"))
        prices[model] = Price(read, written, cached[0] if cached else read)
    return prices


def added_prices(before: Any, now: Any) -> list[Any]:
    """Return prices of `before`, less those that `now` names anew, and those of `now`."""
    earlier, later = (_listed(price_words(value)) for value in (before, now))
    named = {_model(word) for word in later}
    return [word for word in earlier if _model(word) not in named] + later


def _listed(words: Any) -> list[Any]:
    several = isinstance(words, Sequence) and not isinstance(words, str)
    return list(cast("Sequence[Any]", words)) if several else [] if words is None else [words]


def _model(word: Any) -> str:
    return str(word).rpartition("=")[0].strip()


def _parts(word: str) -> tuple[str, str]:
    """Split at the last `=`: a model's name may hold one."""
    name, _, numbers = word.rpartition("=")
    model, match = name.strip(), _PRICE.fullmatch(numbers)
    if not model or match is None:
        raise ValueError(_FORM)
    if len(model) > _LONGEST_NAME or not model.isprintable():
        raise ValueError(f"the name of a model has at most {_LONGEST_NAME} characters, all of them printable")
    given = [number for number in match.groups() if number is not None]
    if max(map(float, given)) > _DEAREST:
        raise ValueError(f"more than {_DEAREST:,.0f} USD a million tokens")
    return model, "/".join(given)
