"""States: what a rollout's model was about to see, by names that are equal where two rollouts were shown the same.

What sampling alone decides is left out of a request: the ids of calls and items, the spaces around a text and in the
arguments of a call. So is what a workspace of a rollout's own brings into it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from harness.core.records import ModelCall

StateBy = Literal["requests", "tools"]
"""What makes two states one: equal requests; or the same results of tools, in any order and whatever was said."""
_SAYS_NOTHING = frozenset({"id", "status", "provider_data", "logprobs"})
_ASKED_FOR = frozenset({"function_call", "custom_tool_call"})
"""The calls whose results are items of their own; a hosted tool's result is in its call."""
_FIXED = ("instructions", "tools", "handoffs", "output_schema")
SANDBOXES = "harness-sandboxes-"
"""What the folder of a process's workspaces is called, before chance goes on."""
PLACE = re.compile(rf"[^\s\"'`=:;,()\[\]{{}}<>|]*/{SANDBOXES}[a-z0-9_]{{8}}/[0-9a-f]{{8}}")
"""A workspace of a rollout's own."""
_USUAL_ROOT = "/workspace"
_OF_COMMAND = re.compile(r"\AChunk ID: [0-9a-f]{6}\nWall time: [0-9.]+ seconds\n")
"""What the SDK writes before the output of a sandbox's command."""
_LENGTH = 16
"""Hexadecimal digits of a state's name."""


def at_usual_place(text: str, temporary: Sequence[str] = ()) -> str:
    """Return a text of which two workspaces make no difference.

    Each rollout's own workspace has the name that all have elsewhere, its `temporary` folders go by their numbers, and
    a command's output has no random number and no time before it.
    """
    text = PLACE.sub(_USUAL_ROOT, text) if SANDBOXES in text else text
    for number, folder in enumerate(temporary, 1):
        text = re.sub(rf"{re.escape(folder)}(?![\w-])", f"/temporary/{number}", text) if folder in text else text
    return _OF_COMMAND.sub("", text)


def state_names(
    requests: Iterable[Mapping[str, Any]],
    made: Iterable[ModelCall],
    by: StateBy = "requests",
    temporary: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the name of the state before each of a rollout's model calls, in the order in which the calls began.

    `made` tells which calls an agent made that was used as a tool: its states lie within that of the outer call.
    `temporary`: the folders of the rollout's own, as for `at_usual_place`.
    """
    outer = {call.raw: call.within_raw for call in made if call.raw is not None}
    items, names = _Items(temporary), list[str]()
    for at, request in enumerate(requests):
        content = request["input"]
        items.show([content] if isinstance(content, str) else cast("list[Any]", content))
        seen = sorted(items.results) if by == "tools" else [items.fixed(request), items.shown]
        within = outer.get(at)
        names.append(_hash([names[within] if within is not None and within < at else None, seen])[:_LENGTH])
    return tuple(names)


class _Items:
    """The input items of one request after the other, of which each mostly goes on from the one before."""

    def __init__(self, temporary: Sequence[str]) -> None:
        self._temporary = temporary
        self._items: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._tools: dict[str, str] = {}
        self._parts: list[Any] = []
        self._hashed = ""
        self.shown = ""
        """A hash of all items."""
        self.results: list[str] = []
        """Of each result of a tool."""

    def show(self, items: list[Any]) -> None:
        """Take the items of the next request."""
        before = len(self._items)
        if len(items) < before or any(a is not b for a, b in zip(self._items, items, strict=False)):
            before, self._numbers, self._tools, self.shown, self.results = 0, {}, {}, "", []
        for item in items[before:]:
            self._add(item)
        self._items = items

    def _add(self, item: Any) -> None:
        plain = self._plain(item)
        self.shown = _hash([self.shown, plain])
        if isinstance(plain, dict):
            fields = cast("dict[str, Any]", plain)
            kind, call = str(fields.get("type")), str(fields.get("call_id"))
            if kind in _ASKED_FOR:
                self._tools[call] = str(fields.get("name"))
            elif kind.endswith("_call_output"):
                self.results.append(_hash([self._tools.get(call), fields.get("output")]))
            elif kind.endswith("_call"):
                self.results.append(_hash({key: value for key, value in fields.items() if key != "call_id"}))

    def _plain(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            if key == "call_id":
                return self._numbers.setdefault(value, len(self._numbers))
            value = at_usual_place(value, self._temporary)
            return plain_arguments(value) if key == "arguments" else value.strip()
        if isinstance(value, list):
            return [self._plain(each) for each in cast("list[Any]", value)]
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value).items()
            return {k: self._plain(v, k) for k, v in fields if k not in _SAYS_NOTHING and v is not None}
        return value

    def fixed(self, request: Mapping[str, Any]) -> str:
        """Return a hash of all of a request but its items, which mostly stays the same."""
        parts = [request.get(name) for name in _FIXED]
        if not self._parts or any(a is not b for a, b in zip(parts, self._parts, strict=True)):
            text = json.dumps(parts, sort_keys=True, default=str)
            self._parts, self._hashed = parts, _hash(at_usual_place(text, self._temporary))
        return self._hashed


def plain_arguments(text: str) -> str:
    """Return the arguments of a tool call in one form: JSON without the spaces and the order of whoever wrote it."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text.strip()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
