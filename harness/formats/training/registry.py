"""The formats of an export, one entry each: what makes its lines, what each line must be, and what the data card says.

A new format is named in `rules.ExportFormat` and gets an entry here. Tables, and rollouts of any rank, are written by
`pipeline/exporting`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.formats.training import line_models
from harness.formats.training.art import ArtGroup, art_records
from harness.formats.training.atif_trajectory import AtifTrajectory
from harness.formats.training.line_models import Part
from harness.formats.training.records import LinesOf, group_records, preference_records, sft_records
from harness.formats.training.rules import ExportFormat, SftStyle

DatasetsType: TypeAlias = "str | Mapping[str, DatasetsType] | Sequence[DatasetsType]"
"""A type of `datasets`, a record of columns, or a list: its one entry says of what."""
Columns: TypeAlias = Mapping[str, DatasetsType]


def _typed(columns: str) -> dict[str, DatasetsType]:
    """Return columns such as `name:string ids:int64[]`, each with its type; `json` is an object of any keys."""
    pairs = (column.split(":") for column in columns.split())
    return {name: [kind[:-2]] if kind.endswith("[]") else kind for name, kind in pairs}


_SEQUENCE = _typed(
    "agent:string model:string messages:json[] tools:json[] message_mask:int64[] within:string output_schema:json "
    "token_ids:int64[] token_mask:int64[] logprobs:float64[] step_advantages:float64[] token_advantages:float64[]"
)
_GROUP = _typed("query_id:string signal:string judge:string")
_ROLLOUT = _typed(
    "index:int64 role:string recipe:string reward:float64 advantage:float64 uncertainty:float64 failed:string "
    "files:json"
)
_TALK = _typed("messages:json[] tools:json[]")
_TURN = _typed("prompt:json[] completion:json[] tools:json[]")
_HISTORY = _typed("messages_and_choices:json[] tools:json[]")
_TRAJECTORY = _HISTORY | _typed("reward:float64 metrics:json metadata:json logs:string[]")
_OF_PAIRS = frozenset({"pairs", "per_query", "confidence", "least_margin"})
_OF_GROUPS = frozenset({"mixed", "include_anchor", "include_failed"})
_OF_RANKED = frozenset({"no_weak", "include_flagged", "include_cut", "include_varied"})


@dataclass(frozen=True, kw_only=True)
class ExportedFormat:
    """A format of an export."""

    what: str
    """What a line is, for the data card."""
    options: frozenset[str] = frozenset()
    """The options of `harness export` that this format has a use for and others have not."""
    lines_of: LinesOf | None = None
    """What makes the lines of a ranked group; None for tables and for rollouts of any rank."""
    model: Callable[[SftStyle | None], type[Part] | None] = lambda _: None
    """What each line must be; None for tables."""
    columns: Callable[[SftStyle | None], Columns | None] = lambda _: None
    """The columns of a line for `datasets`, which cannot tell them from the lines; None for tables."""


_SFT_MODELS: Mapping[SftStyle | None, type[Part]] = {
    None: line_models.TrlChat,
    "trl": line_models.TrlChat,
    "trl-turns": line_models.TrlCompletion,
    "openai": line_models.OpenAIExample,
}
FORMATS: Mapping[ExportFormat, ExportedFormat] = {
    "groups": ExportedFormat(
        what="A group a line: the ranked rollouts of a query, with rewards and advantages, as sequences of messages. "
        "`message_mask` is 1 for what the model said, and so is `token_mask` where the tokens are known.",
        options=_OF_GROUPS | _OF_RANKED | {"step_advantages"},
        lines_of=group_records,
        model=lambda _: line_models.GroupLine,
        columns=lambda _: _GROUP | {"rollouts": [_ROLLOUT | {"sequences": [_SEQUENCE]}]},
    ),
    "sft": ExportedFormat(
        what="The best rollout of each query.",
        options=_OF_RANKED | {"style"},
        lines_of=sft_records,
        model=lambda style: _SFT_MODELS[style],
        columns=lambda style: _TURN if style == "trl-turns" else _TALK,
    ),
    "dpo": ExportedFormat(
        what="A pair a line, for TRL's DPOTrainer: `prompt`, `chosen`, `rejected`.",
        options=_OF_PAIRS | _OF_RANKED | {"final_answer"},
        lines_of=preference_records,
        model=lambda _: line_models.TrlPreference,
        columns=lambda _: _typed("prompt:json[] chosen:json[] rejected:json[] tools:json[]"),
    ),
    "openai-preference": ExportedFormat(
        what="A pair a line, for OpenAI's preference fine-tuning.",
        options=_OF_PAIRS | _OF_RANKED,
        lines_of=preference_records,
        model=lambda _: line_models.OpenAIPreference,
        columns=lambda _: {"input": _TALK} | _typed("preferred_output:json[] non_preferred_output:json[]"),
    ),
    "art": ExportedFormat(
        what="A group a line, for ART's `TrajectoryGroup`. An entry with `finish_reason` is a Choice.",
        options=_OF_GROUPS | _OF_RANKED,
        lines_of=art_records,
        model=lambda _: ArtGroup,
        columns=lambda _: {"trajectories": [_TRAJECTORY | {"additional_histories": [_HISTORY]}]},
    ),
    "atif": ExportedFormat(
        what="A rollout a line, as a trajectory of ATIF-v1.8, which Harbor reads. Nothing is left out for its rank.",
        options=frozenset({"include_failed", "step_advantages"}),
        model=lambda _: AtifTrajectory,
        columns=lambda _: _typed(
            "schema_version:string trajectory_id:string session_id:string agent:json steps:json[] notes:string "
            "final_metrics:json extra:json subagent_trajectories:json[]"
        ),
    ),
    "parquet": ExportedFormat(what="Four tables: rollouts, steps, matches and scores. Nothing is left out."),
    "csv": ExportedFormat(what="A rollout a row. Nothing is left out: failed and unranked rollouts have empty cells."),
}
