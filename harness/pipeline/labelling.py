"""Which pairs of a run a person is asked about, and what of them is shown: blind, and the most doubtful first."""

import json
import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Literal

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking
from harness.formats.labelled_pairs import CONTROL, Label, LabelledPair, pairs_in_text
from harness.report.summary.pair_odds import PairOdds, pair_odds
from harness.transcripts.transcript import Transcript, TranscriptForm

CONTROL_EVERY = 10
"""One pair of so many is drawn at random: on the others, the doubtful ones, a judge is right less often than usual."""
Shown = Literal["answers", "paths"]
_UNKNOWN = 0.5


@dataclass(frozen=True)
class DoubtfulPair:
    """Two rollouts of a query, and how sure the judging is that `a` is above `b`."""

    query: str
    a: int
    b: int
    p_above: float
    is_control: bool = False

    @property
    def key(self) -> tuple[str, frozenset[int]]:
        """What names the pair, whichever of the two comes first."""
        return self.query, frozenset((self.a, self.b))


@dataclass(frozen=True)
class BlindPair:
    """What a person sees: a query and two texts, without anything that tells the rollouts apart."""

    query: str
    query_id: str
    rollouts: tuple[int, int]
    """The one that is shown as 1, the one that is shown as 2."""
    texts: tuple[Transcript, Transcript]
    is_control: bool

    def line(self, label: Label, shown: Shown) -> str:
        """Return the line for the file of labels: what `doctor --judge --pairs` reads, and which rollouts they are."""
        a, b = (_side(text, shown) for text in self.texts)
        entry: dict[str, object] = {"query": self.query, "a": a, "b": b, "label": label}
        entry |= {"class": CONTROL if self.is_control else "doubtful"}
        entry |= {"query_id": self.query_id, "rollouts": list(self.rollouts)}
        return json.dumps(entry, ensure_ascii=False) + "\n"


def blind_pairs(
    reader: RunReader, ranking: RankingFile, rng: random.Random, shown: Shown = "answers", query: str | None = None
) -> Generator[BlindPair]:
    """Yield the pairs of a ranking that are not labelled yet, the one that the judging is least sure of first.

    One of `CONTROL_EVERY` is drawn at random. Pairs that look the same are left out. Of every two that are shown after
    each other, one has the better place first and one the worse, so that the side tells nothing. The same `rng` gives
    the same pairs while the labels are the same. Raises UsageError for a file of labels that cannot be read.
    """
    labelled = {key for pair in _labels(reader) if (key := rollouts_of(pair))}
    doubtful = [p for p in _doubtful(ranking, query) if p.key not in labelled]
    sides = _sides(rng)
    for pair in _with_controls(doubtful, rng):
        blind = _blind(reader, pair)
        first, second = (_side(text, shown) for text in blind.texts)
        if first != second:
            yield blind if next(sides) else _turned(blind)


def rollouts_of(pair: LabelledPair) -> tuple[str, frozenset[int]] | None:
    """Return the query and the rollouts that a label names; None for one that was not made by `harness label`."""
    return (pair.query_id, frozenset(pair.rollouts)) if pair.query_id is not None and pair.rollouts else None


def _labels(reader: RunReader) -> list[LabelledPair]:
    return pairs_in_text(reader.labels() or "", str(reader.folder / "labels.jsonl"))


def _doubtful(ranking: RankingFile, query: str | None) -> list[DoubtfulPair]:
    """Return the pairs that met, the better place first; the least sure pair at the front."""
    groups, odds = (group for group in ranking.groups if query in {None, group.query}), pair_odds(ranking)
    return sorted((pair for group in groups for pair in _pairs(group, odds)), key=lambda p: abs(p.p_above - 0.5))


def _pairs(group: GroupRanking, odds: PairOdds) -> Iterator[DoubtfulPair]:
    ranks = {r.index: r.rank for r in group.rollouts if r.rank is not None}
    above = odds(group)
    for better, worse in _met(group, sorted(ranks, key=lambda index: (ranks[index], index))):
        yield DoubtfulPair(group.query, better, worse, above.get((better, worse), _UNKNOWN))


def _met(group: GroupRanking, by_rank: list[int]) -> list[tuple[int, int]]:
    """Return the pairs that met, in the order of places; of a listwise judge, which compares all, neighbours."""
    if group.verdicts:
        return list(pairwise(by_rank))
    met = {frozenset((match.a, match.b)) for match in group.matches}
    return [pair for pair in combinations(by_rank, 2) if frozenset(pair) in met]


def _with_controls(doubtful: list[DoubtfulPair], rng: random.Random) -> Iterator[DoubtfulPair]:
    """Yield all pairs, in each `CONTROL_EVERY` one that is drawn from those that are left."""
    left = {pair.key: pair for pair in doubtful}
    while left:
        control = rng.randrange(CONTROL_EVERY)
        for place in range(min(CONTROL_EVERY, len(left))):
            if place == control:
                yield replace(left.pop(rng.choice(list(left))), is_control=True)
            else:
                yield left.pop(next(iter(left)))


def _sides(rng: random.Random) -> Iterator[bool]:
    """Yield whether the better place is shown first: once in every two."""
    while True:
        first = rng.random() < 0.5
        yield first
        yield not first


def _blind(reader: RunReader, pair: DoubtfulPair) -> BlindPair:
    query = reader.query(pair.query)
    assert query, "a ranking that was read names queries that are there"  # noqa: S101 - for the type checker
    rollouts = {rollout.index: rollout for rollout in reader.group(query).rollouts}
    whole = TranscriptForm()
    texts = (whole(rollouts[pair.a].trajectory), whole(rollouts[pair.b].trajectory))
    return BlindPair(query.text, pair.query, (pair.a, pair.b), texts, pair.is_control)


def _turned(pair: BlindPair) -> BlindPair:
    (a, b), (text_a, text_b) = pair.rollouts, pair.texts
    return BlindPair(pair.query, pair.query_id, (b, a), (text_b, text_a), pair.is_control)


def _side(text: Transcript, shown: Shown) -> str | dict[str, str]:
    return text.answer if shown == "answers" else {"answer": text.answer, "path": text.path}
