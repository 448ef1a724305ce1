"""The frozen records that every room speaks, and figures for people, rounded in one way.

They hold plain values only: ids instead of objects, tuples instead of lists, None for "not known". A record is
what the archive keeps, so a field that is added needs a default and none is ever renamed.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import PydanticSerializationError

from harness.core.branch_point import BranchPoint
from harness.core.cost import Cost, cost
from harness.core.recipes import Recipe
from harness.core.unicode import valid_unicode
from harness.core.workspace_files import ChangedFile

Role = Literal["anchor", "sample"]
GATEWAY = "gateway"
"""The origin of rollouts that the gateway recorded of another program."""

AgentFailureKind = Literal[
    "timeout",
    "max_turns",
    "output",
    "guardrail",
    "refusal",
    "truncated",
    "content_filter",
    "tool",
    "context_length",
    "approval",
    "agent_code",
]
InfrastructureFailureKind = Literal["api", "quota", "network", "cancelled", "internal", "budget"]
FailureKind = Literal[AgentFailureKind, InfrastructureFailureKind]
"""Why a rollout or a verdict failed, and whose fault that was (docs/architecture.md)."""

AGENT_FAILURES = frozenset[str](get_args(AgentFailureKind))

BUILT_LATER = ConfigDict(defer_build=True)
"""For types that most commands never use: what checks their values is built when the first value comes."""


class Record(BaseModel):
    """The base of all records: frozen, and tolerant of fields that a later version added."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", ser_json_inf_nan="null", allow_inf_nan=False, defer_build=True
    )


RecordT = TypeVar("RecordT", bound=Record)


def build_records() -> None:
    """Build what checks the values of each record that has been imported, before the first value comes."""
    waiting = Record.__subclasses__()
    while waiting:
        record = waiting.pop()
        record.model_rebuild()
        waiting += record.__subclasses__()


def record_of(kind: type[RecordT], values: dict[str, Any]) -> RecordT:
    """Return a record of values that fit it for certain: one for each of its fields, in their order, of its very type.

    Nothing is checked or converted, which takes a third of the time: for the many records made of other records.
    """
    record = kind.__new__(kind)
    object.__setattr__(record, "__dict__", values)
    object.__setattr__(record, "__pydantic_fields_set__", _field_names(kind))
    object.__setattr__(record, "__pydantic_extra__", None)
    object.__setattr__(record, "__pydantic_private__", None)
    return record


@cache
def _field_names(kind: type[Record]) -> set[str]:
    """Return the fields of a record: one set for all, as those of frozen records never change."""
    return set(kind.model_fields)


def digest(value: Any) -> str:
    """Return the sha256 (hex) of `value` as canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return `value` as JSON of one form: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def to_json(record: BaseModel) -> str:
    """Return a record as JSON. Lone surrogates, which no UTF-8 file can hold, become U+FFFD."""
    try:
        return record.model_dump_json()
    except PydanticSerializationError:
        return valid_unicode(json.dumps(record.model_dump(mode="json"), ensure_ascii=False))


def is_none(value: Any) -> bool:
    """Return whether a field that is left out where it says nothing says nothing."""
    return value is None


def is_empty(values: Sized) -> bool:
    """Return whether a field of several values that is left out where it has none has none."""
    return not values


class Failure(Record):
    """Why something did not work out: a kind to count by, the exception's type, its message."""

    kind: FailureKind
    type: str
    message: str
    turn: int | None = None


class Usage(Record):
    """Tokens of one or more model calls; None where the endpoint did not count."""

    requests: int = 0
    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache_write: int | None = Field(default=None, exclude_if=is_none)
    """Of the tokens in, those that were written to the endpoint's cache."""

    def __add__(self, other: Self) -> "Usage":
        """Add two usages; what only one side counted stands as that side counted it."""

        def both(a: int | None, b: int | None) -> int | None:
            return b if a is None else a if b is None else a + b

        return Usage(
            requests=self.requests + other.requests,
            input=both(self.input, other.input),
            cached=both(self.cached, other.cached),
            output=both(self.output, other.output),
            reasoning=both(self.reasoning, other.reasoning),
            cache_write=both(self.cache_write, other.cache_write),
        )

    @property
    def tokens(self) -> int | None:
        """Input plus output tokens, None if neither was counted."""
        return None if self.input is None and self.output is None else (self.input or 0) + (self.output or 0)


