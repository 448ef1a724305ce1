"""Lines of `groups` and `art` read back: a query's rollouts with their rewards, and the turns of each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic import JsonValue

from harness.core.errors import counted, quoted
from harness.core.rankings import Signal
from harness.core.records import Failure, FailureKind, Role
from harness.core.sampled_tokens import SampledTokens
from harness.formats import chat_turns
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, text_in
from harness.formats.training.line_models import GroupLine, GroupRollout, GroupSequence
from harness.formats.training.origins import ImportedTrajectory, LineOrigin
from harness.formats.turns import Turn

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
    messages = outer[-1].messages
    talk = [message for message in messages if message["role"] not in chat_turns.SYSTEM_ROLES]
    asked = next(
        (i for i, m in enumerate(talk) if m["role"] == "user" and chat_turns.content_text(m.get("content")).strip()),
        None,
    )
    texts = [
        chat_turns.content_text(message.get("content")) for message in (messages if asked is None else [talk[asked]])
    ]
    after = talk if asked is None else talk[asked + 1 :]
    path, answer = chat_turns.steps_of_messages(after if any(m["role"] == "assistant" for m in after) else talk)
    instructions = [
        chat_turns.content_text(m.get("content")) for m in outer[0].context if m["role"] in chat_turns.SYSTEM_ROLES
    ]
    tools = [tool["function"]["name"] for turn in turns for tool in turn.tools]
    return {
        "query": next((text for text in texts if text.strip()), "(no text)"),
        "path": path,
        "answer": answer,
        "instructions": "\n\n".join(instructions) or None,
        "tool_names": tuple(dict.fromkeys(map(str, tools))),
        "models": tuple(dict.fromkeys(turn.model for turn in turns if turn.model)),
        "turns": tuple(turns),
    }


_MOST = 2**53


def read_group(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the rollouts of a group. Raises ValueError saying what is wrong with it."""
    signal, rollouts = document.get("signal"), objects_in(document, "rollouts")
    if signal not in get_args(Signal):
        raise ValueError(f"the signal is {quoted(signal)}, not one of {', '.join(get_args(Signal))}")
    if not rollouts:
        raise ValueError("`rollouts` must be a list of rollouts")
    indices = [index for r in rollouts if type(index := r.get("index")) is int and 0 <= index <= _MOST]
    if len(set(indices)) < len(rollouts):
        raise ValueError("each rollout needs an index of its own, a whole number from 0")
    of_line = replace(origin, signal=signal, judge=text_in(document, "judge"))
    known = {"query_id": text_in(document, "query_id")}
    unplaced = tuple(f"the key {quoted(key)}" for key in document if key not in GroupLine.allowed_keys())
    for index, rollout in zip(indices, rollouts, strict=True):
        try:
            member = _read_member(rollout, of_line, index)
        except ValueError as exc:
            raise ValueError(f"rollout {index}: {exc}") from None
        known.setdefault("query", member.query)
        yield member.model_copy(update={**known, "unplaced": (*unplaced, *member.unplaced)})


def _read_member(rollout: JsonObject, origin: LineOrigin, index: int) -> ImportedTrajectory:
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
        index=index,
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
    messages = chat_turns.checked_messages(sequence.get("messages"))
    said = [int(message["role"] == "assistant") for message in messages]
    mask = _mask(sequence.get("message_mask", [*said]), len(messages), f"{where}: `message_mask`")
    conversation = replace(
        chat_turns.conversation_of(sequence),
        agent=text_in(sequence, "agent"),
        model=text_in(sequence, "model"),
        output_schema=object_in(sequence, "output_schema") or None,
        within=text_in(sequence, "within"),
    )
    plain = chat_turns.plain_messages(messages)
    if 1 not in mask:
        raise ValueError(f"{where}: `message_mask` marks no message")
    if any(marked > is_said for marked, is_said in zip(mask, said, strict=True)):
        raise ValueError(f"{where}: `message_mask` marks a message that is not the assistant's")
    runs = list(chat_turns.masked_runs(mask))
    for (begin, end), tokens in zip(runs, _tokens(sequence, len(runs), where), strict=True):
        yield chat_turns.turn_of(conversation, plain, begin, end, tokens)


def _mask(mask: JsonValue, length: int, what: str) -> list[int]:
    marks = [m for m in mask if type(m) is int and m in {0, 1}] if isinstance(mask, list) else []
    if not isinstance(mask, list) or not len(marks) == len(mask) == length:
        raise ValueError(f"{what} must be a list of {length} numbers, each 0 or 1")
    return marks


def _tokens(sequence: JsonObject, turns: int, where: str) -> Sequence[SampledTokens | None]:
    """Return the tokens of each turn. Raises ValueError."""
    ids, logprobs = sequence.get("token_ids"), sequence.get("logprobs")
    if ids is None:
        return [None] * turns
    if not isinstance(ids, list):
        raise ValueError(f"{where}: `token_ids` must be a list of numbers")  # noqa: TRY004 - a fault of the file
    runs = list(chat_turns.masked_runs(_mask(sequence.get("token_mask"), len(ids), f"{where}: `token_mask`")))
    if len(runs) != turns:
        marked = counted(len(runs), "run")
        raise ValueError(f"{where}: `token_mask` marks {marked} of tokens, `message_mask` {turns} of messages")
    if logprobs is not None and (not isinstance(logprobs, list) or len(logprobs) != len(ids)):
        raise ValueError(f"{where}: `logprobs` must be a list of {len(ids)} numbers")
    tokens: list[SampledTokens] = []
    for begin, end in runs:
        sampled = logprobs[begin:end] if logprobs else []
        known = None if all(logprob is None for logprob in sampled) else sampled
        tokens.append(chat_turns.sampled_tokens(ids[:begin], ids[begin:end], known, where))
    return tokens


