"""An export from beginning to end: check the runs, write the lines of each group, then the card."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.errors import CannotWrite, UsageError
from harness.core.rankings import ImportedLine
from harness.core.records import to_json
from harness.core.unicode import valid_unicode
from harness.core.wording import counted
from harness.formats.sequences import TokenCounts
from harness.formats.training.atif_trajectory import atif_lines
from harness.formats.training.candidates import Losses, RankedGroup, TurnsOf, candidates, group_may_go_in
from harness.formats.training.card import CardContent, ExportedFile, ExportedRun, card_text
from harness.formats.training.line_models import FEWEST_LINES, line_faults
from harness.formats.training.origins import SOURCES, line_hash, lines_behind
from harness.formats.training.records import TrainingLine
from harness.formats.training.registry import LINES_OF, line_model
from harness.formats.training.rules import WHOLE, ExportRules, choose_split
from harness.formats.training.tables import COLUMNS, csv_line, table_rows
from harness.pipeline.exporting.files import ExportFiles, ParquetFiles, check_pyarrow
from harness.pipeline.exporting.source import (
    chosen_ranking,
    described_run,
    groups_in,
    groups_of,
    ranking_if_any,
    turns_from,
)

_TOOLS_IN_REPLY = (
    "lines hold results of tools inside chosen or rejected: TRL's DPO has no mask, and trains these results as if the "
    "model had said them (--final-answer moves a shared tool exchange into the prompt)"
)


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What to export, and whether."""

    rules: ExportRules
    split: Mapping[str, float] = field(default_factory=lambda: WHOLE)
    ranking: str | None = None
    """The ranking to export, of one run; None for the newest of each."""
    allow_offline: bool = False
    force: bool = False


@dataclass(frozen=True)
class ExportResult:
    """What was exported. Without a file nothing was left, and nothing was written."""

    files: tuple[ExportedFile, ...]
    runs: tuple[ExportedRun, ...]
    losses: Losses
    notes: tuple[str, ...]

    @property
    def lines(self) -> int:
        """How many lines, or rows, were written."""
        return sum(file.lines for file in self.files)


@dataclass
class _State:
    """What an export has counted so far."""

    losses: Losses = field(default_factory=Losses)
    seen: set[bytes] = field(default_factory=set[bytes])
    """Hashes of the lines: a line is written once."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """The split of each file."""
    tools_in_reply: int = 0
    tokens: TokenCounts = field(default_factory=TokenCounts)


def export_runs(
    folders: Sequence[Path],
    to: Path,
    options: ExportOptions,
    on_group: Callable[[int, int], None] = lambda _done, _total: None,
) -> ExportResult:
    """Write ranked runs as training data into the folder `to`, and return what went in and what did not.

    `on_group` hears how many groups of how many are done. Raises NothingRankable for a run without ranking; UsageError
    for an offline run, a folder that is there, several runs with one ranking; CannotWrite; ArchiveDamaged.
    """
    if options.ranking and len(folders) > 1:
        raise UsageError("--ranking names the ranking of one run; name one run with it")
    if options.rules.format == "parquet":
        check_pyarrow()
    runs, counts = zip(*(_described(folder, options) for folder in folders), strict=True)
    total, done, state = sum(counts), 0, _State()
    with ExportFiles(to, force=options.force) as files, ParquetFiles(files) as tables:
        for folder in folders:
            for _ in _written_groups(folder, files, tables, options, state):
                done += 1
                on_group(done, total)
        tables.finish()
        if not state.files:
            return ExportResult((), runs, state.losses, ())
        return _finished(files, options, state, runs)


def _described(folder: Path, options: ExportOptions) -> tuple[ExportedRun, int]:
    """Return what the card says of a run, and how many groups of it are exported."""
    with RunReader(folder) as reader:
        ranking = _ranking(reader, options)
        return described_run(reader, ranking), groups_in(reader, ranking, unranked=_takes_unranked(options))


def _takes_unranked(options: ExportOptions) -> bool:
    return options.rules.format == "atif"


def _ranking(reader: RunReader, options: ExportOptions) -> RankingFile | None:
    choose = ranking_if_any if _takes_unranked(options) else chosen_ranking
    return choose(reader, options.ranking, allow_offline=options.allow_offline)


def _written_groups(
    folder: Path, files: ExportFiles, tables: ParquetFiles, options: ExportOptions, state: _State
) -> Iterator[None]:
    """Write the groups of a run, one at a time."""
    with RunReader(folder) as reader:
        ranking, recorded_turns = _ranking(reader, options), turns_from(reader)
        for group in groups_of(reader, ranking, unranked=_takes_unranked(options)):
            records = _RecordHashes(group, ranking.head.id if ranking else "none")
            if options.rules.format == "parquet":
                _write_tables(group, files, tables, state, records, choose_split(records.query, options.split))
            for text, rollouts in _texts(group, options.rules, state, recorded_turns):
                _write(files, options, state, records, text, rollouts)
            yield


def _texts(
    group: RankedGroup, rules: ExportRules, state: _State, recorded_turns: TurnsOf
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the lines of a group, each with its line break and the rollouts behind it."""
    if rules.format == "csv":
        yield from ((row, (index,)) for row, index in table_rows(group))
    elif rules.format != "parquet":
        for line in _lines(group, rules, state, recorded_turns):
            text = valid_unicode(json.dumps(line.record, ensure_ascii=False)) + "\n"
            if (hashed := sha256(text.encode()).digest()[:16]) in state.seen:
                state.losses.add("line", "the same as a line before")
                continue
            state.seen.add(hashed)
            state.tools_in_reply += line.tools_in_reply
            state.tokens += line.tokens
            for name, times in Counter(line.lost).items():
                state.losses.add("part of a line", name, times)
            yield text, line.rollouts


