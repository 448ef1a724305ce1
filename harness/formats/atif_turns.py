"""The steps of an ATIF trajectory as turns: an agent's step is a turn, all before it its context.

This undoes harness/formats/training/atif_steps.py, so that what was exported is exported again as it was.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from harness.core.records import BUILT_LATER
from harness.core.sampled_tokens import SampledTokens
from harness.formats.json_values import JsonObject, object_in, objects_in, text_in
from harness.formats.turns import Message, Tool, Turn

_IDS: TypeAdapter[tuple[int, ...]] = TypeAdapter(tuple[int, ...], config=BUILT_LATER)
_LOGPROBS: TypeAdapter[tuple[float, ...] | None] = TypeAdapter(tuple[float, ...] | None, config=BUILT_LATER)


def turns_of_atif(document: JsonObject) -> tuple[Turn, ...]:
    """Return the turns of a trajectory, those of embedded ones after its own. Raises ValueError."""
    calls = _calls_of_agents([document, *objects_in(document, "subagent_trajectories")])
    turns = _Turns(document, None).turns
    for nested in objects_in(document, "subagent_trajectories"):
        name = str(nested.get("trajectory_id"))
        turns += _Turns(nested, calls.get(name, name)).turns
    return tuple(turns)


def _calls_of_agents(documents: Sequence[JsonObject]) -> Mapping[str, str]:
    """Return, by the name of an embedded trajectory, the id of the tool call that it worked for."""
    return {
        str(ref.get("trajectory_id")): str(result.get("source_call_id"))
        for document in documents
        for step in objects_in(document, "steps")
        for result in objects_in(object_in(step, "observation"), "results")
        for ref in objects_in(result, "subagent_trajectory_ref")
    }


@dataclass
class _Turns:
    """The turns of one trajectory, step by step."""

    document: JsonObject
    within: str | None
    turns: list[Turn] = field(default_factory=list[Turn])
    _system: list[Message] = field(default_factory=list[Message])
    _talk: list[Message] = field(default_factory=list[Message])

    def __post_init__(self) -> None:
        """Read all steps."""
        before = ""
        for step in objects_in(self.document, "steps"):
            kind = "copied" if step.get("is_copied_context") is True else str(step["source"])
            if kind == "copied" and before in {"agent", "system"} and self.turns:
                self._talk = []  # all that was there is told anew
            if kind == "system" and "observation" not in step:
                self._system = [*(self._system if before == "system" else ()), _plain("system", step)]
            elif step["source"] == "agent":
                self._add_agents(step, is_copied=kind == "copied")
            else:
                self._add_users(step)
            before = kind

    def _add_agents(self, step: JsonObject, *, is_copied: bool) -> None:
        said = _said(step)
        if not is_copied:
            self.turns.append(self._turn(step, said))
        self._talk = [*self._talk, said, *_results(step)]

    def _add_users(self, step: JsonObject) -> None:
        observed = _results(step)
        shown = [] if observed and not step.get("message") else [_plain(str(step["source"]), step)]
        self._talk = [*self._talk, *shown, *observed]

    def _turn(self, step: JsonObject, said: Message) -> Turn:
        agent, extra = object_in(self.document, "agent"), object_in(step, "extra")
        return Turn(
            agent=text_in(extra if "agent" in extra else {"agent": agent.get("name")}, "agent"),
            model=text_in(step, "model_name") or text_in(agent, "model_name"),
            context=(*self._system, *self._talk),
            completion=(said,),
            tools=_tools(extra if "tool_definitions" in extra else agent),
            within=self.within,
            tokens=_tokens(object_in(step, "metrics")),
        )


def _tools(parent: JsonObject) -> tuple[Tool, ...]:
    return tuple(dict(tool) for tool in objects_in(parent, "tool_definitions"))


def _plain(role: str, step: JsonObject) -> Message:
    return {"role": role, "content": _content(step.get("message"))}


def _said(step: JsonObject) -> Message:
    calls = [_call(call) for call in objects_in(step, "tool_calls")]
    thought = {"reasoning_content": str(step["reasoning_content"])} if step.get("reasoning_content") else {}
    content = _content(step.get("message"))
    message: Message = {"role": "assistant", "content": None if calls and not content else content, **thought}
    return message | ({"tool_calls": calls} if calls else {})


def _call(call: JsonObject) -> dict[str, Any]:
    text = text_in(object_in(call, "extra"), "arguments")
    arguments = json.dumps(object_in(call, "arguments"), ensure_ascii=False) if text is None else text
    function = {"name": str(call["function_name"]), "arguments": arguments}
    return {"id": str(call["tool_call_id"]), "type": "function", "function": function}


def _results(step: JsonObject) -> list[Message]:
    results = objects_in(object_in(step, "observation"), "results")
    return [
        {"role": "tool", "tool_call_id": str(r.get("source_call_id")), "content": _content(r["content"])}
        for r in results
        if r.get("content") is not None
    ]


def _content(content: JsonValue) -> str | list[dict[str, Any]]:
    if not isinstance(content, list):
        return "" if content is None else str(content)
    return [_part(part) for part in objects_in({"content": content}, "content")]


def _part(part: JsonObject) -> dict[str, Any]:
    match part:
        case {"type": "image", "source": {"path": str(path)}}:
            return {"type": "image_url", "image_url": {"url": path}}
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case _:
            return dict(part)


def _tokens(metrics: JsonObject) -> SampledTokens | None:
    if metrics.get("prompt_token_ids") is None or not metrics.get("completion_token_ids"):
        return None
    try:
        prompt, ids = (_IDS.validate_python(metrics[f"{name}_token_ids"]) for name in ("prompt", "completion"))
        logprobs = _LOGPROBS.validate_python(metrics.get("logprobs"))
    except ValidationError as exc:
        raise ValueError(f"the tokens of a step: {exc.errors()[0]['msg']}") from None
    return SampledTokens(prompt, ids, logprobs if logprobs and len(logprobs) == len(ids) else None)
