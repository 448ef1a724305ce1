"""Is a comparison whole, and do its matches follow from their verdicts? validate_comparison(folder, clock).

The matches are played again by the very code that made them, on the verdicts that they name and the texts that the
comparison holds. Its runs are not needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio

from harness.archive.blobs import Blobs
from harness.archive.comparison_reader import ComparisonFile, ComparisonReader
from harness.archive.run_store import ComparisonStore
from harness.archive.validation import Finding, comparison_findings
from harness.core.clock import Clock
from harness.core.comparisons import ComparedQuery, CrossMatch
from harness.core.settings import Settings
from harness.judging.juror import PairLedger
from harness.judging.prompt import Task
from harness.pipeline.recorded_jury import recorded_jury
from harness.pipeline.validation import Validation, validated
from harness.tournament.cross import CrossPair, play_cross
from harness.transcripts.transcript import Transcript

_Place = tuple[int, int]
"""A rollout by its side's place and its index."""


def validate_comparison(folder: Path, clock: Clock, *, repair: bool = False) -> Validation:
    """Look at everything in a comparison's archive, and play its matches again; with `repair` as `validate_run`."""
    return validated(folder, _look, lambda: ComparisonStore(folder, clock()), repair=repair)


def _look(folder: Path) -> tuple[Finding, ...]:
    of_records = tuple(comparison_findings(folder))
    if any(finding.kind == "damage" for finding in of_records):
        return of_records  # matches are compared once the records are whole
    with ComparisonReader(folder) as reader:
        return (*of_records, *(finding for file in reader.files() for finding in _wrong_queries(reader, file)))


def _wrong_queries(reader: ComparisonReader, file: ComparisonFile) -> Iterator[Finding]:
    settings, labels = reader.settings, [side.label for side in file.head.sides]
    for line, query in enumerate(file.queries, 2):
        texts = _texts(query, reader.blobs)
        for reason in (*_wrong_texts(query, texts, labels), *_wrong_matches(reader, query, texts, settings, labels)):
            yield Finding("damage", file.path, f"query {query.query!r}: {reason}", line)


def _texts(query: ComparedQuery, blobs: Blobs) -> dict[_Place, Transcript]:
    """Return what the judge could be shown: the rollouts that keep a transcript."""
    return {
        (side, rollout.index): Transcript(blobs.get(rollout.path_blob), blobs.get(rollout.answer_blob))
        for side, rollouts in enumerate(query.rollouts)
        for rollout in rollouts
        if rollout.path_blob and rollout.answer_blob
    }


def _wrong_texts(query: ComparedQuery, texts: Mapping[_Place, Transcript], labels: Sequence[str]) -> Iterator[str]:
    """Say which transcripts are not the ones whose hashes the line holds, and which are missing."""
    for side, rollouts in enumerate(query.rollouts):
        for rollout in rollouts:
            text = texts.get((side, rollout.index))
            if text and text.hash != rollout.transcript:
                yield f"the transcript of rollout {rollout.index} of {labels[side]} does not match its hash"
    judged = {place for match in query.matches if match.verdicts for place in _places(match)}
    for side, index in sorted(judged - texts.keys()):
        yield f"rollout {index} of {labels[side]} was judged, and has no transcript"


def _wrong_matches(
    reader: ComparisonReader,
    query: ComparedQuery,
    texts: Mapping[_Place, Transcript],
    settings: Settings,
    labels: Sequence[str],
) -> Iterator[str]:
    """Play the matches again, and say which ones say something else than their verdicts do."""
    stored = [match for match in query.matches if match.winner]  # an open one claims nothing
    if any(match.verdicts and not texts.keys() >= _places(match) for match in stored):
        return
    rollouts = {(side, r.index): r for side, listed in enumerate(query.rollouts) for r in listed}
    verdicts = [v for match in stored for key in match.verdicts if (v := reader.verdict(key))]
    pairs = [CrossPair(match.sides, match.role, match.first, match.second) for match in stored]
    task, jury = Task(query.query, query.text), recorded_jury(verdicts, settings)
    played = anyio.run(play_cross, pairs, rollouts, texts, task, jury, PairLedger(), settings.judge_repeats)
    for before, again in zip(stored, played.matches, strict=True):
        if before != again:
            first, second = (labels[side] for side in before.sides)
            pair = f"rollout {before.first} of {first} and rollout {before.second} of {second}"
            yield f"the match of {pair} does not follow from its verdicts"


def _places(match: CrossMatch) -> set[_Place]:
    return {(match.sides[0], match.first), (match.sides[1], match.second)}
