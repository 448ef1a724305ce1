"""What a line must hold for ART's TrajectoryGroup (openpipe-art 0.5.18: art/trajectories.py, art/types.py)."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.formats.training.checks import fields_of, is_number, list_of

_HISTORY = {"messages_and_choices", "tools"}
_TRAJECTORY = _HISTORY | {"reward", "metrics", "metadata", "logs", "additional_histories"}
_ROLES = {"system", "developer", "user", "assistant", "tool"}
_SCALAR = (str, int, float, bool)


def faults_of_art_group(record: Any) -> Iterator[str]:
    """Yield what is wrong with a group."""
    trajectories = list_of(fields_of(record).get("trajectories"))
    if len(trajectories) < 2:
        yield "a group needs two trajectories"
    for place, trajectory in enumerate(map(fields_of, trajectories)):
        yield from _trajectory(trajectory, f"trajectories[{place}]")


def _trajectory(trajectory: Mapping[str, Any], where: str) -> Iterator[str]:
    if strange := sorted(set(trajectory) - _TRAJECTORY):
        yield f"{where} has other keys: {', '.join(strange)}"
    if not is_number(trajectory.get("reward")):
        yield f"{where}: reward is no number"
    if not all(map(is_number, fields_of(trajectory.get("metrics")).values())):
        yield f"{where}: a metric is no number"
    if not all(value is None or isinstance(value, _SCALAR) for value in fields_of(trajectory.get("metadata")).values()):
        yield f"{where}: a value of metadata is neither a text nor a number"
    yield from _history(trajectory, where)
    for place, history in enumerate(map(fields_of, list_of(trajectory.get("additional_histories")))):
        yield from _history(history, f"{where}.additional_histories[{place}]")


def _history(history: Mapping[str, Any], where: str) -> Iterator[str]:
    entries = [fields_of(entry) for entry in list_of(history.get("messages_and_choices"))]
    if not any("finish_reason" in entry for entry in entries):
        yield f"{where} holds no Choice to train on"
    for place, entry in enumerate(entries):
        yield from _entry(entry, f"{where}.messages_and_choices[{place}]")


def _entry(entry: Mapping[str, Any], where: str) -> Iterator[str]:
    if "finish_reason" not in entry:
        if entry.get("role") not in _ROLES:
            yield f"{where}: role is {entry.get('role')!r}"
        return
    message = fields_of(entry.get("message"))
    if message.get("role") != "assistant" or not isinstance(message.get("content"), str | None):
        yield f"{where}: the message of a Choice is one of the assistant, with a text or none"
    for call in map(fields_of, list_of(message.get("tool_calls"))):
        function = fields_of(call.get("function"))
        if not isinstance(function.get("name"), str) or not isinstance(function.get("arguments"), str):
            yield f"{where}: a tool call needs a name, and arguments as a text"
    for token in map(fields_of, list_of(fields_of(entry.get("logprobs")).get("content"))):
        if not str(token.get("token")).startswith("token_id:") or not is_number(token.get("logprob")):
            yield f"{where}: a token is no `token_id:N` with a logprob"
            return
