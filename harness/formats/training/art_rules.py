"""What a line must hold for ART's TrajectoryGroup (openpipe-art 0.5.18: art/trajectories.py, art/types.py)."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

_HISTORY = {"messages_and_choices", "tools"}
_TRAJECTORY = _HISTORY | {"reward", "metrics", "metadata", "logs", "additional_histories"}
_ROLES = {"system", "developer", "user", "assistant", "tool"}
_SCALAR = (str, int, float, bool)


def faults_of_art_group(record: Any) -> Iterator[str]:
    """Yield what is wrong with a group."""
    trajectories = _list(_fields(record).get("trajectories"))
    if len(trajectories) < 2:
        yield "a group needs two trajectories"
    for place, trajectory in enumerate(map(_fields, trajectories)):
        yield from _trajectory(trajectory, f"trajectories[{place}]")


def _trajectory(trajectory: Mapping[str, Any], where: str) -> Iterator[str]:
    if strange := sorted(set(trajectory) - _TRAJECTORY):
        yield f"{where} has other keys: {', '.join(strange)}"
    if not _is_number(trajectory.get("reward")):
        yield f"{where}: reward is no number"
    if not all(map(_is_number, _fields(trajectory.get("metrics")).values())):
        yield f"{where}: a metric is no number"
    if not all(value is None or isinstance(value, _SCALAR) for value in _fields(trajectory.get("metadata")).values()):
        yield f"{where}: a value of metadata is neither a text nor a number"
    yield from _history(trajectory, where)
    for place, history in enumerate(map(_fields, _list(trajectory.get("additional_histories")))):
        yield from _history(history, f"{where}.additional_histories[{place}]")


def _history(history: Mapping[str, Any], where: str) -> Iterator[str]:
    entries = [_fields(entry) for entry in _list(history.get("messages_and_choices"))]
    if not any("finish_reason" in entry for entry in entries):
        yield f"{where} holds no Choice to train on"
    for place, entry in enumerate(entries):
        yield from _entry(entry, f"{where}.messages_and_choices[{place}]")


def _entry(entry: Mapping[str, Any], where: str) -> Iterator[str]:
    if "finish_reason" not in entry:
        if entry.get("role") not in _ROLES:
            yield f"{where}: role is {entry.get('role')!r}"
        return
    message = _fields(entry.get("message"))
    if message.get("role") != "assistant" or not isinstance(message.get("content"), str | None):
        yield f"{where}: the message of a Choice is one of the assistant, with a text or none"
    for call in map(_fields, _list(message.get("tool_calls"))):
        function = _fields(call.get("function"))
        if not isinstance(function.get("name"), str) or not isinstance(function.get("arguments"), str):
            yield f"{where}: a tool call needs a name, and arguments as a text"
    for token in map(_fields, _list(_fields(entry.get("logprobs")).get("content"))):
        if not str(token.get("token")).startswith("token_id:") or not _is_number(token.get("logprob")):
            yield f"{where}: a token is no `token_id:N` with a logprob"
            return


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _fields(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
