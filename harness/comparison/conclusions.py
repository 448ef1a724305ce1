"""All that a comparison says: of each two sides, of each side, and of all of them together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.comparison.holm import holm
from harness.comparison.sentences import sentence, sentence_of_many
from harness.comparison.side_figures import side_figures
from harness.comparison.side_results import side_result
from harness.comparison.slices import slices
from harness.comparison.strengths import strengths
from harness.core.comparisons import ComparedQuery, ComparedSide, SideFigures, SideResult, Slice, Strength


@dataclass(frozen=True)
class Conclusions:
    """The parts of a `Comparison` that statistics give, by the names that they have there."""

    sentence: str
    results: tuple[SideResult, ...]
    strengths: tuple[Strength, ...]
    figures: tuple[SideFigures, ...]
    slices: tuple[Slice, ...]


def compare_queries(
    queries: Sequence[ComparedQuery],
    sides: Sequence[ComparedSide],
    *,
    clusters: Mapping[str, str] | None = None,
    floors: Mapping[int, float] | None = None,
    keys: Sequence[str] | None = None,
    seed: int = 0,
) -> Conclusions:
    """Work out everything that the matches of two sides or more say.

    `clusters` names the cluster of a query's content hash. `floors` holds, by a side's place, the standard deviation of
    a query's win rate between that side and itself, where it was measured. `keys` are the metadata's keys for slices;
    None takes each that sorts the queries. Slices are of two sides only, strengths of more than two.
    """
    labels = [side.label for side in sides]
    results = [
        side_result(
            queries,
            (first, second),
            (labels[first], labels[second]),
            clusters=clusters,
            floor=(floors or {}).get(first),
            seed=seed,
        )
        for first, second in combinations(range(len(sides)), 2)
    ]
    many = len(sides) > 2
    if many:
        corrected = holm([result.p for result in results])
        results = [r.model_copy(update={"p_holm": p}) for r, p in zip(results, corrected, strict=True)]
    fitted = strengths(queries, labels, seed, clusters) if many else ()
    return Conclusions(
        sentence=sentence_of_many(results, fitted) if many else sentence(results[0]),
        results=tuple(results),
        strengths=fitted,
        figures=tuple(side_figures(queries, side, label, seed, clusters) for side, label in enumerate(labels)),
        slices=() if many else slices(queries, (0, 1), keys, seed, clusters),
    )
