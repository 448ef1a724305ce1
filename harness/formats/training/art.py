"""ART's groups of trajectories: what makes the lines, and what ART takes of one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StrictStr, Tag, model_validator

from harness.formats.training.candidates import Candidate, Losses, RankedGroup, rewards_teach
from harness.formats.training.line_models import ChatRole, ClosedPart, ExactNumber, OpenAICall, Part
from harness.formats.training.records import TrainingLine, tools_of, unplaced_parts
from harness.formats.training.rules import ExportRules
from harness.formats.turns import Message, TokenCounts, Turn, TurnSequence

_WITHOUT_LOGPROBS = "logprobs of a reply, which are not recorded: ART trains no Choice without them"


def art_records(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[TrainingLine]:
    """Yield a group as one line, with rewards: ART standardizes them over the group itself."""
    if rewards_teach(choices, rules, losses):
        members = sorted(choices, key=lambda candidate: candidate.index)
        record = {"trajectories": [_trajectory(group, member) for member in members]}
        sequences = [sequence for member in members for sequence in member.sequences]
        lost: list[str] = []
        for sequence in sequences:
            lost += unplaced_parts(sequence)
            lost += (_WITHOUT_LOGPROBS for turn in sequence.turns if not _logprobs(turn))
        indices = tuple(member.index for member in members)
        yield TrainingLine(record, indices, tuple(lost), tokens=TokenCounts.of(sequences))


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
    return {"messages_and_choices": entries, **tools_of(sequence)}


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
