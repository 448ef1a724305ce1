"""An export from beginning to end: check the runs, write the lines of each group, then the card."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
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
from harness.pipeline.exporting.files import ExportFiles, ParquetFiles
from harness.pipeline.exporting.source import described_run, groups_of, ranking_to_export, turns_from

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
    allow_offline: bool = False
    force: bool = False

    @property
    def with_unranked(self) -> bool:
        """Whether groups without a ranking go in, too."""
        return self.rules.format == "atif"


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


def export_runs(
    folders: Sequence[Path],
    to: Path,
    options: ExportOptions,
    on_group: Callable[[int, int], None] = lambda _done, _total: None,
) -> ExportResult:
    """Write ranked runs as training data into the folder `to`; `on_group` hears how many groups of how many are done.

    Raises NothingRankable for a run without ranking; UsageError, CannotWrite, ArchiveDamaged.
    """
    if options.ranking and len(folders) > 1:
        raise UsageError("--ranking names the ranking of one run; name one run with it")
    if options.rules.format == "parquet" and find_spec("pyarrow") is None:
        raise UsageError("writing Parquet needs pyarrow: pip install 'arena-harness[parquet]'")
    runs, total, done = list[ExportedRun](), 0, 0
    for folder in folders:
        with RunReader(folder) as reader:
            ranking = _ranking(reader, options)
            runs.append(described_run(reader, ranking))
            total += len(ranking.groups if ranking and not options.with_unranked else reader.index.queries)
    with ExportFiles(to, force=options.force) as files, closing(ParquetFiles(files)) as tables:
        export = _Export(options, files, tables)
        for folder in folders:
            for _ in export.write_groups(folder):
                done += 1
                on_group(done, total)
        tables.finish()
        return export.finish(tuple(runs))


def _ranking(reader: RunReader, options: ExportOptions) -> RankingFile | None:
    unranked, allow_offline = options.with_unranked, options.allow_offline
    return ranking_to_export(reader, options.ranking, unranked=unranked, allow_offline=allow_offline)


@dataclass
class _Export:
    """An export under way: its files, and what it has counted so far."""

    options: ExportOptions
    files: ExportFiles
    tables: ParquetFiles
    losses: Losses = field(default_factory=Losses)
    seen: set[bytes] = field(default_factory=set[bytes])
    """Hashes of the lines: a line is written once."""
    split_of: dict[str, str] = field(default_factory=dict[str, str])
    tools_in_reply: int = 0
    tokens: TokenCounts = field(default_factory=TokenCounts)

    def write_groups(self, folder: Path) -> Iterator[None]:
        """Write the groups of a run, one at a time."""
        is_table = self.options.rules.format == "csv"
        with RunReader(folder) as reader:
            ranking, recorded_turns = _ranking(reader, self.options), turns_from(reader)
            for group in groups_of(reader, ranking, unranked=self.options.with_unranked):
                records = _RecordHashes(group, ranking.head.id if ranking else "none")
                if self.options.rules.format == "parquet":
                    self._write_tables(group, records)
                for text, rollouts in self._texts(group, recorded_turns):
                    split = choose_split(records.exported_id, self.options.split)
                    name = f"{split}.csv" if is_table else f"{split}.jsonl"
                    if name not in self.split_of:
                        self.split_of[name] = split
                        if is_table:
                            self.files.write(name, csv_line(COLUMNS))
                    self._write_source(name, self.files.write(name, text), records.of(rollouts, text))
                yield

    def _texts(self, group: RankedGroup, recorded_turns: TurnsOf) -> Iterator[tuple[str, tuple[int, ...]]]:
        rules = self.options.rules
        if rules.format == "csv":
            yield from ((row, (index,)) for row, index in table_rows(group))
            return
        lines: Iterable[TrainingLine] = ()
        if rules.format == "atif":
            lines = atif_lines(group, rules, self.losses, recorded_turns)
        elif rules.format != "parquet" and group_may_go_in(group, rules, self.losses):
            choices = candidates(group, rules, self.losses, recorded_turns)
            lines = LINES_OF[rules.format](group, choices, rules, self.losses)
        for line in lines:
            text = valid_unicode(json.dumps(line.record, ensure_ascii=False)) + "\n"
            if (hashed := sha256(text.encode()).digest()[:16]) in self.seen:
                self.losses.add("line", "the same as a line before")
                continue
            self.seen.add(hashed)
            self.tools_in_reply += line.tools_in_reply
            self.tokens += line.tokens
            for name, times in Counter(line.lost).items():
                self.losses.add("part of a line", name, times)
            yield text, line.rollouts

    def _write_tables(self, group: RankedGroup, records: "_RecordHashes") -> None:
        split = choose_split(records.query, self.options.split)
        rows = self.tables.write(group, split)
        self.split_of |= dict.fromkeys(rows, split)
        name, rollouts = f"{split}-rollouts.parquet", group.group.rollouts
        for line, rollout in enumerate(rollouts, rows[name] - len(rollouts) + 1):
            self._write_source(name, line, records.of((rollout.index,)))

    def _write_source(self, name: str, line: int, records: Mapping[str, Any]) -> None:
        self.files.write(f"{name}.{SOURCES}", json.dumps({"file": name, "line": line, **records}) + "\n")

    def finish(self, runs: tuple[ExportedRun, ...]) -> ExportResult:
        """Check the files, write the card, and give all their names; without a line nothing is written."""
        if not self.split_of:
            return ExportResult((), runs, self.losses, ())
        is_table = self.options.rules.format == "csv"
        written = [self.files.written(name, split, heading=is_table) for name, split in sorted(self.split_of.items())]
        notes = [*self._notes(written)]
        if self.tools_in_reply:
            notes.append(f"{self.tools_in_reply} {_TOOLS_IN_REPLY}")
        self.files.join([f"{name}.{SOURCES}" for name in sorted(self.split_of)], SOURCES)
        sources, rules, split = self.files.written(SOURCES, ""), self.options.rules, self.options.split
        content = CardContent(rules, split, written, runs, self.losses, notes, sources, self.tokens)
        self.files.commit(card_text(content))
        return ExportResult(tuple(written), runs, self.losses, tuple(notes))

    def _notes(self, written: Sequence[ExportedFile]) -> Iterator[str]:
        """Yield what a user should know of the files. Raises CannotWrite for a line that its consumer would refuse."""
        if empty := [name for name in self.options.split if name not in {file.split for file in written}]:
            yield f"no line fell to {', '.join(empty)}"
        rules = self.options.rules
        for file in written:
            if model := line_model(rules):
                for fault in line_faults(self.files.lines(file.name), file.name, model):
                    raise CannotWrite(f"nothing was written: {fault}")
            if file.lines < FEWEST_LINES and (rules.format == "openai-preference" or rules.style == "openai"):
                yield f"{file.name}: {counted(file.lines, 'line')}; OpenAI takes files of at least {FEWEST_LINES}"


class _RecordHashes:
    def __init__(self, group: RankedGroup, ranking: str) -> None:
        self.query = group.group.query.id
        self.exported_id = group.group.query.exported_id
        self._named = {"run": group.run, "ranking": ranking, "query": valid_unicode(self.exported_id)}
        self._imported: dict[str | None, ImportedLine] = {line.sha256: line for line in lines_behind(group)}
        self._ranked = to_json(group.ranked)
        self._rollouts = {rollout.index: rollout for rollout in group.group.rollouts}

    def of(self, rollouts: tuple[int, ...], line: str | None = None) -> dict[str, Any]:
        """Return what names the records behind a line; an imported line that is as it was keeps what was said of it."""
        of_line = {} if line is None else {"sha256": line_hash(line)}
        if imported := self._imported.get(of_line.get("sha256")):
            return imported.model_dump()
        texts = [self._ranked, *(to_json(self._rollouts[index]) for index in rollouts)]
        hashed = sha256("\n".join(texts).encode()).hexdigest()
        return of_line | self._named | {"rollouts": rollouts, "records": hashed}
