"""What the consumer of each format takes of a line, as models, and the check of a file's lines.

OpenAI's rules are those of https://platform.openai.com/docs/guides/direct-preference-optimization and
.../guides/supervised-fine-tuning; TRL's are those of TRL 1.16. The models of ART's and ATIF's
lines stand beside what writes these.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field, JsonValue, Strict, StrictStr, ValidationError, model_validator

from harness.core.errors import counted
from harness.core.rankings import Signal
from harness.core.records import FailureKind, Role

FEWEST_LINES = 10
"""OpenAI takes no smaller file."""
ExactNumber = Annotated[float, Strict()]
Whole = Annotated[int, Strict(), Field(ge=0)]
Bit = Literal[0, 1]
ChatRole = Literal["system", "developer", "user", "assistant", "tool"]
_ASSISTANT = "assistant"


class Part(BaseModel, frozen=True, extra="allow", allow_inf_nan=False, defer_build=True):
    """A part of a line, which may have keys that are not checked."""


class ClosedPart(Part, frozen=True):
    """A part of a line that has no keys but its fields and those that `unchecked` names; a whole line, too."""

    unchecked: ClassVar[str] = ""

    @classmethod
    def allowed_keys(cls) -> frozenset[str]:
        """Return the keys that such a part may have."""
        return frozenset((*cls.model_fields, *cls.unchecked.split()))

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if other := sorted((self.model_extra or {}).keys() - self.allowed_keys()):
            raise ValueError(f"it has other keys: {', '.join(other)}")
        return self


def faults(record: Any, model: type[Part]) -> Iterator[str]:
    """Yield what a consumer would refuse of a record, each fault with its place in it."""
    try:
        model.model_validate(record)
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_context=False):
            place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in error["loc"])
            yield f"{place.removeprefix('.') or 'the line'}: {error['msg'].removeprefix('Value error, ')}"


def line_faults(lines: Iterable[str], name: str, model: type[Part]) -> Iterator[str]:
    """Yield `file:line: what` for each fault of a file of JSON lines."""
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line, parse_constant=_no_json)
        except ValueError as exc:
            yield f"{name}:{number}: not JSON: {exc}"
        else:
            yield from (f"{name}:{number}: {fault}" for fault in faults(record, model))


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


# Messages: as `groups` and TRL take them, and as OpenAI does


class _Called(Part, frozen=True):
    name: StrictStr
    arguments: StrictStr


class _CalledWithObject(Part, frozen=True):
    name: StrictStr
    arguments: dict[str, Any]


class _Call(Part, frozen=True):
    function: _Called | None = None


class _TrlCall(Part, frozen=True):
    function: _CalledWithObject


class OpenAICall(Part, frozen=True):
    """A call of a tool, its arguments a text."""

    id: Any = None
    function: _Called


CallT = TypeVar("CallT", _Call, _TrlCall, OpenAICall)


class _Message(Part, Generic[CallT], frozen=True):
    role: ChatRole
    content: Any = None
    tool_calls: list[CallT] | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if not (isinstance(self.content, str | list) or (self.content is None and self.role == _ASSISTANT)):
            raise ValueError("content is no text")
        return self


class _OpenAIMessage(_Message[OpenAICall], ClosedPart, frozen=True):
    unchecked = "name"
    role: Literal["system", "user", "assistant", "tool"]
    tool_call_id: Any = None
    refusal: Any = None

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        if self.role == _ASSISTANT and not (self.content or self.tool_calls or self.refusal):
            raise ValueError("it says nothing")
        return self


class _WeightedMessage(_OpenAIMessage, frozen=True):
    weight: Bit = 1


class _NamedTool(Part, frozen=True):
    name: StrictStr


class _Tool(Part, frozen=True):
    type: Literal["function"]
    function: _NamedTool


def _begins_with_assistant(messages: Sequence[_Message[Any]]) -> Any:
    if messages[0].role != _ASSISTANT:
        raise ValueError("it does not begin with the assistant")
    return messages


def _answers_calls(messages: Sequence[_OpenAIMessage]) -> Any:
    calls: set[str] = set()
    for place, message in enumerate(messages):
        if message.role == "tool" and message.tool_call_id not in calls:
            raise ValueError(f"message {place} answers no tool call before it")
        calls |= {str(call.id) for call in message.tool_calls or ()}
    return messages


_Talk = Annotated[list[_Message[_Call]], Field(min_length=1)]
_TrlTalk = Annotated[list[_Message[_TrlCall]], Field(min_length=1)]
_TrlReply = Annotated[_TrlTalk, AfterValidator(_begins_with_assistant)]
_OpenAITalk = Annotated[list[_OpenAIMessage], Field(min_length=1), AfterValidator(_answers_calls)]
_OpenAIReply = Annotated[
    list[_OpenAIMessage], Field(min_length=1, max_length=1), AfterValidator(_begins_with_assistant)
]


# groups


class GroupSequence(ClosedPart, frozen=True):
    """A sequence of messages, with the mask of what the model said, and its tokens where they are known."""

    unchecked = "agent model within output_schema"
    messages: _Talk
    tools: list[_Tool] = []
    message_mask: list[Bit]
    token_ids: list[Whole] | None = None
    token_mask: list[Bit] | None = None
    logprobs: list[ExactNumber | None] | None = None
    step_advantages: list[ExactNumber] | None = None
    token_advantages: list[ExactNumber] | None = None

    @model_validator(mode="after")
    def _check_masks(self) -> Self:
        _check_mask("message_mask", self.message_mask, len(self.messages), "message")
        masked = zip(self.messages, self.message_mask, strict=True)
        if any(said and message.role != _ASSISTANT for message, said in masked):
            raise ValueError("message_mask marks a message that is not the assistant's")
        for name, mask in (("step", self.message_mask), ("token", self.token_mask or [])):
            worth: list[float] | None = getattr(self, f"{name}_advantages")
            beyond = [value for value, said in zip(worth or (), mask, strict=False) if value and not said]
            if worth is not None and (beyond or len(worth) != len(mask)):
                raise ValueError(f"{name}_advantages is not one for each place of its mask, 0 where the mask is 0")
        if self.model_fields_set & {"token_ids", "token_mask", "logprobs"}:
            mask = self.token_mask or []
            if not self.token_ids:
                raise ValueError("token_ids holds no token")
            _check_mask("token_mask", mask, len(self.token_ids), "token")
            if "logprobs" in self.model_fields_set:
                logprobs = self.logprobs or []
                if len(logprobs) != len(mask):
                    found = counted(len(logprobs), "entry", "entries")
                    raise ValueError(f"logprobs has {found}, token_mask {len(mask)}")
                if any((logprob is None) == bool(said) for logprob, said in zip(logprobs, mask, strict=True)):
                    raise ValueError("logprobs is not a number where the mask is 1, and null where the mask is 0")
        return self


def _check_mask(name: str, mask: Sequence[int], length: int, of: str) -> None:
    if len(mask) != length:
        raise ValueError(f"{name} has {counted(len(mask), 'entry', 'entries')} for {counted(length, of)}")
    if 1 not in mask:
        raise ValueError(f"{name} marks no {of}")


class GroupRollout(ClosedPart, frozen=True):
    """A rollout of a group, with its reward."""

    index: Whole
    role: Role
    recipe: StrictStr | None = None
    reward: ExactNumber
    advantage: ExactNumber
    uncertainty: ExactNumber | None = None
    failed: FailureKind | None = None
    files: list[dict[StrictStr, JsonValue]] | None = None
    sequences: Annotated[list[GroupSequence], Field(min_length=1)]


class GroupLine(ClosedPart, frozen=True):
    """A line of `groups`: a query's rollouts."""

    unchecked = "judge"
    query_id: StrictStr
    signal: Signal
    rollouts: Annotated[list[GroupRollout], Field(min_length=2)]

    @model_validator(mode="after")
    def _check_indices(self) -> Self:
        if len({rollout.index for rollout in self.rollouts}) < len(self.rollouts):
            raise ValueError("two rollouts have the same index")
        return self