@dataclass(frozen=True)
class Bill:
    """What a model call is paid for, as far as its reply tells."""

    usage: Usage
    tier: str | None = None
    """The service tier that the reply names."""
    tools: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often the provider ran a tool of its own, by the tool's name."""
    is_odd: bool = False
    """A count that no reply can have is left out of `usage`."""
    is_part: bool = False
    """More was paid for than the reply tells: it broke off, or names a search without the number of searches."""


BEGUN = Bill(Usage.model_construct(requests=1), is_part=True)
"""That of a reply of which no more is there than that it began."""


class Query(Record):
    """What the agent is asked: `text`, or the SDK's `items`, with `text` for people. `reference`: the right answer."""

    id: str
    text: str
    items: tuple[Mapping[str, JsonValue], ...] | None = None
    reference: str | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    origin_id: str | None = None
    """The id that it came with, where another imported group had it already."""
    redacted: bool = False
    """What was asked is no longer here as it was: something that must not be kept was taken out."""

    @property
    def exported_id(self) -> str:
        """The id by which training data names it: the one that it came with."""
        return self.origin_id or self.id

    def agent_input(self) -> Any:
        """Return what the SDK's runner is given: the text, or a fresh list of the items."""
        return self.text if self.items is None else [json.loads(json.dumps(dict(i))) for i in self.items]


class Step(Record):
    """One step on the way to the answer: a tool call, or reasoning or text that led to none.

    A step of kind `approval` is the decision on the tool call of the step after it.
    """

    kind: Literal["reasoning", "tool", "handoff", "message", "guardrail", "approval"]
    reasoning: str | None = None
    tool_name: str | None = None
    tool_input: str | None = None
    tool_output: str | None = None
    tool_type: Literal["function", "hosted", "mcp", "agent"] | None = None
    agent: str | None = None
    call_id: str | None = None
    error: str | None = None
    server: str | None = None
    """The MCP server that a tool belongs to."""
    inner: tuple["Step", ...] = ()
    """The steps of an agent that was used as a tool."""
    started_at: datetime | None = None
    duration_s: float | None = None


class Trajectory(Record):
    """What a rollout did: the query, the steps in order, the final output, and files."""

    query: str
    path: tuple[Step, ...] = ()
    answer: str = ""
    answer_type: Literal["text", "json"] = "text"
    files: tuple[ChangedFile, ...] = Field(default=(), exclude_if=is_empty)
    """What became of the files in its workspaces, where it ran in a sandbox: a part of the answer."""


class Sampling(Record):
    """The settings asked for. The temperature of an imported rollout may not be known."""

    temperature: float | None
    top_p: float | None = None
    seed: int | None = None
    model: str | None = None


