"""People's labels of a run's answers, and the pairs that a person is asked of."""

import json
import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Literal

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import LABELS, read_labels
from harness.core.errors import before_colon
from harness.core.rankings import GroupRanking
from harness.formats.labelled_pairs import CONTROL, Label, LabelledPair, pairs_in_text, read_pairs
from harness.judging.transcript_form import TranscriptForm
from harness.report.summary.labels import AnswerLabel
from harness.report.summary.pooled_fit import pair_odds
from harness.transcripts.transcript import Transcript

CONTROL_EVERY = 10
"""One pair of so many is drawn at random: on the others, the doubtful ones, a judge is right less often than usual."""
Shown = Literal["answers", "paths"]
_UNKNOWN = 0.5
_Pair = tuple[str, tuple[int, int]]
"""A query's id, and two of its rollouts, the better place first."""


def answer_labels(reader: RunReader, path: Path | None) -> list[AnswerLabel]:
    """Return the labels of a file, else those of the run. Raises UsageError naming line and fault; ArchiveDamaged."""
    labels = list[AnswerLabel]()
    for pair in read_pairs(path, before_colon("labels")) if path else kept_labels(reader.folder):
        a, b = (side.answer for side in pair.sides)
        is_control = pair.kind == CONTROL
        labels.append(AnswerLabel(pair.query, a, b, pair.label, pair.query_id, pair.rollouts, is_control, pair.by))
    return labels


def kept_labels(folder: Path) -> list[LabelledPair]:
    """Return the labels that `harness label` kept in a folder. Raises UsageError naming line and fault."""
    return pairs_in_text(read_labels(folder) or "", str(folder / LABELS))


@dataclass(frozen=True)
class BlindPair:
    """What a person sees: a query and two texts, without anything that names the rollouts."""

    query: str
    query_id: str
    rollouts: tuple[int, int]
    """The one that is shown as 1, the one that is shown as 2."""
    texts: tuple[Transcript, Transcript]
    is_control: bool
    drawing_weight: float | None = None
    """Of a pair of a comparison."""

    def line(self, label: Label, shown: Shown, by: str | None = None) -> str:
        """Return the line for the file of labels: what `doctor --judge --pairs` reads, and which rollouts they are.

        Of a pair of a comparison its drawing weight; `by` is who said so.
        """
        a, b = self.sides(shown)
        entry: dict[str, object] = {"query": self.query, "a": a, "b": b, "label": label}
        if self.drawing_weight is None:
            entry |= {"class": CONTROL if self.is_control else "doubtful"}
            entry |= {"query_id": self.query_id, "rollouts": list(self.rollouts)}
        else:
            entry |= {"class": "drawn", "drawing_weight": self.drawing_weight}
        entry |= {"by": by} if by else {}
        return json.dumps(entry, ensure_ascii=False) + "\n"

    def sides(self, shown: Shown) -> list[str] | list[dict[str, str]]:
        """Return what is shown of the two rollouts."""
        if shown == "answers":
            return [text.answer for text in self.texts]
        return [{"answer": text.answer, "path": text.path} for text in self.texts]


def blind_pairs(
    reader: RunReader,
    ranking: RankingFile,
    rng: random.Random,
    shown: Shown = "answers",
    query: str | None = None,
    by: str | None = None,
) -> Generator[BlindPair]:
    """Yield the pairs of a ranking that are not labelled yet `by` this person: first what the judging is least sure of.

    One of `CONTROL_EVERY` is drawn at random, and pairs that look the same are left out. In one of every two the better
    place comes first, so that the side tells nothing. Raises UsageError for a file of labels that cannot be read.
    """
    kept = kept_labels(reader.folder)
    labels = (pair for pair in kept if pair.query_id is not None and pair.by == by)  # else not made by `harness label`
    labelled = {(pair.query_id, frozenset(pair.rollouts)) for pair in labels if pair.rollouts}
    odds, groups = pair_odds(ranking), [group for group in ranking.groups if query in {None, group.query}]
    certainty = {
        (group.query, pair): abs(p_above - 0.5)
        for group in groups
        for pair, p_above in _met(group, odds(group)).items()
        if (group.query, frozenset(pair)) not in labelled
    }
    better_first, whole = alternating(rng), TranscriptForm()
    for (name, pair), is_control in _with_controls(sorted(certainty, key=certainty.__getitem__), rng):
        asked = reader.query(name)
        assert asked, "a ranking that was read names queries that are there"  # noqa: S101 - for the type checker
        trajectories = {rollout.index: rollout.trajectory for rollout in reader.group(asked).rollouts}
        a, b = (whole(trajectories[index]) for index in pair)
        blind = BlindPair(asked.text, name, pair, (a, b), is_control)
        first, second = blind.sides(shown)
        if first != second:
            yield blind if next(better_first) else replace(blind, rollouts=pair[::-1], texts=(b, a))


def _met(group: GroupRanking, p_above: Mapping[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """Return the pairs that met, the better place first; of a listwise judge, which compares all, neighbours."""
    ranks = {r.index: r.rank for r in group.rollouts if r.rank is not None}
    by_rank = sorted(ranks, key=lambda index: (ranks[index], index))
    met = {frozenset((match.a, match.b)) for match in group.matches}
    pairs = pairwise(by_rank) if group.verdicts else (p for p in combinations(by_rank, 2) if frozenset(p) in met)
    return {pair: p_above.get(pair, _UNKNOWN) for pair in pairs}


def _with_controls(pairs: Sequence[_Pair], rng: random.Random) -> Iterator[tuple[_Pair, bool]]:
    """Yield all pairs, in each `CONTROL_EVERY` one that is drawn from those that are left, and whether it is that."""
    left = dict.fromkeys(pairs)
    while left:
        control = rng.randrange(CONTROL_EVERY)
        for place in range(min(CONTROL_EVERY, len(left))):
            pair = rng.choice(list(left)) if place == control else next(iter(left))
            del left[pair]
            yield pair, place == control


def alternating(rng: random.Random) -> Iterator[bool]:
    """Yield in each two a yes and a no, in either order."""
    while True:
        first = rng.random() < 0.5
        yield first
        yield not first
