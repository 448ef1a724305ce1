"""Pairs of whole records: those whose defect no transcript shows, and two rollouts of a run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader, blob_name
from harness.archive.run_info import find_run
from harness.archive.store import VerdictStore
from harness.core.errors import HarnessError, UsageError, quoted
from harness.core.records import Step, Trajectory
from harness.core.workspace_files import ChangedFile
from harness.formats.labelled_pairs import Label, LabelledPair, read_pairs
from harness.judging.transcript_form import TranscriptForm
from harness.transcripts.tokens import ESTIMATE, transcript_budget
from harness.transcripts.transcript import Transcript


@dataclass(frozen=True)
class RecordedPair:
    """A query, two records, and which of them is better."""

    query: str
    records: tuple[Trajectory, Trajectory]
    label: Label
    group: str
    """The class that the pair is counted in."""
    files: Sequence[str] = ()
    """The texts of the files in the records."""
    reference: str | None = None
    budget: int | None = None
    """Tokens that a judge reads of both at most; None: as the settings say."""

    @cached_property
    def sides(self) -> tuple[Transcript, Transcript]:
        """The transcripts of `a` and `b`, uncut; equal only where the records are."""
        return self.shown(TranscriptForm(records=True))

    def shown(self, form: TranscriptForm) -> tuple[Transcript, Transcript]:
        """Return the transcripts as a judge reads them."""
        form = replace(form, budget=transcript_budget(self.budget, ESTIMATE)) if self.budget else form
        a, b = (form(record, self.reference) for record in self.records)
        return a, b

    def keep_files(self, store: VerdictStore) -> None:
        """Put the texts of the files where a judge's tools look for them."""
        for text in self.files:
            store.put_blob(text)


AnyPair = LabelledPair | RecordedPair
_BUDGET = 4_000
_WHO = ("The clerk", "The north gate", "The night watch", "A visitor", "The ferry", "The archive")
_DID = ("was on time", "left no remark", "asked for the key", "was noted as usual", "had nothing to report")


def planted_pairs() -> list[RecordedPair]:
    """Return the pairs made for judges who look further: the better one is `a` in every other pair.

    A fact is cut from both transcripts, a file of one side cannot be read, or a source of one side is made up. Judges
    read at most 4,000 tokens of them.
    """
    pairs = list[RecordedPair]()
    for number, line in enumerate((files("harness.doctor") / "planted.jsonl").read_text("utf-8").splitlines()):
        row: dict[str, Any] = json.loads(line)
        held: Sequence[str] = row.get("holds", ())
        each = [[(row["file"], text)] for text in held] or [[], []]
        answers = row["better"], row["worse"]
        a, b = (_record(row["query"], said, row["line"], of) for said, of in zip(answers, each, strict=True))
        records, label = ((b, a), "b") if number % 2 else ((a, b), "a")
        pairs.append(RecordedPair(row["query"], records, label, row["class"], held, budget=_BUDGET))
    return pairs


def _record(query: str, answer: str, line: str, files: Sequence[tuple[str, str]]) -> Trajectory:
    """Return a record whose tool gave so much that a transcript leaves its middle out, where `line` stands."""
    lines = [f"{who} {did}." for who, did in islice(zip(cycle(_WHO), cycle(_DID), strict=False), 600)]
    output = "\n".join([*lines[:300], line, *lines[300:]])
    step = Step(kind="tool", tool_name="look_up", tool_input=json.dumps({"text": query}), tool_output=output)
    made = tuple(ChangedFile(path=n, change="added", size=len(t), blob=blob_name(t)) for n, t in files)
    return Trajectory(query=query, path=(step,), answer=answer, files=made)


def read_any_pairs(path: Path, runs_dir: Path) -> list[AnyPair]:
    """Read a user's own pairs; a line that names two rollouts of a run is looked up in `runs_dir`.

    Raises UsageError naming line and fault; ArchiveDamaged.
    """
    return [_of_run(pair, runs_dir) if pair.run else pair for pair in read_pairs(path, named=True)]


def _of_run(pair: LabelledPair, runs_dir: Path) -> RecordedPair:
    """Return the records that a pair names. Raises UsageError for what the run does not hold."""
    named = f"--pairs: run {quoted(pair.run or '')}"
    try:
        folder = find_run(pair.run or "", runs_dir)
    except HarnessError as exc:
        raise UsageError(f"--pairs: {exc}") from None
    with RunReader(folder) as reader:
        ids = list(reader.index.queries)
        query = reader.query(pair.query_id or (ids[0] if len(ids) == 1 else ""))
        if query is None:
            raise UsageError(f"{named} has no query {quoted(pair.query_id or '')}: give its id as query_id")
        by_index = {rollout.index: rollout for rollout in reader.group(query).rollouts if rollout.status == "ok"}
        if missing := [index for index in pair.rollouts or () if index not in by_index]:
            raise UsageError(f"{named}: of query {query.id} no rollout {missing[0]} ended well")
        a, b = (by_index[index].trajectory for index in pair.rollouts or ())
        files = [reader.blobs.get(file.blob) for record in (a, b) for file in record.files if file.blob]
    return RecordedPair(query.text, (a, b), pair.label, pair.group, files, query.reference)
