"""A line of `art` read back: a query's trajectories with their rewards, each a chat whose Choices the model said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic import JsonValue

from harness.core.rankings import Signal
from harness.core.records import Role
from harness.core.turns import SampledTokens
from harness.formats.chat_turns import Conversation, masked_runs, offered_tools, plain_message, sampled_tokens
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, text_in
from harness.formats.messages import checked_messages
from harness.formats.training_lines.origins import LineOrigin
from harness.formats.training_lines.talk import bounded, read_of
from harness.formats.turns import Turn

_HISTORY_KEYS = {"messages_and_choices", "tools"}
_KEYS = {*_HISTORY_KEYS, "reward", "metrics", "metadata", "logs", "additional_histories"}
_CHOICE_KEYS = {"finish_reason", "index", "logprobs", "message"}
_MARK = "token_id:"


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
    for place, index in enumerate(_indices(trajectories)):
        try:
            member = _read_member(trajectories[place], of_line, index)
        except ValueError as exc:
            raise ValueError(f"trajectory {place}: {exc}") from None
        query = query or member.query
        yield member.model_copy(
            update={"query": query, "query_id": text_in(first, "query_id"), "unplaced": (*unplaced, *member.unplaced)}
        )


def _indices(trajectories: Sequence[JsonObject]) -> Sequence[int]:
    """Return the numbers of rollouts that an export gave; where any is none, count them."""
    indices = [object_in(trajectory, "metadata").get("index") for trajectory in trajectories]
    whole = [int(str(index)) for index in indices if type(index) is int and 0 <= index < 2**53]
    return whole if len(set(whole)) == len(trajectories) else range(len(trajectories))


def _read_member(trajectory: JsonObject, origin: LineOrigin, index: int) -> ImportedTrajectory:
    metadata, metrics = object_in(trajectory, "metadata"), object_in(trajectory, "metrics")
    reward = bounded(trajectory, "reward")
    if reward is None:
        raise ValueError("`reward` must be a number")
    others = objects_in(trajectory, "additional_histories")
    model = text_in(metadata, "model")
    turns: list[Turn] = []
    for number, other in enumerate(others, 1):
        turns += _turns(other, Conversation(agent=f"additional history {number}", model=model))
    turns += _turns(trajectory, Conversation(agent=text_in(metadata, "agent"), model=model))
    if not turns:
        raise ValueError("it holds no Choice")
    unplaced = [f"the key {key!r} of a trajectory" for key in trajectory if key not in _KEYS]
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
        **read_of(turns),
    )


def _unread(history: JsonObject) -> Iterator[str]:
    """Yield what of Choices no record has a place for."""
    for choice in filter(_is_choice, objects_in(history, "messages_and_choices")):
        yield from (f"the key {key!r} of a Choice" for key in choice if key not in _CHOICE_KEYS)
        if choice["finish_reason"] not in {"stop", "tool_calls"}:
            yield "a finish_reason other than stop and tool_calls"
        if choice.get("logprobs") and _tokens(choice, "") is None:
            yield "logprobs without token ids"


def _is_choice(entry: Mapping[str, JsonValue]) -> bool:
    return "finish_reason" in entry


def _turns(history: JsonObject, conversation: Conversation) -> Iterator[Turn]:
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
        tokens = [_tokens(entry, f"message {number}") for number, entry in enumerate(entries[begin:end], begin + 1)]
        if not any(tokens):
            yield conversation.turn(plain, begin, end)
            continue
        for at, of_choice in enumerate(tokens, begin):
            yield conversation.turn(plain, at, at + 1, of_choice)


def _tokens(choice: JsonObject, where: str) -> SampledTokens | None:
    """Return the sampled tokens of a Choice, whose prompt nobody told; None where it names none. Raises ValueError."""
    content = objects_in(object_in(choice, "logprobs"), "content")
    names = [str(token.get("token")) for token in content]
    if not names or not all(name.startswith(_MARK) for name in names):
        return None
    ids: list[Any] = [int(name.removeprefix(_MARK)) for name in names]
    return sampled_tokens([], ids, [token.get("logprob") for token in content], where)
