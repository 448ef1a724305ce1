"""The designs of a curve: a topology, the orders in which it judges, and for `cyclic` how many calls it may make."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

from harness.core.settings import OrderPolicy, TopologyName
from harness.ranking.registry import NEED_ANCHOR, TOPOLOGIES

_SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(3, 2), Fraction(2))
"""Judge calls of `cyclic`, as shares of the number of pairs: above 1 pairs are judged in both orders."""


@dataclass(frozen=True)
class CurveDesign:
    """One way of choosing which verdicts to buy."""

    topology: TopologyName
    order: OrderPolicy | None
    """None: the topology's own, as a budget allows."""
    share: Fraction | None = None
    """For a topology with a budget: judge calls as a share of the number of pairs."""

    def budget(self, n: int) -> int | None:
        """Return the judge calls for a group of n that the design may make; at least what connects all."""
        return None if self.share is None else max(1, n - 1, round(self.share * n * (n - 1) / 2))


def designs(sizes: Collection[int], *, both_orders: bool, held_out: bool, anchored: bool) -> Iterator[CurveDesign]:
    """Yield every design that verdicts on groups of these sizes allow.

    Without `both_orders` each pair has one verdict, which every design then takes. With `held_out` the verdicts of the
    orders that a design does not ask for are the truth, so that it may ask for one order of a pair. Without `anchored`
    no group has an anchor to seed by.
    """
    two = both_orders and not held_out
    policies: list[OrderPolicy] = ["balanced", "single"] if both_orders else ["single"]
    if two:
        policies.insert(0, "both")
    for name, design in TOPOLOGIES.items():
        if name == "none" or (name in NEED_ANCHOR and not anchored):
            continue
        if design.usual_order is None:
            yield from _with_budgets(name, sizes, most=_SHARES[-1] if two else Fraction(1))
        else:
            yield from (CurveDesign(name, order) for order in policies)


def _with_budgets(name: TopologyName, sizes: Collection[int], most: Fraction) -> Iterator[CurveDesign]:
    """Yield a topology with each budget that differs from the one before."""
    before = list[int | None]()
    for share in _SHARES:
        design = CurveDesign(name, None, share)
        budgets = [design.budget(n) for n in sizes]
        if share <= most and budgets != before:
            yield design
        before = budgets
