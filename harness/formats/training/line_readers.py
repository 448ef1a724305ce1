"""Lines of `groups` and `art` read back: a query's rollouts with their rewards, and the turns of each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.core.rankings import Signal
from harness.core.records import Failure, FailureKind, Role, Step
from harness.core.sampled_tokens import SampledTokens
from harness.core.wording import counted
from harness.formats.chat_turns import Conversation, masked_runs, offered_tools, plain_message, sampled_tokens
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, text_in
from harness.formats.messages import checked_messages, content_text, steps_of_messages
from harness.formats.training.line_models import GroupLine, GroupRollout, GroupSequence
from harness.formats.training.origins import LineOrigin
from harness.formats.turns import Message, Turn

_SYSTEM = {"system", "developer"}
_HIGHEST = 1e6
"""No reward of ours is greater, and no archive takes one."""


def bounded(parent: JsonObject, name: str) -> float | None:
    """Return a number that an archive takes; None where there is none. Raises ValueError."""
    number = number_in(parent, name)
    if number is not None and not (math.isfinite(number) and abs(number) <= _HIGHEST):
        raise ValueError(f"`{name}` is {number:g}; at most {_HIGHEST:g} is taken")
    return number


def talk_fields(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the fields of an ImportedTrajectory that turns tell. Raises ValueError."""
    outer = [turn for turn in turns if turn.within is None] or list(turns)
    query, path, answer = _judged(outer[-1].messages)
    instructions = [content_text(m.get("content")) for m in outer[0].context if m["role"] in _SYSTEM]
    tools = [tool["function"]["name"] for turn in turns for tool in turn.tools]
    return {
        "query": query,
        "path": path,
        "answer": answer,
        "instructions": "\n\n".join(instructions) or None,
        "tool_names": tuple(dict.fromkeys(map(str, tools))),
        "models": tuple(dict.fromkeys(turn.model for turn in turns if turn.model)),
        "turns": tuple(turns),
    }


def _judged(messages: Sequence[Message]) -> tuple[str, tuple[Step, ...], str]:
    """Return the first text of a user's, and the steps and the answer after it."""
    talk = [message for message in messages if message["role"] not in _SYSTEM]
    asked = next((at for at, m in enumerate(talk) if m["role"] == "user" and _text(m)), None)
    texts = [_text(talk[asked])] if asked is not None else [text for m in messages if (text := _text(m))]
    after = talk[asked + 1 :] if asked is not None else talk
    if not any(message["role"] == "assistant" for message in after):
        after = talk
    path, answer = steps_of_messages(after)
    return (texts or ["(no text)"])[0], path, answer


def _text(message: Message) -> str:
    return content_text(message.get("content")).strip() and content_text(message.get("content"))


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
    unplaced = tuple(f"the key {quoted(key)}" for key in document if key not in GroupLine.allowed_keys())
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
    unplaced = [f"the key {quoted(key)} of a rollout" for key in rollout if key not in GroupRollout.allowed_keys()]
    for number, sequence in enumerate(objects_in(rollout, "sequences"), 1):
        turns += _turns(sequence, f"sequence {number}")
        strange = (key for key in sequence if key not in GroupSequence.allowed_keys())
        unplaced += [f"the key {quoted(key)} of a sequence" for key in strange]
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
        **talk_fields(turns),
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


_HISTORY_KEYS = {"messages_and_choices", "tools"}
_ART_KEYS = {*_HISTORY_KEYS, "reward", "metrics", "metadata", "logs", "additional_histories"}
_CHOICE_KEYS = {"finish_reason", "index", "logprobs", "message"}
_ID_PREFIX = "token_id:"


def is_art_group(document: JsonObject) -> bool:
    """Return whether an object is a group of ART's trajectories."""
    return "trajectories" in document