class PaidCall(Record):
    """When a model call was made, how long it took in seconds, and what it cost; None where that was not noted."""

    started_at: datetime | None = Field(default=None, exclude_if=is_none)
    duration_s: float | None = Field(default=None, exclude_if=is_none)
    usage: Usage | None = Field(default=None, exclude_if=is_none)
    price_usd: float | None = Field(default=None, exclude_if=is_none)
    price_usd_at_least: float | None = Field(default=None, exclude_if=is_none)
    """The part of an unknown price that is known."""
    service_tier: str | None = Field(default=None, exclude_if=is_none)
    """The tier that the reply names: what tokens cost goes by it."""
    hosted_tools: Mapping[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """How often the provider ran a tool of its own within the call, by the tool's name."""

    @property
    def cost(self) -> Cost:
        """What it cost, as far as that is known."""
        return cost(self.price_usd, self.price_usd_at_least)


class ModelCall(PaidCall):
    """One model call as it was really made: what was sent, what the reply said of itself."""

    model: str | None = None
    replied_model: str | None = None
    temperature: float | None = None
    replied_temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    error: str | None = None
    """What an attempt without a reply ended in; the attempt after it is the retry."""
    raw: int | None = None
    """Which of the rollout's raw calls it is; None for an attempt without a reply, or one that only spans tell of."""
    agent: str | None = None
    """The agent that made it."""
    own_model: str | None = None
    """The class of the Model object or model provider that the agent brought along for it; None for the run's."""
    within: str | None = None
    """The id of the tool call during which it was made, None for a call of the outermost run."""
    within_raw: int | None = None
    """Which of the rollout's raw calls asked for that tool call."""
    policy: tuple[int, ...] = Field(default=(), exclude_if=is_empty)
    """Versions of a trained policy: when the call began, and when its reply came if that is another."""
    snapshot: str | None = Field(default=None, exclude_if=is_none)
    """Blob with the state outside before it, as the agent's file kept it (harness.rollouts.snapshots)."""


class Effective(Record):
    """The settings that really reached the model calls of a rollout."""

    uniform: bool
    """Every call carried the requested temperature, and no reply contradicted it."""
    temperature: float | None = None
    models: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    run_config: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """What the app's own RunConfig set, by name, and what of that gave way to the harness."""


class Rollout(Record):
    """One run of the agent. `trajectory` goes as far as the run got, also when it failed."""

    run: str
    query: str
    index: int
    role: Role
    requested: Sampling
    recipe: Recipe | None = Field(default=None, exclude_if=is_none)
    """How it was varied; None for the anchor, and where samples differ by temperature alone."""
    effective: Effective
    calls: tuple[ModelCall, ...] = ()
    raw_calls: str | None = None
    """Blob with every request and reply, from which the SDK's objects can be rebuilt (harness.rollouts.raw)."""
    turns: str | None = None
    """Blob with the messages that an imported rollout came with, as turns (harness.formats)."""
    sampled_tokens: str | None = Field(default=None, exclude_if=is_none)
    """Blob with the tokens of the raw calls, where the server sent them (harness.rollouts.raw)."""
    status: Literal["ok", "failed"]
    failure: Failure | None = None
    capture: Literal["full", "partial"] = "full"
    """Whether the record holds all that the model servers saw, as far as that can be told."""
    capture_gaps: tuple[str, ...] = ()
    """What is missing of a partial record, in words."""
    clean_up_error: str | None = None
    """What the agent's own clean-up ended in; the rollout's result stands beside it."""
    verified: float | None = None
    """What the agent's own `reward(rollout, query)` gave; None without one, or where it could not tell."""
    verify_error: str | None = None
    """What `reward` raised, or gave that is no number."""
    snapshot_error: str | None = Field(default=None, exclude_if=is_none)
    """Why the agent's file kept no state before a model call of it, the first such call."""
    trajectory: Trajectory
    usage: Usage = Usage.model_construct()
    price_usd: float | None = None
    price_usd_at_least: float | None = Field(default=None, exclude_if=is_none)
    """The part of an unknown price that is known."""
    served_by: str | None = Field(default=None, exclude_if=is_none)
    """Host and port of the server that served it, where its run had several to choose from."""
    fingerprint: str | None = None
    started_at: datetime
    duration_s: float
    retries: int = 0
    """Model calls that were tried again after a failure of the endpoint's."""
    calls_kept: int | None = Field(default=None, exclude_if=is_none)
    """How many of the calls an attempt before had made, which was cut off: this one went on from their replies."""
    branch: BranchPoint | None = Field(default=None, exclude_if=is_none)
    """The rollout that it was taken up from; None for one that began by itself."""
    state_changed: int | None = Field(default=None, exclude_if=is_none)
    """After how many model calls a tool first changed what no request shows: the context, or files of its own."""
    temporary_folders: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Those that its sandboxes had, or were granted: a replay may have others in their place."""
    tool_names: tuple[str, ...] = ()
    instructions: str | None = None
    mcp_tools: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """The tools that each MCP server listed, by the server's name: a replay needs no server then."""
    origin: str | None = None
    """The format that it was imported from; None for a rollout made here."""
    origin_id: str | None = None
    given_reward: float | None = None
    """The reward that came with an imported rollout."""
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    """What else came with an imported rollout."""

    @property
    def cost(self) -> Cost:
        """What its model calls cost, as far as that is known."""
        return cost(self.price_usd, self.price_usd_at_least)


class Group(Record):
    """A query and its rollouts, in index order."""

    query: Query
    rollouts: tuple[Rollout, ...]

    @property
    def basis(self) -> str:
        """Name just these records of the rollouts."""
        return basis_of((r.index, r.status, r.started_at) for r in self.rollouts)


def basis_of(rollouts: Iterable[tuple[int, str, datetime]]) -> str:
    """Return a hash of the index, status and start of rollouts, in index order: another attempt is another start."""
    return digest([[index, status, at.isoformat()] for index, status, at in rollouts])


def whole_percent(share: float) -> int:
    """Return whole per cent; half a per cent goes away from 50, so that B against A mirrors A against B."""
    return 100 - math.floor((1 - share) * 100 + 0.5) if share < 0.5 else math.floor(share * 100 + 0.5)


def percent_half_up(share: float) -> int:
    """Return whole per cent of a share that has no mirror image: half a per cent goes up."""
    return math.floor(round(share * 100, 9) + 0.5)
