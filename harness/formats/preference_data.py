"""Preference data as others keep it: a prompt, the chosen and the rejected answer, as texts or as chat messages."""

from collections.abc import Mapping
from typing import Any, cast

_QUERY_KEYS = ("query", "prompt", "question", "input", "instruction")


def is_preference(entry: Mapping[str, Any]) -> bool:
    """Whether an entry tells a chosen from a rejected answer, and names no sides."""
    return {"chosen", "rejected"} <= entry.keys() and not entry.keys() & {"a", "b", "label"}


def as_labelled(entry: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a preference with its sides named. Raises ValueError.

    The chosen answer is `a` in the odd lines and `b` in the even ones: a judge that always names one side is seen.
    """
    asked = [entry.get(key) for key in _QUERY_KEYS]
    asked += [entry["chosen"]] if isinstance(entry["chosen"], list) else []  # a whole conversation
    query = next((text for each in asked if (text := _asked(each))), None)
    if query is None:
        raise ValueError(f"no query under {' or '.join(_QUERY_KEYS)}")
    chosen, rejected = (_answer(name, entry[name]) for name in ("chosen", "rejected"))
    sides = {"a": chosen, "b": rejected} if number % 2 else {"a": rejected, "b": chosen}
    return {"query": query, **sides, "label": "a" if number % 2 else "b", "class": entry.get("class") or "chosen"}


def _asked(value: Any) -> str | None:
    """Return a query: a text, or of chat messages the user's last one."""
    if isinstance(value, list):
        return _last(cast("list[Any]", value), "user")
    return value if isinstance(value, str) and value.strip() else None


def _answer(name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    answer = _last(cast("list[Any]", value), "assistant")
    if answer is None:
        raise ValueError(f"{name}: its messages end with no text of the assistant's")
    return answer


def _last(messages: list[Any], role: str) -> str | None:
    for message in reversed(messages):
        if isinstance(message, dict):
            of_message = cast("dict[str, Any]", message)
            if of_message.get("role") == role and isinstance(of_message.get("content"), str):
                return of_message["content"]
    return None
