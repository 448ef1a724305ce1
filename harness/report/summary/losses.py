"""The queries that one side of a comparison lost to another, worst first."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.core.comparisons import ComparedQuery, Comparison, SideResult
from harness.report.text import fixed, signed


@dataclass(frozen=True)
class MetQuery:
    """A query on which two sides met, and how the second one did."""

    query: ComparedQuery
    pairs: int
    """Pairs of samples that count."""
    outcome: float
    """Their mean outcome: 1 if the second side won all of them."""
    margin: float | None
    """Mean score of the second side above the first one's; None without scores."""

    @property
    def won(self) -> str:
        """How many pairs the second side won, ties as halves: `1.5 of 2`."""
        return f"{fixed(self.outcome * self.pairs, 1).removesuffix('.0')} of {self.pairs:,}"

    @property
    def won_words(self) -> str:
        """The same with what was won: `1.5 of 2 pairs`."""
        return f"{self.won} {'pair' if self.pairs == 1 else 'pairs'}"

    @property
    def margin_words(self) -> str:
        """The margin; `failed` where no pair has scores."""
        return "failed" if self.margin is None else signed(self.margin)

    @property
    def name(self) -> str:
        """The query's id, or its ids where the sides call the query by different ones."""
        return " / ".join(dict.fromkeys(self.query.ids))


def places_of(comparison: Comparison, result: SideResult) -> tuple[int, int]:
    """Return the places in the comparison of a result's two sides."""
    labels = [side.label for side in comparison.sides]
    return labels.index(result.sides[0]), labels.index(result.sides[1])


def met_queries(queries: Iterable[ComparedQuery], sides: tuple[int, int]) -> list[MetQuery]:
    """Return the queries with a pair that counts, the second side's worst first.

    Equal outcomes go by the margin; failures, which have none, come before them.
    """
    met = [_met(query, sides, outcome) for query in queries if (outcome := query.outcome(sides)) is not None]
    return sorted(met, key=lambda m: (m.outcome, float("-inf") if m.margin is None else m.margin))


def losses(queries: Iterable[ComparedQuery], sides: tuple[int, int]) -> list[MetQuery]:
    """Return the queries that the second side lost, worst first."""
    return [met for met in met_queries(queries, sides) if met.outcome < 0.5]


def _met(query: ComparedQuery, sides: tuple[int, int], outcome: float) -> MetQuery:
    pairs = [match for match in query.pairs(sides) if match.outcome is not None]
    margins = [
        match.score_second - match.score_first
        for match in pairs
        if match.score_first is not None and match.score_second is not None
    ]
    return MetQuery(
        query=query, pairs=len(pairs), outcome=outcome, margin=sum(margins) / len(margins) if margins else None
    )
