"""The formats of an export, one entry each: what makes its lines, what each line must be, and what the data card says.

A new format is named in `rules.ExportFormat` and gets an entry here. Tables, and rollouts of any rank, are written by
`pipeline/exporting`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, StrictStr, Tag, model_validator

from harness.formats.training import line_models, records
from harness.formats.training.atif_trajectory import AtifTrajectory
from harness.formats.training.candidates import Candidate, Losses, RankedGroup, rewards_teach
from harness.formats.training.line_models import ChatRole, ClosedPart, ExactNumber, OpenAICall, Part
from harness.formats.training.rules import ExportFormat, ExportRules, SftStyle
from harness.formats.turns import Message, TokenCounts, Turn, TurnSequence

_WITHOUT_LOGPROBS = "logprobs of a reply, which are not recorded: ART trains no Choice without them"


def art_records(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[records.TrainingLine]:
    """Yield a group as one line, with rewards: ART standardizes them over the group itself."""
    if rewards_teach(choices, rules, losses):
        members = sorted(choices, key=lambda candidate: candidate.index)
        record = {"trajectories": [_trajectory(group, member) for member in members]}
        sequences = [sequence for member in members for sequence in member.sequences]
        lost: list[str] = []
        for sequence in sequences:
            lost += records.unplaced_parts(sequence)
            lost += (_WITHOUT_LOGPROBS for turn in sequence.turns if not _logprobs(turn))
        indices = tuple(member.index for member in members)
        yield records.TrainingLine(record, indices, tuple(lost), tokens=TokenCounts.of(sequences))


def _trajectory(group: RankedGroup, member: Candidate) -> dict[str, Any]:
    """Return a rollout: the sequence that ends in the answer, and the others beside it.

    The metrics, metadata and logs of an imported trajectory that nobody has judged anew stay as they came.
    """
    place, rollout = member.place, member.rollout
    notes: Any = rollout.metadata.get("art")
    if not (notes and isinstance(notes, Mapping) and group.ranked.origin == rollout.origin == "art"):
        figures = {
            "rank": place.rank,
            "uncertainty": place.uncertainty,
            "verified": rollout.verified,
            "price_usd": rollout.price_usd,
            "duration_s": rollout.duration_s,
        }
        metadata = {
            "query_id": group.group.query.exported_id,
            "run": group.run,
            "index": member.index,
            "role": rollout.role,
            **({"recipe": rollout.recipe.name} if rollout.recipe else {}),
            "signal": group.ranked.signal,
            "judge": group.judge,
            "agent": member.final.turns[0].agent,
            "model": member.final.turns[0].model,
        }
        metrics = {name: value for name, value in figures.items() if value is not None}
        notes = {"metrics": metrics, "metadata": metadata, "logs": []}
    others = [_history(sequence) for sequence in member.sequences if sequence is not member.final]
    beside = {"additional_histories": others} if others else {}
    return {**_history(member.final), "reward": place.reward, **notes, **beside}


def _history(sequence: TurnSequence) -> dict[str, Any]:
    """Return the messages of a sequence, those of the model as Choices: ART trains on one that has logprobs."""
    said = {len(turn.context): turn for turn in sequence.turns}
    entries: list[Message] = []
    masked = zip(sequence.messages, sequence.message_mask, strict=True)
    for place, (message, mask) in enumerate(masked):
        ends = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"finish_reason": ends, "index": 0, "logprobs": _logprobs(said.get(place)), "message": message}
        entries.append(choice if mask else message)
    return {"messages_and_choices": entries, **records.tools_of(sequence)}


def _logprobs(turn: Turn | None) -> dict[str, Any] | None:
    """Return the tokens of a turn of one message as ART reads ids: as the text `token_id:N`."""
    tokens = turn.tokens if turn and len(turn.completion) == 1 else None
    if not tokens or not tokens.logprobs:
        return None
    pairs = zip(tokens.ids, tokens.logprobs, strict=True)
    content: list[dict[str, Any]] = [
        {"token": f"token_id:{token}", "bytes": None, "logprob": logprob, "top_logprobs": []}
        for token, logprob in pairs
    ]
    return {"content": content, "refusal": None}


class _ArtToken(Part, frozen=True):
    token: Annotated[StrictStr, Field(pattern="^token_id:")]
    logprob: ExactNumber


class _ArtLogprobs(Part, frozen=True):
    content: list[_ArtToken] | None = None


class _Said(Part, frozen=True):
    role: Literal["assistant"]
    content: StrictStr | None = None
    tool_calls: list[OpenAICall] | None = None


class _Choice(Part, frozen=True):
    finish_reason: Any
    message: _Said
    logprobs: _ArtLogprobs | None = None


class _ArtMessage(Part, frozen=True):
    role: ChatRole


_Entry = Annotated[
    Annotated[_Choice, Tag("Choice")] | Annotated[_ArtMessage, Tag("message")],
    Discriminator(lambda entry: "Choice" if isinstance(entry, Mapping) and "finish_reason" in entry else "message"),
]


class _History(Part, frozen=True):
    messages_and_choices: list[_Entry]
    tools: Any = None

    @model_validator(mode="after")
    def _check_choices(self) -> Self:
        if not any(isinstance(entry, _Choice) for entry in self.messages_and_choices):
            raise ValueError("it holds no Choice to train on")
        return self


class _ArtTrajectory(_History, ClosedPart, frozen=True):
    unchecked = "logs"
    reward: ExactNumber
    metrics: dict[str, ExactNumber] | None = None
    metadata: dict[str, Any] | None = None
    additional_histories: list[_History] | None = None

    @model_validator(mode="after")
    def _check_metadata(self) -> Self:
        if not all(isinstance(value, str | int | float | None) for value in (self.metadata or {}).values()):
            raise ValueError("a value of metadata is neither a text nor a number")
        return self


class ArtGroup(Part, frozen=True):
    """A group of trajectories as ART takes it."""

    trajectories: Annotated[list[_ArtTrajectory], Field(min_length=2)]


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
    lines_of: records.LinesOf | None = None
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
        lines_of=records.group_records,
        model=lambda _: line_models.GroupLine,
        columns=lambda _: _GROUP | {"rollouts": [_ROLLOUT | {"sequences": [_SEQUENCE]}]},
    ),
    "sft": ExportedFormat(
        what="The best rollout of each query.",
        options=_OF_RANKED | {"style"},
        lines_of=records.sft_records,
        model=lambda style: _SFT_MODELS[style],
        columns=lambda style: _TURN if style == "trl-turns" else _TALK,
    ),
    "dpo": ExportedFormat(
        what="A pair a line, for TRL's DPOTrainer: `prompt`, `chosen`, `rejected`.",
        options=_OF_PAIRS | _OF_RANKED | {"final_answer"},
        lines_of=records.preference_records,
        model=lambda _: line_models.TrlPreference,
        columns=lambda _: _typed("prompt:json[] chosen:json[] rejected:json[] tools:json[]"),
    ),
    "openai-preference": ExportedFormat(
        what="A pair a line, for OpenAI's preference fine-tuning.",
        options=_OF_PAIRS | _OF_RANKED,
        lines_of=records.preference_records,
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
