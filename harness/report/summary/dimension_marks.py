"""The mean marks of each rollout in each dimension of the rubric: where the winner was better, and where it was not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.report.summary.match_verdicts import VerdictLookup, marks_of_sides
from harness.report.summary.placed_rollouts import placed_rollouts


@dataclass(frozen=True)
class MeanMark:
    """The mean of a rollout's marks in one dimension, over the verdicts that gave one."""

    mean: float
    best: bool
    """Whether no other rollout has a higher mean in this dimension; neither best nor worst where all are equal."""
    worst: bool


@dataclass(frozen=True)
class MarksMatrix:
    """The mean marks of a group: a row a rollout, best first, and a column a dimension."""

    dimensions: tuple[str, ...]
    rows: tuple[tuple[int, tuple[MeanMark | None, ...]], ...]
    """Each rollout that has marks, and its mean mark in each dimension; None where no verdict gave one."""


def marks_matrix(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> MarksMatrix | None:
    """Return the mean marks of a group's rollouts; None where no match has marks. Repeated matches count once."""
    marks = _marks_by_rollout(ranking, verdicts)
    dimensions = tuple(dict.fromkeys(name for of_one in marks.values() for name in of_one))
    if not dimensions:
        return None
    means = {index: {name: sum(m) / len(m) for name, m in of_one.items()} for index, of_one in marks.items()}
    columns = {name: [of_one[name] for of_one in means.values() if name in of_one] for name in dimensions}
    placed = [p.rollout.index for p in placed_rollouts(group, ranking) if p.rollout.index in means]
    rows = ((index, tuple(_mark(means[index].get(name), columns[name]) for name in dimensions)) for index in placed)
    return MarksMatrix(dimensions, tuple(rows))


def _marks_by_rollout(ranking: GroupRanking, verdicts: VerdictLookup) -> Mapping[int, Mapping[str, list[int]]]:
    marks: dict[int, dict[str, list[int]]] = {}
    for match in ranking.matches:
        if match.repeated:
            continue
        for sides in marks_of_sides(match, verdicts):
            for entrant, side in zip((match.a, match.b), sides, strict=True):
                of_one = marks.setdefault(entrant, {})
                for dimension, mark in side.dimensions.items():
                    of_one.setdefault(dimension, []).append(mark)
    return marks


def _mark(mean: float | None, column: Sequence[float]) -> MeanMark | None:
    if mean is None:
        return None
    differ = min(column) < max(column)
    return MeanMark(mean, best=differ and mean == max(column), worst=differ and mean == min(column))
