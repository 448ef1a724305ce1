"""How far jurors agree: Cohen's kappa on winners, Spearman's rank correlation on margins.

Both take margins, score of the first less score of the second, item by item; a positive margin names the first the
winner, zero a tie.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations

from harness.core.rankings import Agreement, Match
from harness.core.verdicts import PairJudgment
from harness.ranking.judge_stats.agreement import kappa as kappa_of_labels
from harness.ranking.ranks import average_ranks

JurorMargins = Mapping[str, Mapping[Hashable, float]]
"""By juror, then by item; an item that a juror did not judge is not there."""


def agreement(margins: JurorMargins) -> tuple[Agreement, ...]:
    """Return the agreement of each two jurors on the items that both judged, in the jurors' order."""
    return tuple(_agreement(margins, first, second) for first, second in combinations(margins, 2))


def _agreement(margins: JurorMargins, first: str, second: str) -> Agreement:
    both = [item for item in margins[first] if item in margins[second]]
    a, b = [margins[first][item] for item in both], [margins[second][item] for item in both]
    return Agreement(jurors=(first, second), items=len(both), kappa=winner_kappa(a, b), spearman=spearman(a, b))


def match_margins(
    matches: Iterable[Match], verdict: Callable[[str], PairJudgment | None], group: str = ""
) -> dict[str, dict[Hashable, float]]:
    """Return each judge's margin on each match, the mean over its orders; a repeated match counts once."""
    margins: dict[str, dict[Hashable, float]] = {}
    for match in (m for m in matches if not m.repeated):
        leads_by_judge: dict[str, list[float]] = {}
        for key, first in zip(match.verdicts, match.shown_first, strict=True):
            if judged := verdict(key):
                lead = judged.a.combined - judged.b.combined
                leads_by_judge.setdefault(judged.judge, []).append(lead if first == match.a else -lead)
        for judge, leads in leads_by_judge.items():
            margins.setdefault(judge, {})[group, match.a, match.b] = round(math.fsum(leads) / len(leads), 9)
    return margins


def mean_agreement(agreements: Iterable[Agreement]) -> tuple[Agreement, ...]:
    """Return each two jurors' figures over many groups: the mean, weighted by items, of the groups that have one."""
    by_pair: dict[tuple[str, str], list[Agreement]] = {}
    for pair in agreements:
        by_pair.setdefault(pair.jurors, []).append(pair)
    return tuple(
        Agreement(
            jurors=jurors,
            items=sum(group.items for group in groups),
            kappa=_weighted_mean((group.kappa, group.items) for group in groups),
            spearman=_weighted_mean((group.spearman, group.items) for group in groups),
        )
        for jurors, groups in by_pair.items()
    )


def _weighted_mean(figures: Iterable[tuple[float | None, int]]) -> float | None:
    pairs = [(value, weight) for value, weight in figures if value is not None]
    return math.fsum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs) if pairs else None


def winner_kappa(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Cohen's kappa of the margins' signs: first, second, tie. None where chance alone explains everything."""
    return kappa_of_labels(zip(map(_sign, a), map(_sign, b), strict=True))


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Pearson's correlation of the ranks, ties sharing the average rank; None where one side is constant."""
    x, y = _centred_ranks(a), _centred_ranks(b)
    if not any(x) or not any(y):
        return None
    covered = math.fsum(i * j for i, j in zip(x, y, strict=True))
    spread = math.sqrt(math.fsum(i * i for i in x) * math.fsum(j * j for j in y))
    return max(-1.0, min(1.0, covered / spread))


def _sign(margin: float) -> int:
    return (margin > 0) - (margin < 0)


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, less the mean rank."""
    ranks = average_ranks(dict(enumerate(values)))
    return [float(ranks[i]) - (len(values) - 1) / 2 for i in range(len(values))]