def read_art_group(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the rollouts of a group. Raises ValueError saying what is wrong with it."""
    trajectories = objects_in(document, "trajectories")
    if not trajectories:
        raise ValueError("`trajectories` must be a list of trajectories")
    first = object_in(trajectories[0], "metadata")
    signal = next((name for name in get_args(Signal) if name == first.get("signal")), "ok")
    of_line = replace(origin, signal=signal, judge=text_in(first, "judge"))
    unplaced = tuple(f"the key {key!r}" for key in document if key != "trajectories")
    query: str | None = None
    for place, index in enumerate(_indices_in_art(trajectories)):
        try:
            member = _read_art_trajectory(trajectories[place], of_line, index)
        except ValueError as exc:
            raise ValueError(f"trajectory {place}: {exc}") from None
        query = query or member.query
        yield member.model_copy(
            update={"query": query, "query_id": text_in(first, "query_id"), "unplaced": (*unplaced, *member.unplaced)}
        )


def _indices_in_art(trajectories: Sequence[JsonObject]) -> Sequence[int]:
    """Return the numbers of rollouts that an export gave; where any is none, count them."""
    indices = [object_in(trajectory, "metadata").get("index") for trajectory in trajectories]
    whole = [int(str(index)) for index in indices if type(index) is int and 0 <= index < 2**53]
    return whole if len(set(whole)) == len(trajectories) else range(len(trajectories))


def _read_art_trajectory(trajectory: JsonObject, origin: LineOrigin, index: int) -> ImportedTrajectory:
    metadata, metrics = object_in(trajectory, "metadata"), object_in(trajectory, "metrics")
    reward = bounded(trajectory, "reward")
    if reward is None:
        raise ValueError("`reward` must be a number")
    others = objects_in(trajectory, "additional_histories")
    model = text_in(metadata, "model")
    turns: list[Turn] = []
    for number, other in enumerate(others, 1):
        turns += _turns_of_choices(other, Conversation(agent=f"additional history {number}", model=model))
    turns += _turns_of_choices(trajectory, Conversation(agent=text_in(metadata, "agent"), model=model))
    if not turns:
        raise ValueError("it holds no Choice")
    unplaced = [f"the key {key!r} of a trajectory" for key in trajectory if key not in _ART_KEYS]
    return ImportedTrajectory(
        format=origin.format,
        index=index,
        role=next((role for role in get_args(Role) if role == metadata.get("role")), "sample"),
        reward=reward,
        uncertainty=bounded(metrics, "uncertainty"),
        price_usd=number_in(metrics, "price_usd"),
        metadata={"art": {name: trajectory[name] for name in ("metrics", "metadata", "logs") if name in trajectory}},
        line=origin,
        unplaced=(*unplaced, *(name for history in (trajectory, *others) for name in _unread(history))),
        **talk_fields(turns),
    )


def _unread(history: JsonObject) -> Iterator[str]:
    """Yield what of Choices no record has a place for."""
    for choice in filter(_is_choice, objects_in(history, "messages_and_choices")):
        yield from (f"the key {key!r} of a Choice" for key in choice if key not in _CHOICE_KEYS)
        if choice["finish_reason"] not in {"stop", "tool_calls"}:
            yield "a finish_reason other than stop and tool_calls"
        if choice.get("logprobs") and _tokens_of_choice(choice, "") is None:
            yield "logprobs without token ids"


def _is_choice(entry: Mapping[str, JsonValue]) -> bool:
    return "finish_reason" in entry


def _turns_of_choices(history: JsonObject, conversation: Conversation) -> Iterator[Turn]:
    """Yield the turns of a history: a Choice each, but for a run of Choices of which none has tokens."""
    entries = objects_in(history, "messages_and_choices")
    if not any(map(_is_choice, entries)):
        return
    messages = checked_messages([dict(object_in(e, "message") if _is_choice(e) else e) for e in entries])
    tools, hosted = offered_tools(history)
    conversation = replace(conversation, tools=tools, hosted=hosted)
    plain = [plain_message(message, number) for number, message in enumerate(messages, 1)]
    for begin, end in masked_runs([*map(_is_choice, entries)]):
        if any(message["role"] != "assistant" for message in messages[begin:end]):
            raise ValueError("the message of a Choice is not the assistant's")
        tokens = [
            _tokens_of_choice(entry, f"message {number}") for number, entry in enumerate(entries[begin:end], begin + 1)
        ]
        if not any(tokens):
            yield conversation.turn(plain, begin, end)
            continue
        for at, of_choice in enumerate(tokens, begin):
            yield conversation.turn(plain, at, at + 1, of_choice)


def _tokens_of_choice(choice: JsonObject, where: str) -> SampledTokens | None:
    """Return the sampled tokens of a Choice, whose prompt nobody told; None where it names none. Raises ValueError."""
    content = objects_in(object_in(choice, "logprobs"), "content")
    names = [str(token.get("token")) for token in content]
    if not names or not all(name.startswith(_ID_PREFIX) for name in names):
        return None
    ids: list[Any] = [int(name.removeprefix(_ID_PREFIX)) for name in names]
    return sampled_tokens([], ids, [token.get("logprob") for token in content], where)
