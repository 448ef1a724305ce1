"""The data card, README.md of an export; and the tables of an export, as rows of CSV or Parquet.

Without them `datasets` takes the columns of the first 10 MB for those of the whole file, cannot load a file in which
later tools or arguments have other keys, and fills each message with the keys of all the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import yaml

from harness.core.csv_line import csv_line
from harness.core.errors import on_a_line
from harness.core.rankings import Ranked
from harness.core.records import Step
from harness.core.unicode import valid_unicode
from harness.formats.training.candidates import Losses, RankedGroup
from harness.formats.training.registry import FORMATS, DatasetsType
from harness.formats.training.rules import PAIRS_OF_STEPS, SIBLING_CONFIDENCE, USUAL_CONFIDENCE, ExportRules
from harness.formats.turns import NO_TOKENS, TokenCounts


def _declared(columns: Mapping[str, DatasetsType]) -> Iterator[dict[str, Any]]:
    """Yield the columns of a file as `features` in a card's head."""
    for name, column in columns.items():
        if isinstance(column, str):
            yield {"name": name, "dtype": column}
        elif isinstance(column, Mapping):
            yield {"name": name, "struct": list(_declared(column))}
        else:
            (kind,) = column
            yield {"name": name, "list": list(_declared(kind)) if isinstance(kind, Mapping) else kind}


@dataclass(frozen=True)
class ExportedFile:
    """A file of an export: lines without a CSV's heading, and its sha256 (hex)."""

    name: str
    split: str
    lines: int
    sha256: str
    table: str = "default"
    """What `datasets` calls the table that it holds, or a part of."""


@dataclass(frozen=True)
class ExportedRun:
    """A run of which an export was made, and how far its judge can be believed."""

    id: str
    ranking: str
    agent: str
    judge: str
    rubric: str
    offline: bool
    finished: bool
    signals: Mapping[str, int]
    """How many groups have each signal."""
    figures: Sequence[tuple[str, str]]
    """Name and value of each honesty figure of the judge."""
    warnings: Sequence[str] = ()
    provisional: str = ""
    """A clause on what may change once all groups are in: places, or the probabilities beside them."""


@dataclass(frozen=True)
class CardContent:
    """What a card says."""

    rules: ExportRules
    split: Mapping[str, float]
    files: Sequence[ExportedFile]
    runs: Sequence[ExportedRun]
    losses: Losses
    notes: Sequence[str]
    sources: ExportedFile
    """The file that names, for each line, the records behind it."""
    tokens: TokenCounts = NO_TOKENS


def card_text(content: CardContent) -> str:
    """Return the card."""
    rules, rows = content.rules, list(content.losses.rows())
    lines = ["---", f"{_head(content)}---", "", f"# Training data: {rules.format}", "", FORMATS[rules.format].what, ""]
    if any(run.offline for run in content.runs):
        lines.append("**SELF-TEST on the embedded offline parts: the ranks say nothing of any LLM.**\n")
    files = ((file.name, file.split, file.lines, file.sha256) for file in (*content.files, content.sources))
    lines += [*_table(("file", "split", "lines", "sha256"), files), "", content.tokens.words()]
    lines += ["", *(f"- {note}" for note in content.notes)] if content.notes else []
    lines += ["", "## What may go in", "", *(f"- {rule}" for rule in _rules(content)), "", "## What was left out", ""]
    lines += _table(("what", "why", "count"), rows) if rows else ["Nothing."]
    for run in content.runs:
        signals = ", ".join(f"{name} {count:,}" for name, count in run.signals.items()) or "none ranked"
        unfinished = ("" if run.finished else ", unfinished") + run.provisional
        lines += ["", f"## Run {_plain(run.id)}", "", f"- agent: {_plain(run.agent)}"]
        lines.append(f"- ranking: {_plain(run.ranking)}{unfinished}; groups by signal: {signals}")
        lines += [f"- judge: {_plain(run.judge)}", f"- rubric: {_plain(run.rubric)}"]
        lines += [f"- {_plain(name)}: {_plain(value)}" for name, value in run.figures]
        lines += [f"- the judge: {_plain(warning)}" for warning in run.warnings]
    return "\n".join(lines) + "\n"


def _head(content: CardContent) -> str:
    """Return the card's head. The files' hash is in it: `datasets` keeps what it read until the head changes."""
    hashed = sha256("".join(file.sha256 for file in content.files).encode()).hexdigest()
    configs: list[Mapping[str, object]] = []
    for name in dict.fromkeys(file.table for file in content.files):
        files = [{"split": file.split, "path": file.name} for file in content.files if file.table == name]
        config = {"config_name": name, "description": f"files of sha256 {hashed}", "data_files": files}
        configs.append(config | ({"default": True} if name == "rollouts" else {}))
    columns = FORMATS[content.rules.format].columns(content.rules.style)
    described = {"dataset_info": {"features": list(_declared(columns))}} if columns else {}
    return yaml.safe_dump({"configs": configs, **described, "tags": ["arena-harness"]}, sort_keys=False)


