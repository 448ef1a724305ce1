"""What came of a group of a training, and the figures of several groups for the trainer's log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.progress import Silent, Stage
from harness.core.rankings import GroupRanking
from harness.core.records import Usage

_SUMS = {"judge/calls", "judge/reused", "judge/usd"}


class Purchases(Silent):
    """Adds up what the verdicts of one group took, failed ones too."""

    def __init__(self) -> None:
        """Nothing is spent yet."""
        self.calls = 0
        self.usd: float | None = 0.0
        """None once a price is unknown."""

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:  # noqa: ARG002 - a watcher's
        """Add a verdict."""
        self.calls += 1
        self.usd = None if self.usd is None or usd is None else self.usd + usd


@dataclass(frozen=True)
class JudgedGroup:
    """A reward for each trajectory of a group, or None for all of them."""

    rewards: tuple[float, ...] | None
    explanations: tuple[str, ...]
    """Of each trajectory its matches in words; of a group that failed, why it failed."""
    purchases: Purchases
    ranking: GroupRanking | None = None


def figures_of(judged: Sequence[JudgedGroup]) -> dict[str, float]:
    """Return what a trainer logs of the groups of a step. What is not known, such as a price, is left out.

    `judge/flip_rate` is the share of pairs, of those judged in both orders, whose orders name opposite winners;
    `judge/reliability` and `judge/first_side` are means over groups of what a GroupRanking says under those names;
    `judge/no_signal` the share of the groups with rewards in which the judge told nobody apart; `judge/failed_groups`
    the share of groups without rewards; `judge/calls` and `judge/reused` are verdicts, `judge/usd` what they cost.
    """
    rankings = [group.ranking for group in judged if group.ranking]
    in_both_orders = [m for ranking in rankings for m in ranking.matches if len(set(m.shown_first)) == 2]
    prices = [group.purchases.usd for group in judged if group.purchases.usd is not None]
    figures = {
        "judge/flip_rate": _share([match.flipped for match in in_both_orders]),
        "judge/reliability": _mean([ranking.reliability for ranking in rankings]),
        "judge/first_side": _mean([ranking.first_side for ranking in rankings]),
        "judge/no_signal": _share([ranking.signal == "none" for ranking in rankings]),
        "judge/failed_groups": _share([group.rewards is None for group in judged]),
        "judge/calls": float(sum(group.purchases.calls for group in judged)),
        "judge/reused": float(sum(ranking.reused for ranking in rankings)),
        "judge/usd": sum(prices) if len(prices) == len(judged) else None,
    }
    return {name: value for name, value in figures.items() if value is not None}


def joined_figures(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the figures of several groups as those of one step: sums of what was bought, else means."""
    names = dict.fromkeys(name for of_group in figures for name in of_group)
    values = {name: [of_group[name] for of_group in figures if name in of_group] for name in names}
    return {name: sum(each) / (1 if name in _SUMS else len(each)) for name, each in values.items()}


def _share(marks: Sequence[bool]) -> float | None:
    return sum(marks) / len(marks) if marks else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