_ART_KEYS = set("messages_and_choices tools reward metrics metadata logs additional_histories".split())
_CHOICE_KEYS = {"finish_reason", "index", "logprobs", "message"}
_ID_PREFIX = "token_id:"


def read_art_group(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the rollouts of a group, numbered as an export numbered them, else in their order.

    Raises ValueError saying what is wrong with it.
    """
    trajectories = objects_in(document, "trajectories")
    if not trajectories:
        raise ValueError("`trajectories` must be a list of trajectories")
    metadata = [object_in(trajectory, "metadata") for trajectory in trajectories]
    signal = next((name for name in get_args(Signal) if name == metadata[0].get("signal")), "ok")
    of_line = replace(origin, signal=signal, judge=text_in(metadata[0], "judge"))
    indices = [index for of in metadata if type(index := of.get("index")) is int and 0 <= index < _MOST]
    known = {"query_id": text_in(metadata[0], "query_id")}
    unplaced = tuple(f"the key {key!r}" for key in document if key != "trajectories")
    for place, trajectory in enumerate(trajectories):
        index = indices[place] if len(set(indices)) == len(trajectories) else place
        try:
            member = _read_art_trajectory(trajectory, of_line, index)
        except ValueError as exc:
            raise ValueError(f"trajectory {place}: {exc}") from None
        known.setdefault("query", member.query)
        yield member.model_copy(update={**known, "unplaced": (*unplaced, *member.unplaced)})


def _read_art_trajectory(trajectory: JsonObject, origin: LineOrigin, index: int) -> ImportedTrajectory:
    metadata, metrics = object_in(trajectory, "metadata"), object_in(trajectory, "metrics")
    reward = bounded(trajectory, "reward")
    if reward is None:
        raise ValueError("`reward` must be a number")
    others = objects_in(trajectory, "additional_histories")
    model = text_in(metadata, "model")
    turns: list[Turn] = []
    for number, other in enumerate(others, 1):
        turns += _turns_of_choices(other, f"additional history {number}", model)
    turns += _turns_of_choices(trajectory, text_in(metadata, "agent"), model)
    if not turns:
        raise ValueError("it holds no Choice")
    unplaced = [f"the key {key!r} of a trajectory" for key in trajectory if key not in _ART_KEYS]
    entries = [entry for history in (trajectory, *others) for entry in objects_in(history, "messages_and_choices")]
    for choice in filter(_is_choice, entries):
        unplaced += [f"the key {key!r} of a Choice" for key in choice if key not in _CHOICE_KEYS]
        if choice["finish_reason"] not in {"stop", "tool_calls"}:
            unplaced.append("a finish_reason other than stop and tool_calls")
        if choice.get("logprobs") and _tokens_of_choice(choice, "") is None:
            unplaced.append("logprobs without token ids")
    return ImportedTrajectory(
        format=origin.format,
        index=index,
        role=next((role for role in get_args(Role) if role == metadata.get("role")), "sample"),
        reward=reward,
        uncertainty=bounded(metrics, "uncertainty"),
        price_usd=number_in(metrics, "price_usd"),
        metadata={"art": {name: trajectory[name] for name in ("metrics", "metadata", "logs") if name in trajectory}},
        line=origin,
        unplaced=tuple(unplaced),
        **talk_fields(turns),
    )


def _is_choice(entry: Mapping[str, JsonValue]) -> bool:
    return "finish_reason" in entry


def _turns_of_choices(history: JsonObject, agent: str | None, model: str | None) -> Iterator[Turn]:
    """Yield the turns of a history: a Choice each, but for a run of Choices of which none has tokens."""
    entries = objects_in(history, "messages_and_choices")
    if not any(map(_is_choice, entries)):
        return
    messages = chat_turns.checked_messages([dict(object_in(e, "message") if _is_choice(e) else e) for e in entries])
    conversation, plain = (
        replace(chat_turns.conversation_of(history), agent=agent, model=model),
        chat_turns.plain_messages(messages),
    )
    for begin, end in chat_turns.masked_runs([*map(_is_choice, entries)]):
        if any(message["role"] != "assistant" for message in messages[begin:end]):
            raise ValueError("the message of a Choice is not the assistant's")
        tokens = [_tokens_of_choice(entries[place], f"message {place + 1}") for place in range(begin, end)]
        if not any(tokens):
            yield chat_turns.turn_of(conversation, plain, begin, end)
            continue
        for at, of_choice in enumerate(tokens, begin):
            yield chat_turns.turn_of(conversation, plain, at, at + 1, of_choice)


def _tokens_of_choice(choice: JsonObject, where: str) -> SampledTokens | None:
    """Return the sampled tokens of a Choice, whose prompt nobody told; None where it names none. Raises ValueError."""
    content = objects_in(object_in(choice, "logprobs"), "content")
    names = [str(token.get("token")) for token in content]
    if not names or not all(name.startswith(_ID_PREFIX) for name in names):
        return None
    ids: list[Any] = [int(name.removeprefix(_ID_PREFIX)) for name in names]
    return chat_turns.sampled_tokens([], ids, [token.get("logprob") for token in content], where)
