"""An export from beginning to end: read the runs, write the lines of each group, then the card."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.csv_line import csv_line
from harness.core.errors import CannotWrite, NothingRankable, UsageError, call, counted
from harness.core.rankings import GroupRanking, ImportedLine
from harness.core.records import GATEWAY, Rollout, to_json
from harness.core.sampled_tokens import SampledTokens
from harness.core.settings import Api
from harness.core.unicode import valid_unicode
from harness.formats.imported import unpack_turns
from harness.formats.training import candidates, card
from harness.formats.training.atif_trajectory import atif_lines
from harness.formats.training.line_models import FEWEST_LINES, line_faults
from harness.formats.training.origins import SOURCES, line_hash, lines_behind
from harness.formats.training.records import NotWhole, TrainingLine
from harness.formats.training.registry import FORMATS
from harness.formats.training.rules import PAIRS_OF_STEPS, WHOLE, ExportRules, choose_split
from harness.formats.turns import TokenCounts, Turn, recorded_turns
from harness.pipeline.exporting.files import ExportFiles, ParquetFiles
from harness.report.judge_quality import judge_qualities
from harness.report.summary.credit import RunCredit
from harness.report.summary.pooled_fit import judge_at_need, pair_odds
from harness.report.summary.ranking import by_signal, group_of, is_offline, summarize
from harness.report.summary.rankings import design_of
from harness.report.summary.rollouts import provisional_words
from harness.rollouts.raw import unpack, unpack_tokens

_TEXTS = 64
"""Long texts that are kept at hand: the rollouts of a group have system prompts and tools in common."""
_WITH_FILES = "groups", "atif"
"""The formats whose lines have a place for what became of files."""


def described_run(reader: RunReader, ranking: RankingFile | None) -> card.ExportedRun:
    """Return what the card says of a run."""
    info = reader.info
    if ranking is None:
        nothing = {"ranking": "none", "judge": "none", "rubric": "none"}
        agent, offline = info.agent, info.agent_offline
        return card.ExportedRun(info.id, agent=agent, **nothing, offline=offline, finished=True, signals={}, figures=())
    summary = summarize(reader, ranking)
    qualities = judge_qualities(reader, ranking, summary)
    several = len(qualities) > 1
    return card.ExportedRun(
        id=info.id,
        ranking=ranking.head.id,
        agent=info.agent,
        judge=_judge(ranking),
        rubric=ranking.head.rubric,
        offline=is_offline(reader, ranking),
        finished=ranking.finished,
        provisional=provisional_words(design_of(ranking, "estimator"), provisional=bool(ranking.provisional)),
        signals=by_signal(summary.signals),
        figures=[(f"{q.judge}: {f.label}" if several else f.label, f.value) for q in qualities for f in q.figures],
        warnings=[warning for quality in qualities for warning in quality.warnings],
    )


def groups_of(
    reader: RunReader, ranking: RankingFile | None, rules: ExportRules, *, unranked: bool
) -> Iterator[candidates.RankedGroup]:
    """Yield the ranked groups of a run in the order of its queries, with `unranked` all. Raises ArchiveDamaged."""
    judge_once = judge_at_need(ranking) if ranking else None
    odds = pair_odds(ranking, judge_once) if ranking else None
    of_steps = rules.step_advantages or rules.pairs in PAIRS_OF_STEPS
    credit = RunCredit(reader, ranking, judge=judge_once) if ranking and of_steps else None
    both_orders = ranking is not None and ranking.head.settings.get("order") == "both"
    for name in list(reader.index.queries):
        ranked = ranking.of(name) if ranking else None
        if not (ranked or unranked) or not (query := reader.query(name)):
            continue
        if ranking and ranked and odds:
            flagged, cut = set[int](), set[int]()  # in a verdict; for a judge, who did not see it whole
            for match in ranked.matches:
                for key, first in zip(match.verdicts, match.shown_first, strict=True):
                    if not match.repeated and (verdict := reader.verdict(key)):
                        second = match.b if first == match.a else match.a
                        flagged |= {at for at, scores in ((first, verdict.a), (second, verdict.b)) if scores.flags}
                        cut |= {at for at, side in ((first, "A"), (second, "B")) if side in verdict.cut}
            group, judge = group_of(reader, query, ranked), ranked.judge or _judge(ranking)
            marks = frozenset(flagged), frozenset(cut)
            told = candidates.RankedGroup(reader.info.id, group, ranked, judge, both_orders, *marks, odds)
            if credit:
                worth = credit.of(query)
                told = replace(told, step_advantages=worth.step_advantages, siblings=worth.pairs)
            yield told
        else:
            nothing = GroupRanking(query=name, topology="none", estimator="none", status="incomplete", signal="none")
            yield candidates.RankedGroup(reader.info.id, reader.group(query), nothing, "none", both_orders)


def turns_from(reader: RunReader) -> Callable[[Rollout], Sequence[Turn]]:
    """Return what reads a rollout's calls as turns; none where no calls are recorded."""
    get, api = lru_cache(_TEXTS)(reader.blobs.get), reader.info.agent_api
    return lambda rollout: stored_turns(rollout, get, api, reader.blobs.place)


