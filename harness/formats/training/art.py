"""ART's groups of trajectories: what makes the lines, and what ART takes of one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StrictStr, Tag, model_validator

from harness.formats.sequences import TokenCounts, TurnSequence
from harness.formats.training.candidates import Candidate, Losses, RankedGroup, rewards_teach
from harness.formats.training.line_models import ChatRole, ClosedPart, ExactNumber, OpenAICall, Part
from harness.formats.training.records import TrainingLine, unplaced_parts
from harness.formats.training.rules import ExportRules
from harness.formats.turns import Message, Turn

_WITHOUT_LOGPROBS = "logprobs of a reply, which are not recorded: ART trains no Choice without them"


def art_records(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[TrainingLine]:
    """Yield a group as one line, with rewards: ART standardizes them over the group itself."""
    if rewards_teach(choices, rules, losses):
        members = sorted(choices, key=lambda candidate: candidate.index)
        record = {"trajectories": [_trajectory(group, member) for member in members]}
        sequences = [sequence for member in members for sequence in member.sequences]
        lost = tuple(name for sequence in sequences for name in _lost(sequence))
        indices = tuple(member.index for member in members)
        yield TrainingLine(record, indices, lost, tokens=TokenCounts.of(sequences))


def _trajectory(group: RankedGroup, member: Candidate) -> dict[str, Any]:
    """Return a rollout: the sequence that ends in the answer, and the others beside it."""
    others = [_history(sequence) for sequence in member.sequences if sequence is not member.final]
    return {
        **_history(member.final),
        "reward": member.place.reward,
        **(_as_they_came(group, member) or _notes(group, member)),
        **({"additional_histories": others} if others else {}),
    }


def _as_they_came(group: RankedGroup, member: Candidate) -> Mapping[str, Any] | None:
    """Return the metrics, metadata and logs of an imported trajectory that nobody has judged anew."""
    kept = member.rollout.metadata.get("art")
    is_imported = group.ranked.origin == member.rollout.origin == "art"
    return kept if is_imported and isinstance(kept, Mapping) else None


def _notes(group: RankedGroup, member: Candidate) -> Mapping[str, Any]:
    metadata = {
        "query_id": group.group.query.exported_id,
        "run": group.run,
        "index": member.index,
        "role": member.rollout.role,
        "signal": group.ranked.signal,
        "judge": group.judge,
        "agent": member.final.agent,
        "model": member.final.model,
    }
    return {"metrics": _figures(member), "metadata": metadata, "logs": []}


def _figures(member: Candidate) -> Mapping[str, float]:
    place, rollout = member.place, member.rollout
    figures = {
        "rank": place.rank,
        "uncertainty": place.uncertainty,
        "verified": rollout.verified,
        "price_usd": rollout.price_usd,
        "duration_s": rollout.duration_s,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _history(sequence: TurnSequence) -> dict[str, Any]:
    said = {len(turn.context): turn for turn in sequence.turns}
    entries: list[Message] = []
    masked = zip(sequence.messages, sequence.message_mask, strict=True)
    for place, (message, mask) in enumerate(masked):
        entries.append(_choice(message, said.get(place)) if mask else message)
    tools = {"tools": list(sequence.tools)} if sequence.tools else {}
    return {"messages_and_choices": entries, **tools}


def _choice(message: Message, turn: Turn | None) -> dict[str, Any]:
    """Return a message of the model as a Choice, which ART trains on where it has logprobs."""
    ends = "tool_calls" if message.get("tool_calls") else "stop"
    return {"finish_reason": ends, "index": 0, "logprobs": _logprobs(turn), "message": message}


def _logprobs(turn: Turn | None) -> dict[str, Any] | None:
    """Return the tokens of a turn as ART reads ids: as the text `token_id:N`."""
    if not _has_logprobs(turn):
        return None
    tokens = turn.tokens if turn else None
    pairs = zip(tokens.ids, tokens.logprobs, strict=True) if tokens and tokens.logprobs else ()
    return {
        "content": [
            {"token": f"token_id:{token}", "bytes": None, "logprob": logprob, "top_logprobs": []}
            for token, logprob in pairs
        ],
        "refusal": None,
    }


def _has_logprobs(turn: Turn | None) -> bool:
    """Return whether the tokens of a turn are those of one message."""
    return turn is not None and len(turn.completion) == 1 and turn.tokens is not None and bool(turn.tokens.logprobs)


def _lost(sequence: TurnSequence) -> tuple[str, ...]:
    return (*unplaced_parts(sequence), *(_WITHOUT_LOGPROBS for turn in sequence.turns if not _has_logprobs(turn)))


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


def _kind_of_entry(entry: Any) -> str:
    return "Choice" if "finish_reason" in (entry if isinstance(entry, Mapping) else ()) else "message"


_Entry = Annotated[
    Annotated[_Choice, Tag("Choice")] | Annotated[_ArtMessage, Tag("message")], Discriminator(_kind_of_entry)
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
