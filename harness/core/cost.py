"""What something cost: exactly, at least, or nobody knows. Part of a bill is not the bill, and is not nothing."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """The USD of which it is known that they were spent: all of it if `exact`. Without arguments: nothing was."""

    known: float = 0.0
    exact: bool = True

    def __add__(self, other: "Cost") -> "Cost":
        """Add up; a sum with a part that is not known is at least the rest."""
        return Cost(self.known + other.known, self.exact and other.exact)

    @property
    def usd(self) -> float | None:
        """The whole price, None where it is not known."""
        return self.known if self.exact else None

    @property
    def at_least(self) -> float | None:
        """The part of an unknown price that is known; None where the price is known, or nothing of it is."""
        return None if self.exact else self.known or None

    def named(self, name: str) -> dict[str, Any]:
        """Return the price as records and JSON have it under a name; beside an unknown one stands what is known."""
        return {name: self.usd} | ({} if self.at_least is None else {f"{name}_at_least": self.at_least})


NOTHING, UNKNOWN = Cost(), Cost(exact=False)


def cost(usd: float | None, at_least: float | None = None) -> Cost:
    """Return a price as records hold it: None, or at least so much, where it is not known."""
    return Cost(at_least or 0.0, exact=False) if usd is None else Cost(usd)


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Return the sum; nothing was spent on nothing."""
    listed = list(costs)
    return Cost(math.fsum([each.known for each in listed]), all(each.exact for each in listed))
