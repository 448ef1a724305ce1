"""People's labels of the answers that a comparison compares: found by their texts, whoever judges."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.comparison.next_labels import pairs_to_label
from harness.comparison.outcomes import PairLabel, PairLabels, PairPlace, paired_rollouts
from harness.core.comparisons import ComparedQuery, ComparedRollout
from harness.formats.labelled_pairs import LabelledPair, read_pairs
from harness.judging.transcript_form import form_of_rendering, split_checked
from harness.pipeline.comparing.planning import clusters_by_key
from harness.pipeline.labelling import BlindPair, alternating, kept_labels
from harness.report.summary.labels import answer_key
from harness.transcripts.transcript import Transcript


def drawn_pairs(reader: ComparisonReader, rng: random.Random, by: str | None = None) -> Iterator[BlindPair]:
    """Yield the pairs of a comparison that are not labelled yet `by` this person, as they are drawn.

    The draw is that of the comparison's seed, so that everyone is asked of the same pairs first; `rng` says which
    answer comes first. Raises UsageError for a file of labels that cannot be read, ArchiveDamaged.
    """
    queries = {query.query: query for query in reader.queries()}
    kept = [label for label in kept_labels(reader.folder) if label.by == by]
    labelled, _ = cross_labels(reader, [*queries.values()], kept)
    first_first = alternating(rng)
    clusters = clusters_by_key(queries, reader.info.cluster)
    for pair in pairs_to_label([*queries.values()], reader.settings.seed, clusters):
        if pair.place in labelled:
            continue
        name, sides, *indices = pair.place
        of_sides = zip(sides, indices, strict=True)
        rollouts = [next(r for r in queries[name].rollouts[side] if r.index == index) for side, index in of_sides]
        a, b = (Transcript(path=_text(reader, r.path_blob), answer=_answer(reader, r)) for r in rollouts)
        first, second = indices
        weight = round(pair.weight, 6)
        blind = BlindPair(queries[name].text, name, (first, second), (a, b), is_control=False, drawing_weight=weight)
        yield blind if next(first_first) else replace(blind, rollouts=(second, first), texts=(b, a))


def _text(reader: ComparisonReader, blob: str | None) -> str:
    return reader.blobs.get(blob) if blob else ""


def _answer(reader: ComparisonReader, rollout: ComparedRollout | None) -> str:
    """Return an answer without what the judge alone reads of its claims."""
    text = _text(reader, rollout and rollout.answer_blob)
    return split_checked(text)[0] if form_of_rendering(reader.info.rendering).evidence else text


_OF_SECOND = {"a": 0.0, "b": 1.0, "tie": 0.5}
"""What `b` of a label gets."""
MIN_AGREEMENT = 0.6


@dataclass(frozen=True)
class PeoplesWord:
    """The labels that a comparison goes by, and how far its judge must agree with them to gate."""

    pairs: Sequence[LabelledPair] | None = None
    """None: those that `harness label` kept with the comparison."""
    min_agreement: float = MIN_AGREEMENT

    @classmethod
    def read(cls, path: Path | None, min_agreement: float = MIN_AGREEMENT) -> "PeoplesWord":
        """Read a file of labels, if there is one. Raises UsageError naming line and fault."""
        return cls(read_pairs(path, "--labels") if path else None, min_agreement)

    def of(self, reader: ComparisonReader) -> Sequence[LabelledPair]:
        """Return the labels for a comparison. Raises UsageError for kept ones that cannot be read."""
        return kept_labels(reader.folder) if self.pairs is None else self.pairs


def cross_labels(
    reader: ComparisonReader, queries: Sequence[ComparedQuery], labels: Sequence[LabelledPair]
) -> tuple[PairLabels, int]:
    """Return what people said of the pairs that are compared, and how many labels say that.

    A label fits by the query's text and by both answers. Of one person the last label of a pair counts; of several
    people their mean. Raises ArchiveDamaged.
    """
    by_texts: dict[tuple[str, str, str], dict[str | None, tuple[float, float]]] = {}
    for label in labels:
        outcome = _OF_SECOND[label.label]
        for key, said in zip(_keys(label), (outcome, 1 - outcome), strict=True):
            by_texts.setdefault(key, {})[label.by] = (said, label.drawing_weight)
    fitting: dict[PairPlace, PairLabel] = {}
    found, asked = set[tuple[str, str, str]](), {query for query, _, _ in by_texts}
    for query in queries:
        for match in query.matches if query.text.strip() in asked else ():
            first, second = (answer_key(_answer(reader, rollout)) for rollout in paired_rollouts(query, match))
            texts = query.text.strip(), first, second
            said = by_texts.get(texts)
            if said and match.role == "sample":
                found.add(texts)
                outcomes, weights = zip(*said.values(), strict=True)
                place = (query.query, match.sides, match.first, match.second)
                fitting[place] = PairLabel(sum(outcomes) / len(outcomes), weights[0])
    return fitting, sum(not found.isdisjoint(_keys(label)) for label in labels)


def _keys(label: LabelledPair) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Return the query and both answers of a label, `a` first and `b` first."""
    query, (a, b) = label.query.strip(), (answer_key(side.answer) for side in label.sides)
    return (query, a, b), (query, b, a)
