"""The people who labelled the same pairs: how far they agree among themselves, and where they do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.ranking.judge_stats.agreement import krippendorff_alpha
from harness.report.summary.labels import AnswerLabel, PairWinner, answer_key

_TURNED: Mapping[PairWinner, PairWinner] = {"a": "b", "b": "a", "tie": "tie"}


@dataclass(frozen=True)
class Disagreement:
    """A pair on which people differ."""

    query: str
    a: str
    b: str
    said: Mapping[str, PairWinner]
    """By person, in the order of the labels; a label that names nobody is by `-`."""


@dataclass(frozen=True)
class Raters:
    """What several people said of the same pairs."""

    people: Sequence[str]
    pairs: int
    """Pairs that two or more labelled."""
    alpha: float | None
    """Krippendorff's alpha of their labels; None where chance alone would agree fully."""
    disagreements: Sequence[Disagreement]


def raters(labels: Sequence[AnswerLabel]) -> Raters | None:
    """Return how far people agree on the pairs that two or more labelled; None without any.

    A pair is told by its query and both answers, in either order. Of one person the last label of a pair counts.
    """
    pairs: dict[tuple[str, frozenset[str]], list[AnswerLabel]] = {}
    for label in labels:
        pairs.setdefault((label.query.strip(), frozenset(map(answer_key, (label.a, label.b)))), []).append(label)
    several: list[Disagreement] = []
    for of_pair in pairs.values():
        first = of_pair[0]
        said: dict[str, PairWinner] = {}
        for label in of_pair:
            as_first = answer_key(label.a) == answer_key(first.a)
            said[label.by or "-"] = label.label if as_first else _TURNED[label.label]
        if len(said) > 1:
            several.append(Disagreement(first.query, first.a, first.b, said))
    if not several:
        return None
    return Raters(
        people=sorted({person for pair in several for person in pair.said}),
        pairs=len(several),
        alpha=krippendorff_alpha([*pair.said.values()] for pair in several),
        disagreements=[pair for pair in several if len({*pair.said.values()}) > 1],
    )