def _lines(group: RankedGroup, rules: ExportRules, state: _State, recorded_turns: TurnsOf) -> Iterator[TrainingLine]:
    if rules.format == "atif":
        yield from atif_lines(group, rules, state.losses, recorded_turns)
    elif group_may_go_in(group, rules, state.losses):
        choices = candidates(group, rules, state.losses, recorded_turns)
        yield from LINES_OF[rules.format](group, choices, rules, state.losses)


def _write(
    files: ExportFiles,
    options: ExportOptions,
    state: _State,
    records: "_RecordHashes",
    text: str,
    rollouts: tuple[int, ...],
) -> None:
    """Write a line to the file of its query's part, and what is behind it to the file of sources."""
    is_table = options.rules.format == "csv"
    split = choose_split(records.exported_id, options.split)
    name = f"{split}.csv" if is_table else f"{split}.jsonl"
    if name not in state.files:
        state.files[name] = split
        if is_table:
            files.write(name, csv_line(COLUMNS))
    line = files.write(name, text)
    files.write(_sources_of(name), json.dumps({"file": name, "line": line} | records.of(rollouts, text)) + "\n")


def _sources_of(name: str) -> str:
    """Return the name of a file's part of the sources, which are in the order of the files whatever was asked first."""
    return f"{name}.{SOURCES}"


def _write_tables(
    group: RankedGroup, files: ExportFiles, tables: ParquetFiles, state: _State, records: "_RecordHashes", split: str
) -> None:
    """Write the rows of a group to the tables, and what is behind those of its rollouts to the file of sources."""
    rows = tables.write(group, split)
    state.files |= dict.fromkeys(rows, split)
    name, rollouts = f"{split}-rollouts.parquet", group.group.rollouts
    for line, rollout in enumerate(rollouts, rows[name] - len(rollouts) + 1):
        files.write(_sources_of(name), json.dumps({"file": name, "line": line} | records.of((rollout.index,))) + "\n")


class _RecordHashes:
    """The records of a group that stand behind its lines."""

    def __init__(self, group: RankedGroup, ranking: str) -> None:
        self.query = group.group.query.id
        self.exported_id = group.group.query.exported_id
        self._named = {"run": group.run, "ranking": ranking, "query": valid_unicode(self.exported_id)}
        self._imported: dict[str | None, ImportedLine] = {line.sha256: line for line in lines_behind(group)}
        self._ranked = to_json(group.ranked)
        self._rollouts = {rollout.index: rollout for rollout in group.group.rollouts}

    def of(self, rollouts: tuple[int, ...], line: str | None = None) -> dict[str, Any]:
        """Return what names the records behind a line or a row, with the sha256 of the ranking's and the rollouts'.

        A line that was imported and is as it was keeps what was said of it.
        """
        of_line = {} if line is None else {"sha256": line_hash(line)}
        if imported := self._imported.get(of_line.get("sha256")):
            return imported.model_dump()
        texts = [self._ranked, *(to_json(self._rollouts[index]) for index in rollouts)]
        hashed = sha256("\n".join(texts).encode()).hexdigest()
        return of_line | self._named | {"rollouts": rollouts, "records": hashed}


def _finished(files: ExportFiles, options: ExportOptions, state: _State, runs: Sequence[ExportedRun]) -> ExportResult:
    """Check the files, write the card, and give all their names."""
    is_table = options.rules.format == "csv"
    written = [files.written(name, split, heading=is_table) for name, split in sorted(state.files.items())]
    notes = [*_notes(files, options, written)]
    if state.tools_in_reply:
        notes.append(f"{state.tools_in_reply} {_TOOLS_IN_REPLY}")
    files.join([_sources_of(name) for name in sorted(state.files)], SOURCES)
    sources = files.written(SOURCES, "")
    content = CardContent(options.rules, options.split, written, runs, state.losses, notes, sources, state.tokens)
    files.commit(card_text(content))
    return ExportResult(tuple(written), tuple(runs), state.losses, tuple(notes))


def _notes(files: ExportFiles, options: ExportOptions, written: Sequence[ExportedFile]) -> Iterator[str]:
    """Yield what a user should know of the files. Raises CannotWrite for a line that its consumer would refuse."""
    empty = [name for name in options.split if name not in {file.split for file in written}]
    if empty:
        yield f"no line fell to {', '.join(empty)}"
    rules = options.rules
    for file in written:
        if model := line_model(rules):
            for fault in line_faults(files.lines(file.name), file.name, model):
                raise CannotWrite(f"nothing was written: {fault}")
        if file.lines < FEWEST_LINES and (rules.format == "openai-preference" or rules.style == "openai"):
            yield f"{file.name}: {counted(file.lines, 'line')}; OpenAI takes files of at least {FEWEST_LINES}"
