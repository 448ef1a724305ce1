"""A line of `groups` read back: a query's rollouts with their rewards, advantages and sequences of messages."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.core.rankings import Signal
from harness.core.records import Failure, FailureKind, Role
from harness.core.turns import SampledTokens
from harness.core.wording import counted
from harness.formats.chat_turns import Conversation, masked_runs, offered_tools, plain_message, sampled_tokens
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, object_in, objects_in, text_in
from harness.formats.messages import checked_messages
from harness.formats.training.group_rules import GROUP_KEYS, ROLLOUT_KEYS, SEQUENCE_KEYS
from harness.formats.training_lines.origins import LineOrigin
from harness.formats.training_lines.talk import bounded, read_of
from harness.formats.turns import Turn

_MOST = 2**53


def is_group(document: JsonObject) -> bool:
    """Return whether an object is a group of rollouts."""
    return "rollouts" in document


def read_group(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the rollouts of a group. Raises ValueError saying what is wrong with it."""
    signal, rollouts = document.get("signal"), objects_in(document, "rollouts")
    if signal not in get_args(Signal):
        raise ValueError(f"the signal is {quoted(signal)}, not one of {', '.join(get_args(Signal))}")
    if not rollouts:
        raise ValueError("`rollouts` must be a list of rollouts")
    indices = [rollout.get("index") for rollout in rollouts]
    if not all(type(index) is int and 0 <= index <= _MOST for index in indices) or len(set(map(str, indices))) < len(
        indices
    ):
        raise ValueError("each rollout needs an index of its own, a whole number from 0")
    of_line = replace(origin, signal=signal, judge=text_in(document, "judge"))
    query_id = text_in(document, "query_id")
    unplaced = tuple(f"the key {quoted(key)}" for key in document if key not in GROUP_KEYS)
    members = [_member(rollout, of_line, query_id) for rollout in rollouts]
    query = members[0].query
    for member in members:
        yield member.model_copy(update={"query": query, "unplaced": (*unplaced, *member.unplaced)})


def _member(rollout: JsonObject, origin: LineOrigin, query_id: str | None) -> ImportedTrajectory:
    where = f"rollout {rollout['index']}"
    try:
        return _read_member(rollout, origin, query_id)
    except ValueError as exc:
        raise ValueError(f"{where}: {exc}") from None


def _read_member(rollout: JsonObject, origin: LineOrigin, query_id: str | None) -> ImportedTrajectory:
    role: Any = rollout.get("role", "sample")
    failed = rollout.get("failed")
    if role not in get_args(Role):
        raise ValueError(f"the role is {quoted(role)}, not one of {', '.join(get_args(Role))}")
    if failed is not None and failed not in get_args(FailureKind):
        raise ValueError(f"`failed` is {quoted(failed)}, no kind of failure")
    turns: list[Turn] = []
    unplaced = [f"the key {quoted(key)} of a rollout" for key in rollout if key not in ROLLOUT_KEYS]
    for number, sequence in enumerate(objects_in(rollout, "sequences"), 1):
        turns += _turns(sequence, f"sequence {number}")
        unplaced += [f"the key {quoted(key)} of a sequence" for key in sequence if key not in SEQUENCE_KEYS]
    if not turns:
        raise ValueError("`sequences` must be a list of sequences")
    failure = {"kind": failed, "type": "Imported", "message": "it failed where it was made"} if failed else None
    return ImportedTrajectory(
        format=origin.format,
        query_id=query_id,
        index=int(str(rollout["index"])),
        role=role,
        reward=bounded(rollout, "reward"),
        advantage=bounded(rollout, "advantage"),
        uncertainty=bounded(rollout, "uncertainty"),
        failure=Failure.model_validate(failure) if failure else None,
        line=origin,
        unplaced=tuple(unplaced),
        **read_of(turns),
    )


def _turns(sequence: JsonObject, where: str) -> Iterator[Turn]:
    """Yield the turns of a sequence: one for each run of messages that its mask marks. Raises ValueError."""
    messages = checked_messages(sequence.get("messages"))
    mask: Any = sequence.get("message_mask", [int(message["role"] == "assistant") for message in messages])
    _check_mask(mask, len(messages), f"{where}: `message_mask`")
    tools, hosted = offered_tools(sequence)
    shared = Conversation(
        agent=text_in(sequence, "agent"),
        model=text_in(sequence, "model"),
        tools=tools,
        hosted=hosted,
        output_schema=object_in(sequence, "output_schema") or None,
        within=text_in(sequence, "within"),
    )
    plain = [plain_message(message, number) for number, message in enumerate(messages, 1)]
    runs = list(masked_runs(mask))
    if not runs:
        raise ValueError(f"{where}: `message_mask` marks no message")
    if any(message["role"] != "assistant" for begin, end in runs for message in messages[begin:end]):
        raise ValueError(f"{where}: `message_mask` marks a message that is not the assistant's")
    tokens = _tokens(sequence, len(runs), where)
    for (begin, end), of_turn in zip(runs, tokens, strict=True):
        yield shared.turn(plain, begin, end, of_turn)


def _check_mask(mask: JsonValue, length: int, what: str) -> None:
    if not isinstance(mask, list) or len(mask) != length or any(type(m) is not int or m not in {0, 1} for m in mask):
        raise ValueError(f"{what} must be a list of {length} numbers, each 0 or 1")


def _tokens(sequence: JsonObject, turns: int, where: str) -> Sequence[SampledTokens | None]:
    """Return the tokens of each turn. Raises ValueError."""
    ids, mask, logprobs = (sequence.get(name) for name in ("token_ids", "token_mask", "logprobs"))
    if ids is None:
        return [None] * turns
    if not isinstance(ids, list):
        raise ValueError(f"{where}: `token_ids` must be a list of numbers")  # noqa: TRY004 - a fault of the file
    _check_mask(mask, len(ids), f"{where}: `token_mask`")
    runs = list(masked_runs(mask if isinstance(mask, list) else []))
    if len(runs) != turns:
        marked = counted(len(runs), "run")
        raise ValueError(f"{where}: `token_mask` marks {marked} of tokens, `message_mask` {turns} of messages")
    if logprobs is not None and (not isinstance(logprobs, list) or len(logprobs) != len(ids)):
        raise ValueError(f"{where}: `logprobs` must be a list of {len(ids)} numbers")
    return [_of_run(ids, logprobs, begin, end, where) for begin, end in runs]


def _of_run(ids: list[Any], logprobs: list[Any] | None, begin: int, end: int, where: str) -> SampledTokens:
    sampled = logprobs[begin:end] if logprobs else None
    if sampled and all(logprob is None for logprob in sampled):
        sampled = None
    return sampled_tokens(ids[:begin], ids[begin:end], sampled, where)
