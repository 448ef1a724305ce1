"""Turns as the steps of an ATIF trajectory: a step a model call, with the results of its tools."""

import mimetypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from harness.formats.json_values import parse_json
from harness.formats.turns import Message, Tool, Turn

AtifStep = dict[str, Any]
_SYSTEM = {"system", "developer"}
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


@dataclass
class AtifSteps:
    """The steps of one agent's turns, in the order in which they were made.

    A turn adds what it was shown after the turn before it. Where it does not go on from that (an input filter, a
    compaction), all that it was shown is added as copied context, which ATIF keeps out of training.
    """

    agent: str | None
    model: str | None
    tools: Sequence[Tool]
    steps: list[AtifStep] = field(default_factory=list[AtifStep])
    lost: list[str] = field(default_factory=list[str])
    """What ATIF has no place for, each thing by its name."""
    _system: list[Message] = field(default_factory=list[Message])
    _shown: list[Message] = field(default_factory=list[Message])
    _step_of_call: dict[str, AtifStep] = field(default_factory=dict[str, AtifStep])

    def add(self, turn: Turn) -> None:
        """Add what a turn was shown since the turn before it, and what the model said."""
        at = next((i for i, m in enumerate(turn.context) if m["role"] not in _SYSTEM), len(turn.context))
        system, talk = list(turn.context[:at]), [_without_reasoning(m) for m in turn.context[at:]]
        if system != self._system:
            self._add_all(system, copied=False)
        goes_on = talk[: len(self._shown)] == self._shown
        shown = len(self._shown) if goes_on else 0
        self._add_all(turn.context[at + shown :], copied=not goes_on)
        self._append(self._said(turn.completion) | self._of_call(turn), turn.completion)
        self._system, self._shown = system, [*talk, *map(_without_reasoning, turn.completion)]

    def result_of(self, call_id: str) -> dict[str, Any] | None:
        """Return the observed result of a tool call, made if there is none yet; None for an unknown call."""
        if not (step := self._step_of_call.get(call_id)):
            return None
        results = step.setdefault("observation", {"results": []})["results"]
        for result in results:
            if result.get("source_call_id") == call_id:
                return result
        results.append({"source_call_id": call_id})
        return results[-1]

    def _add_all(self, messages: Iterable[Message], *, copied: bool) -> None:
        for message in messages:
            if message["role"] == "tool":
                self._observe(message)
            elif message["role"] == "assistant":
                self._append(self._said([message]) | {"is_copied_context": True}, [message])
            else:
                source = "system" if message["role"] in _SYSTEM else "user"
                step = {"source": source, "message": self._content(message.get("content"))}
                self._append(step | ({"is_copied_context": True} if copied else {}), ())

    def _append(self, step: AtifStep, said: Sequence[Message]) -> None:
        step = {"step_id": len(self.steps) + 1} | step
        self.steps.append(step)
        self._step_of_call |= {str(call.get("id")): step for m in said for call in m.get("tool_calls") or ()}

    def _observe(self, message: Message) -> None:
        call_id, content = str(message.get("tool_call_id")), self._content(message.get("content"))
        if result := self.result_of(call_id):
            result["content"] = content
        else:
            self._append({"source": "user", "message": "", "observation": {"results": [{"content": content}]}}, ())

    def _said(self, messages: Sequence[Message]) -> AtifStep:
        """Return what the model said in one call."""
        contents = [content for m in messages if (content := self._content(m.get("content") or m.get("refusal")))]
        step: AtifStep = {"source": "agent", "message": _joined(contents)}
        if thoughts := [str(m["reasoning_content"]) for m in messages if m.get("reasoning_content")]:
            step["reasoning_content"] = "\n".join(thoughts)
        if calls := [_tool_call(call) for m in messages for call in m.get("tool_calls") or ()]:
            step["tool_calls"] = calls
        return step

    def _of_call(self, turn: Turn) -> AtifStep:
        """Return what is known of the call itself."""
        model = {"model_name": turn.model} if turn.model and turn.model != self.model else {}
        others = {"agent": turn.agent} if turn.agent != self.agent else {}
        others |= {"tool_definitions": list(turn.tools)} if list(turn.tools) != list(self.tools) else {}
        extra = {"extra": others} if others else {}
        return {**model, **_metrics(turn), "llm_call_count": 1, **extra}

    def _content(self, content: Any) -> str | list[dict[str, Any]]:
        if not isinstance(content, list):
            return "" if content is None else str(content)
        parts = [(part, _part(part)) for part in cast("list[Any]", content)]
        self.lost += [f"a part of a message ({_kind(part)})" for part, made in parts if made is None]
        return [made for _, made in parts if made is not None] or ""


def _without_reasoning(message: Message) -> Message:
    """Return a message without its reasoning, which a server may not have got back."""
    return {key: value for key, value in message.items() if key != "reasoning_content"}


def _metrics(turn: Turn) -> AtifStep:
    if not (tokens := turn.tokens):
        return {}
    metrics: dict[str, Any] = {
        **({"prompt_tokens": len(tokens.prompt_ids)} if tokens.after_prompt else {}),
        "completion_tokens": len(tokens.ids),
        **({"prompt_token_ids": list(tokens.prompt_ids)} if tokens.after_prompt else {}),
        "completion_token_ids": list(tokens.ids),
    }
    return {"metrics": metrics | ({"logprobs": list(tokens.logprobs)} if tokens.logprobs else {})}


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call; arguments that are no JSON object stand in `extra`, as the text that the model wrote."""
    function = cast("dict[str, Any]", call.get("function") or call.get("custom") or {})
    text = str(function.get("arguments", function.get("input")))
    try:
        arguments = parse_json(text)
    except ValueError:
        arguments = None
    named = {"tool_call_id": str(call.get("id")), "function_name": str(function.get("name"))}
    if isinstance(arguments, dict):
        return named | {"arguments": arguments}
    return named | {"arguments": {}, "extra": {"arguments": text}}


def _joined(contents: Sequence[str | list[dict[str, Any]]]) -> str | list[dict[str, Any]]:
    if all(isinstance(content, str) for content in contents):
        return "\n".join(map(str, contents))
    texts = [[{"type": "text", "text": content}] if isinstance(content, str) else content for content in contents]
    return [part for parts in texts for part in parts]


def _part(part: Any) -> dict[str, Any] | None:
    """Return a part of a content as ATIF has it; None for one that it has no place for."""
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            kind = url[5:].split(";")[0].split(",")[0] if url.startswith("data:") else mimetypes.guess_type(url)[0]
            return {"type": "image", "source": {"media_type": kind, "path": url}} if kind in _IMAGES else None
        case _:
            return None


def _kind(part: Any) -> str:
    return str(cast("dict[str, Any]", part).get("type")) if isinstance(part, dict) else type(part).__name__
