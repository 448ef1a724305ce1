"""Which format is made by what: the one list of formats that are lines of JSON of ranked groups."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.formats.sequences import TurnSequence
from harness.formats.training.candidates import Candidate, RankedGroup, rewards_teach
from harness.formats.training.losses import Losses
from harness.formats.training.records import (
    LinesOf,
    TrainingLine,
    dpo_records,
    group_records,
    lost_of,
    openai_preference_records,
    sft_records,
)
from harness.formats.training.rules import ExportFormat, ExportRules
from harness.formats.training.token_fields import TokenCounts
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
    return (*lost_of(sequence), *(_WITHOUT_LOGPROBS for turn in sequence.turns if not _has_logprobs(turn)))


LINES_OF: Mapping[ExportFormat, LinesOf] = {
    "groups": group_records,
    "sft": sft_records,
    "dpo": dpo_records,
    "openai-preference": openai_preference_records,
    "art": art_records,
}