def stored_turns(
    rollout: Rollout, get: Callable[[str], str], api: Api | None, place: Callable[[str], object] = str
) -> Sequence[Turn]:
    """Return a rollout's calls as turns; none where no calls are recorded. `get` finds a blob, `place` says where."""
    if rollout.turns:
        return unpack_turns(get(rollout.turns), place(rollout.turns))
    if not rollout.raw_calls:
        return ()
    where = place(rollout.raw_calls)  # as a text only in an error: to count its lines takes long
    calls = unpack(get(rollout.raw_calls), get, where)
    tokens: Sequence[SampledTokens | None] = ()
    if name := rollout.sampled_tokens:
        tokens = unpack_tokens(get(name), place(name))
    # the gateway records the reasoning that a server got back, and no other
    return recorded_turns(calls, rollout.calls, "responses" if rollout.origin == GATEWAY else api, tokens)


def _judge(ranking: RankingFile) -> str:
    return str(ranking.head.judge.get("model"))


_TOOLS_IN_REPLY = (
    "with results of tools inside chosen or rejected: TRL's DPO has no mask, and trains these results as if the model "
    "had said them (--final-answer moves a shared tool exchange into the prompt)"
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

    files: tuple[card.ExportedFile, ...]
    runs: tuple[card.ExportedRun, ...]
    losses: candidates.Losses
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
    runs, total = list[card.ExportedRun](), 0
    for folder in folders:
        with RunReader(folder) as reader:
            ranking = _ranking(reader, options)
            runs.append(described_run(reader, ranking))
            total += len(ranking.groups if ranking and not options.with_unranked else reader.index.queries)
    described = tuple(runs), total
    try:
        return _write(folders, to, options, described, on_group)
    except NotWhole:
        by_turn = replace(options, rules=replace(options.rules, style="trl-turns"))
        return _write(folders, to, by_turn, described, on_group)


def _write(
    folders: Sequence[Path],
    to: Path,
    options: ExportOptions,
    described: tuple[tuple[card.ExportedRun, ...], int],
    on_group: Callable[[int, int], None],
) -> ExportResult:
    (runs, total), done = described, 0
    with ExportFiles(to, force=options.force) as files, closing(ParquetFiles(files)) as tables:
        export = _Export(options, files, tables, _copies(folders, options))
        for folder in folders:
            for _ in export.write_groups(folder):
                done += 1
                on_group(done, total)
        tables.finish()
        return export.finish(runs)


def _copies(folders: Sequence[Path], options: ExportOptions) -> dict[tuple[Path, str], dict[int, str]]:
    """Return the rollouts that a fork among the folders holds too, as `_Export.copies`."""
    copies, holders = dict[tuple[Path, str], dict[int, str]](), dict[tuple[Any, ...], Path]()
    with ExitStack() as opened:
        readers = [opened.enter_context(RunReader(folder)) for folder in folders]
        readers.sort(key=lambda reader: -sum(map(len, reader.info.branches.values())))  # a fork has all, and more
        for reader in readers if any(reader.info.branches for reader in readers) else ():
            ranking = _ranking(reader, options)
            for query in reader.queries():
                if ranking and not (options.with_unranked or ranking.of(query.id)):
                    continue
                for rollout in reader.group(query).rollouts:
                    held = rollout.run, rollout.query, rollout.index, rollout.started_at
                    if (holder := holders.setdefault(held, reader.folder)) != reader.folder:
                        copies.setdefault((reader.folder, query.id), {})[rollout.index] = holder.name
    return copies


def _ranking(reader: RunReader, options: ExportOptions) -> RankingFile | None:
    """Return the ranking to export; None of a run without one, where groups may be unranked."""
    is_ranked, name, unranked = reader.newest_head() is not None, reader.typed_name, options.with_unranked
    if not (is_ranked or unranked):
        raise NothingRankable(f"run {reader.info.id} has no ranking to export; make one with {reader.how_to_rank}")
    ranking = reader.ranking(options.ranking) if is_ranked or options.ranking else None
    if ranking and ranking.head.settings.get("topology") == "none":
        if not unranked:
            how = call("rescore", name, topology="arena")
            raise NothingRankable(f"run {reader.info.id} was not judged (--topology none); judge it with {how}")
        ranking = None
    if not options.allow_offline and (is_offline(reader, ranking) if ranking else reader.info.agent_offline):
        raise UsageError(
            f"run {reader.info.id} is a self-test on the embedded offline parts, and teaches nothing; "
            "--allow-offline exports it all the same"
        )
    return ranking


@dataclass
class _Export:
    """An export under way: its files, and what it has counted so far."""

    options: ExportOptions
    files: ExportFiles
    tables: ParquetFiles
    copies: Mapping[tuple[Path, str], Mapping[int, str]]
    """The rollouts of a query that a fork, which is exported too, holds: by their indices, the fork's id."""
    losses: candidates.Losses = field(default_factory=candidates.Losses)
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
            for whole in groups_of(reader, ranking, self.options.rules, unranked=self.options.with_unranked):
                group = candidates.without_edited(self._without_copies(whole, folder), self.options.rules, self.losses)
                if whole.group.rollouts and not group.group.rollouts:
                    yield
                    continue
                records = _RecordHashes(group, ranking.head.id if ranking else "none")
                if self.options.rules.format == "parquet":
                    self._write_tables(group, records)
                for text, rollouts in self._texts(group, recorded_turns):
                    split = choose_split(records.exported_id, self.options.split)
                    name = f"{split}.csv" if is_table else f"{split}.jsonl"
                    if name not in self.split_of:
                        self.split_of[name] = split
                        if is_table:
                            self.files.write(name, csv_line(card.COLUMNS))
                    self._write_source(name, self.files.write(name, text), records.of(rollouts, text))
                yield

    def _without_copies(self, group: candidates.RankedGroup, folder: Path) -> candidates.RankedGroup:
        copies = self.copies.get((folder, group.group.query.id), {})
        for fork in dict.fromkeys(copies.values()):
            held = [index for index, by in copies.items() if by == fork]
            why = f"{fork}, which is exported too, holds a copy of it"
            group = candidates.without_rollouts(group, held, why, self.losses)
        return group

    def _texts(
        self, group: candidates.RankedGroup, recorded_turns: candidates.TurnsOf
    ) -> Iterator[tuple[str, tuple[int, ...]]]:
        rules = self.options.rules
        if rules.format == "csv":
            yield from ((row, (index,)) for row, index in card.table_rows(group))
            return
        lines: Iterable[TrainingLine] = ()
        if rules.format == "atif":
            lines = atif_lines(group, rules, self.losses, recorded_turns)
        elif (lines_of := FORMATS[rules.format].lines_of) and candidates.group_may_go_in(group, rules, self.losses):
            lines = lines_of(
                group, candidates.choose_rollouts(group, rules, self.losses, recorded_turns), rules, self.losses
            )
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
            in_line = [r for r in group.group.rollouts if r.index in line.rollouts and r.trajectory.files]
            if in_line and rules.format not in _WITH_FILES:
                self.losses.add("part of a line", "the files of a workspace", len(in_line))
            yield text, line.rollouts

    def _write_tables(self, group: candidates.RankedGroup, records: "_RecordHashes") -> None:
        split = choose_split(records.query, self.options.split)
        rows = self.tables.write(group, split)
        self.split_of |= dict.fromkeys(rows, split)
        name, rollouts = f"{split}-rollouts.parquet", group.group.rollouts
        for line, rollout in enumerate(rollouts, rows[name] - len(rollouts) + 1):
            self._write_source(name, line, records.of((rollout.index,)))

    def _write_source(self, name: str, line: int, records: Mapping[str, Any]) -> None:
        self.files.write(f"{name}.{SOURCES}", json.dumps({"file": name, "line": line, **records}) + "\n")

    def finish(self, runs: tuple[card.ExportedRun, ...]) -> ExportResult:
        """Check the files, write the card, and give all their names; without a line nothing is written."""
        if not self.split_of:
            return ExportResult((), runs, self.losses, ())
        is_table = self.options.rules.format == "csv"
        written = [self.files.written(name, split, heading=is_table) for name, split in sorted(self.split_of.items())]
        notes = [*self._notes(written)]
        if self.tools_in_reply:
            notes.append(f"{counted(self.tools_in_reply, 'line')} {_TOOLS_IN_REPLY}")
        self.files.join([f"{name}.{SOURCES}" for name in sorted(self.split_of)], SOURCES)
        sources, rules, split = self.files.written(SOURCES, ""), self.options.rules, self.options.split
        content = card.CardContent(rules, split, written, runs, self.losses, notes, sources, self.tokens)
        self.files.commit(card.card_text(content))
        return ExportResult(tuple(written), runs, self.losses, tuple(notes))

    def _notes(self, written: Sequence[card.ExportedFile]) -> Iterator[str]:
        """Yield what a user should know of the files. Raises CannotWrite for a line that its consumer would refuse."""
        if empty := [name for name in self.options.split if name not in {file.split for file in written}]:
            yield f"no line fell to {', '.join(empty)}"
        rules = self.options.rules
        for file in written:
            if model := FORMATS[rules.format].model(rules.style):
                for fault in line_faults(self.files.lines(file.name), file.name, model):
                    raise CannotWrite(f"nothing was written: {fault}")
            if file.lines < FEWEST_LINES and (rules.format == "openai-preference" or rules.style == "openai"):
                yield f"{file.name}: {counted(file.lines, 'line')}; OpenAI takes files of at least {FEWEST_LINES}"


class _RecordHashes:
    def __init__(self, group: candidates.RankedGroup, ranking: str) -> None:
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