def _rules(content: CardContent) -> Iterator[str]:
    rules = content.rules
    yield "split by a hash of the query's id: " + ", ".join(f"{name} {part:g}" for name, part in content.split.items())
    if not FORMATS[rules.format].lines_of:
        return
    yield "groups of signal ok and weak" if rules.weak else "groups of signal ok"
    yield "also taken: " + (", ".join(sorted(rules.included)) or "nothing that is left out by default")
    if rules.format == "sft":
        yield f"style: {rules.style or 'trl'}"
    if rules.format in {"dpo", "openai-preference"}:
        least = (
            f"{USUAL_CONFIDENCE:g} in runs judged in one order" if rules.confidence is None else f"{rules.confidence:g}"
        )
        most = "" if rules.per_query is None else f", at most {rules.per_query} of a query"
        yield f"pairs: {rules.pairs}{most}, with a margin of at least {rules.least_margin:g}"
        if rules.pairs in PAIRS_OF_STEPS:
            sure = SIBLING_CONFIDENCE if rules.confidence is None else rules.confidence
            yield f"two steps after one prompt: p(better above worse) of at least {sure:g}"
            return
        yield "a pair judged in both orders: both name the same winner"
        yield f"another pair: p(better above worse) of at least {least}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    yield from (f"| {' | '.join(map(_plain, row))} |" for row in rows)


def _plain(value: object) -> str:
    """Return a value on one line, in which no mark of Markdown or HTML has an effect."""
    text = on_a_line(value)
    return "".join(f"\\{character}" if character in "|<>`*_[]#\\" else character for character in text)


COLUMNS = tuple(
    "run query_id query index role status failure rank reward advantage score margin uncertainty p_best verified "
    "signal judge flagged temperature recipe models steps input_tokens output_tokens price_usd duration_s "
    "answer".split()
)


def table_rows(group: RankedGroup) -> Iterator[tuple[str, int]]:
    """Yield the line of each rollout, with its line break, and the rollout's index."""
    for cells in rollout_cells(group):
        yield csv_line(cells[column] for column in COLUMNS), cells["index"]


def rollout_cells(group: RankedGroup) -> Iterator[dict[str, Any]]:
    """Yield what is in each of the COLUMNS for each rollout, and more of its place."""
    query, places = group.group.query, {ranked.index: ranked for ranked in group.ranked.rollouts}
    for rollout in group.group.rollouts:
        place = places.get(rollout.index) or Ranked(index=rollout.index)
        yield place.model_dump() | {
            "run": group.run,
            "query_id": query.id,
            "query": query.text,
            "index": rollout.index,
            "role": rollout.role,
            "status": rollout.status,
            "failure": rollout.failure and rollout.failure.kind,
            "verified": rollout.verified,
            "signal": group.ranked.signal,
            "judge": group.judge,
            "flagged": int(rollout.index in group.flagged),
            "temperature": rollout.requested.temperature,
            "recipe": rollout.recipe and rollout.recipe.name,
            "models": " ".join(rollout.effective.models),
            "steps": len(rollout.trajectory.path),
            "input_tokens": rollout.usage.input,
            "output_tokens": rollout.usage.output,
            "price_usd": rollout.price_usd,
            "duration_s": rollout.duration_s,
            "answer": rollout.trajectory.answer,
        }


def _typed_column(**columns: str) -> dict[str, str]:
    """Return the names of columns, each with its type; `columns` has names by type."""
    return {name: kind for kind, names in columns.items() for name in names.split()}


_NUMBERS = "rank reward advantage score margin uncertainty p_best verified temperature price_usd duration_s"
_OF_A_GROUP: Mapping[str, str] = {"run": "string", "query_id": "string"}
PARQUET_TABLES: Mapping[str, Mapping[str, str]] = {
    "rollouts": dict.fromkeys(COLUMNS, "string")
    | _typed_column(int64="index steps input_tokens output_tokens", bool="flagged", double=_NUMBERS),
    "steps": _OF_A_GROUP
    | _typed_column(
        int64="index step within_step",
        string="kind agent tool_name tool_type server call_id tool_input tool_output reasoning error",
        double="duration_s",
    ),
    "matches": _OF_A_GROUP
    | _typed_column(int64="match round a b", double="score_a score_b")
    | _typed_column(int64="winner", bool="flipped inconsistent repeated cut"),
    "scores": _OF_A_GROUP
    | _typed_column(int64="match", string="verdict")
    | _typed_column(int64="first second", double="score_first score_second"),
}
"""The columns of each table, by the names of Arrow's types."""


def parquet_rows(group: RankedGroup) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a group, each with the name of its table."""
    of_group = {"run": group.run, "query_id": group.group.query.id}
    for table, row in _rows(group):
        named = of_group | row
        yield table, {key: valid_unicode(v) if isinstance(v, str) else v for key, v in named.items()}


def _rows(group: RankedGroup) -> Iterator[tuple[str, dict[str, Any]]]:
    for cells in rollout_cells(group):
        yield "rollouts", {column: cells[column] for column in COLUMNS} | {"flagged": bool(cells["flagged"])}
    columns = [name for name in PARQUET_TABLES["steps"] if name in Step.model_fields]
    for rollout in group.group.rollouts:
        steps: list[tuple[Step, int | None]] = []
        _flat(rollout.trajectory.path, None, steps)
        for number, (step, within) in enumerate(steps, 1):
            fields = {name: getattr(step, name) for name in columns}
            yield "steps", fields | {"index": rollout.index, "step": number, "within_step": within}
    for number, match in enumerate(group.ranked.matches, 1):
        names = (name for name in PARQUET_TABLES["matches"] if name in type(match).model_fields)
        yield "matches", {name: getattr(match, name) for name in names} | {"match": number}
        for verdict, first, (ahead, behind) in zip(match.verdicts, match.shown_first, match.scores, strict=True):
            second = match.b if first == match.a else match.a
            sides = {"first": first, "second": second, "score_first": ahead, "score_second": behind}
            yield "scores", {"match": number, "verdict": verdict} | sides


def _flat(path: Iterable[Step], within: int | None, steps: list[tuple[Step, int | None]]) -> None:
    """Add all steps with the number of the step that each is within: those of an agent that was used as a tool."""
    for step in path:
        steps.append((step, within))
        _flat(step.inner, len(steps), steps)
