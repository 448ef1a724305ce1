"""How far jurors agree: Cohen's kappa on winners, Spearman's rank correlation on margins.

Both take margins, score of the first less score of the second, item by item; a positive margin names the first the
winner, zero a tie.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations

from harness.core.rankings import Agreement, Match
from harness.core.verdicts import Judged
from harness.ranking.judge_stats.agreement import kappa as kappa_of_labels
from harness.ranking.ranks import average_ranks

JurorMargins = Mapping[str, Mapping[Hashable, float]]
"""By juror, then by item; an item that a juror did not judge is not there."""


def agreement(margins: JurorMargins) -> tuple[Agreement, ...]:
    """Return the agreement of each two jurors on the items that both judged, in the jurors' order."""
    found: list[Agreement] = []
    for one, other in combinations(margins, 2):
        both = [item for item in margins[one] if item in margins[other]]
        a, b = [margins[one][i] for i in both], [margins[other][i] for i in both]
        found.append(
            Agreement(
                jurors=(one, other),
                items=len(both),
                kappa=winner_kappa(a, b),
                spearman=spearman(a, b),
            )
        )
    return tuple(found)


def match_margins(
    matches: Iterable[Match], verdict: Callable[[str], Judged | None], group: str = ""
) -> dict[str, dict[Hashable, float]]:
    """Return each judge's margin on each match, the mean over its orders; a repeated match counts once."""
    margins: dict[str, dict[Hashable, float]] = {}
    for match in (m for m in matches if not m.repeated):
        said: dict[str, list[float]] = {}
        for key, first in zip(match.verdicts, match.shown_first, strict=True):
            if found := verdict(key):
                lead = found.a.combined - found.b.combined
                said.setdefault(found.judge, []).append(lead if first == match.a else -lead)
        for judge, leads in said.items():
            margins.setdefault(judge, {})[group, match.a, match.b] = round(math.fsum(leads) / len(leads), 9)
    return margins


def mean_agreement(found: Iterable[Agreement]) -> tuple[Agreement, ...]:
    """Return each two jurors' figures over many groups: the mean, weighted by items, of those groups that have one."""
    by_pair: dict[tuple[str, str], list[Agreement]] = {}
    for one in found:
        by_pair.setdefault(one.jurors, []).append(one)
    return tuple(
        Agreement(
            jurors=pair,
            items=sum(one.items for one in all_),
            kappa=_weighted((one.kappa, one.items) for one in all_),
            spearman=_weighted((one.spearman, one.items) for one in all_),
        )
        for pair, all_ in by_pair.items()
    )


def _weighted(figures: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in figures if value is not None]
    return math.fsum(v * w for v, w in known) / sum(w for _, w in known) if known else None


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
