"""The data card: README.md of an export, which `datasets.load_dataset(FOLDER)` reads, too.

Without them `datasets` takes the columns of the first 10 MB for those of the whole file, cannot load a file in which
later tools or arguments have other keys, and fills each message with the keys of all the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

import yaml

from harness.core.errors import on_a_line
from harness.formats.training.candidates import Losses
from harness.formats.training.rules import USUAL_CONFIDENCE, ExportFormat, ExportRules
from harness.formats.turns import NO_TOKENS, TokenCounts

DatasetsType: TypeAlias = "str | Mapping[str, DatasetsType] | Sequence[DatasetsType]"
"""A type of `datasets`, a record of columns, or a list: its one entry says of what."""


def _typed(columns: str) -> dict[str, DatasetsType]:
    """Return columns such as `name:string ids:int64[]`, each with its type; `json` is an object of any keys."""
    pairs = (column.split(":") for column in columns.split())
    return {name: [kind[:-2]] if kind.endswith("[]") else kind for name, kind in pairs}


_SEQUENCE = _typed(
    "agent:string model:string messages:json[] tools:json[] message_mask:int64[] within:string output_schema:json "
    "token_ids:int64[] token_mask:int64[] logprobs:float64[]"
)
_GROUP = _typed("query_id:string signal:string judge:string")
_ROLLOUT = _typed("index:int64 role:string reward:float64 advantage:float64 uncertainty:float64 failed:string")
_TALK = _typed("messages:json[] tools:json[]")
_HISTORY = _typed("messages_and_choices:json[] tools:json[]")
_TRAJECTORY = _HISTORY | _typed("reward:float64 metrics:json metadata:json logs:string[]")
_TURN = _typed("prompt:json[] completion:json[] tools:json[]")
_COLUMNS: Mapping[ExportFormat, Mapping[str, DatasetsType]] = {
    "groups": _GROUP | {"rollouts": [_ROLLOUT | {"sequences": [_SEQUENCE]}]},
    "sft": _TALK,
    "dpo": _typed("prompt:json[] chosen:json[] rejected:json[] tools:json[]"),
    "openai-preference": {"input": _TALK} | _typed("preferred_output:json[] non_preferred_output:json[]"),
    "art": {"trajectories": [_TRAJECTORY | {"additional_histories": [_HISTORY]}]},
    "atif": _typed(
        "schema_version:string trajectory_id:string session_id:string agent:json steps:json[] notes:string "
        "final_metrics:json extra:json subagent_trajectories:json[]"
    ),
}


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


_WHAT = {
    "groups": "A group a line: the ranked rollouts of a query, with rewards and advantages, as sequences of messages. "
    "`message_mask` is 1 for what the model said, and so is `token_mask` where the tokens are known.",
    "sft": "The best rollout of each query.",
    "dpo": "A pair a line, for TRL's DPOTrainer: `prompt`, `chosen`, `rejected`.",
    "openai-preference": "A pair a line, for OpenAI's preference fine-tuning.",
    "art": "A group a line, for ART's `TrajectoryGroup`. An entry with `finish_reason` is a Choice.",
    "atif": "A rollout a line, as a trajectory of ATIF-v1.8, which Harbor reads. Nothing is left out for its rank.",
    "parquet": "Four tables: rollouts, steps, matches and scores. Nothing is left out.",
    "csv": "A rollout a row. Nothing is left out, so failed and unranked rollouts have empty cells.",
}


def card_text(content: CardContent) -> str:
    """Return the card."""
    rules, rows = content.rules, list(content.losses.rows())
    lines = ["---", f"{_head(content)}---", "", f"# Training data: {rules.format}", "", _WHAT[rules.format], ""]
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
    columns = _TURN if content.rules.style == "trl-turns" else _COLUMNS.get(content.rules.format)
    described = {"dataset_info": {"features": list(_declared(columns))}} if columns else {}
    return yaml.safe_dump({"configs": configs, **described, "tags": ["arena-harness"]}, sort_keys=False)


def _rules(content: CardContent) -> Iterator[str]:
    rules = content.rules
    yield "split by a hash of the query's id: " + ", ".join(f"{name} {part:g}" for name, part in content.split.items())
    if rules.format in {"csv", "parquet", "atif"}:
        return
    yield "groups of signal ok and weak" if rules.weak else "groups of signal ok"
    yield "also taken: " + (", ".join(sorted(rules.included)) or "nothing that is left out by default")
    if rules.format in {"dpo", "openai-preference"}:
        least = (
            f"{USUAL_CONFIDENCE:g} in runs judged in one order" if rules.confidence is None else f"{rules.confidence:g}"
        )
        most = "" if rules.per_query is None else f", at most {rules.per_query} of a query"
        yield f"pairs: {rules.pairs}{most}, with a margin of at least {rules.least_margin:g}"
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