# TRL


class TrlPreference(ClosedPart, frozen=True):
    """A line of preferences as TRL takes it."""

    prompt: _TrlTalk
    chosen: _TrlReply
    rejected: _TrlReply
    tools: list[_Tool] = []

    @model_validator(mode="after")
    def _check_replies(self) -> Self:
        if self.chosen == self.rejected:
            raise ValueError("chosen and rejected are the same")
        return self


class TrlChat(ClosedPart, frozen=True):
    """A line that is a whole chat."""

    messages: _TrlTalk
    tools: list[_Tool] = []

    @model_validator(mode="after")
    def _check_assistant(self) -> Self:
        if not any(message.role == _ASSISTANT for message in self.messages):
            raise ValueError("messages holds no message of the assistant")
        return self


class TrlCompletion(ClosedPart, frozen=True):
    """A line that is a prompt with its completion."""

    prompt: _TrlTalk
    completion: _TrlReply
    tools: list[_Tool] = []


# OpenAI


class _OpenAIInput(ClosedPart, frozen=True):
    unchecked = "parallel_tool_calls"
    messages: _OpenAITalk
    tools: list[_Tool] = []

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if self.messages[-1].role == _ASSISTANT:
            raise ValueError("messages ends with the assistant")
        return self


class OpenAIPreference(ClosedPart, frozen=True):
    """A line of preferences as OpenAI takes it."""

    input: _OpenAIInput
    preferred_output: _OpenAIReply
    non_preferred_output: _OpenAIReply


class OpenAIExample(ClosedPart, frozen=True):
    """A supervised example as OpenAI takes it."""

    unchecked = "parallel_tool_calls"
    messages: Annotated[list[_WeightedMessage], Field(min_length=1), AfterValidator(_answers_calls)]
    tools: list[_Tool] = []

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if self.messages[-1].role != _ASSISTANT:
            raise ValueError("messages does not end with the assistant")
        if not any(message.weight for message in self.messages if message.role == _ASSISTANT):
            raise ValueError("no message of the assistant has weight 1")
        return self
