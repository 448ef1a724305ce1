"""ATIF, Harbor's Agent Trajectory Interchange Format (ATIF-v1.x, its RFC 0001): one object a trajectory.

Steps are the system's, the user's or the agent's; an agent's step holds its message, reasoning, tool calls and what
they gave (`observation.results`, by `source_call_id`). The first user step is the query, `extra.query_id` its id.

This undoes harness/formats/training/atif_steps.py, so that what was exported is exported again as it was.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from harness.core.errors import quoted
from harness.core.records import BUILT_LATER, Step, Usage
from harness.core.sampled_tokens import SampledTokens
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, text_in
from harness.formats.messages import content_text, function_step, join_texts, steps_without_call
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


def is_atif(document: JsonObject) -> bool:
    """Return whether an object says that it is ATIF."""
    return str(document.get("schema_version", "")).startswith("ATIF-")


def read_atif(document: JsonObject) -> ImportedTrajectory:
    """Read one object. Raises ValueError saying what is wrong with it."""
    version = str(document.get("schema_version"))
    if not version.startswith("ATIF-v1."):
        raise ValueError(f"schema_version is {quoted(version)}; ATIF-v1.x is what is read here")
    steps = _steps(document.get("steps"))
    query_at = _query_index(steps)
    path, answer = _path_and_answer(steps[query_at + 1 :])
    system = [content_text(s.get("message")) for s in steps[:query_at] if s["source"] == "system"]
    times = [datetime.fromisoformat(str(s["timestamp"])) for s in steps if s.get("timestamp")]
    extra, totals = object_in(document, "extra"), _Totals(document, steps)
    return ImportedTrajectory(
        format="atif",
        query=content_text(steps[query_at].get("message")),
        query_id=text_in(extra, "query_id"),
        id=str(document.get("trajectory_id") or document.get("session_id") or "") or None,
        path=path,
        answer=answer,
        reward=number_in(extra, "reward"),
        metadata=_metadata(document),
        instructions="\n\n".join(filter(None, system)) or None,
        tool_names=tuple(dict.fromkeys(s.tool_name for s in path if s.tool_name)),
        models=tuple(dict.fromkeys(_models(document, steps))),
        usage=totals.usage,
        price_usd=totals.sum_of("cost_usd"),
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
        turns=turns_of_atif(document),
    )


def _steps(steps: JsonValue) -> list[JsonObject]:
    if not isinstance(steps, list) or not steps:
        raise ValueError("`steps` must be a list of steps")
    checked: list[JsonObject] = []
    for number, step in enumerate(steps, 1):
        source = step.get("source") if isinstance(step, dict) else None
        if not isinstance(step, dict) or source not in {"system", "user", "agent"}:
            raise ValueError(f"step {number} has the source {quoted(source)}, not system, user or agent")
        checked.append(step)
    return checked


def _query_index(steps: Sequence[JsonObject]) -> int:
    """Return the index of the first user's step with a text, after which an agent's step must follow."""
    for i, step in enumerate(steps):
        if step["source"] == "user" and content_text(step.get("message")).strip():
            if any(later["source"] == "agent" for later in steps[i:]):
                return i
            break
    raise ValueError("there must be a user's step with a message, and an agent's step after it")


def _path_and_answer(steps: Sequence[JsonObject]) -> tuple[tuple[Step, ...], str]:
    """Return the steps after the query and the answer: the message of the last agent's step, if it called nothing."""
    last = max((i for i, s in enumerate(steps) if s["source"] == "agent"), default=-1)
    path: list[Step] = []
    answer = ""
    for at, step in enumerate(steps):
        text, thought = content_text(step.get("message")), content_text(step.get("reasoning_content"))
        if step["source"] != "agent":
            if text:
                path.append(Step(kind="message", reasoning=f"The {step['source']} said: {text}"))
            continue
        tool_steps = _tool_steps(step, join_texts(thought, text))
        path += tool_steps
        if tool_steps:
            continue
        if at == last:
            answer, text = text, ""
        path += steps_without_call(thought, text)
    return tuple(path), answer


def _tool_steps(step: JsonObject, reasoning: str | None) -> list[Step]:
    """Return an agent's step as one step a call; what was observed without a call is a step too."""
    results = objects_in(object_in(step, "observation"), "results")
    steps: list[Step] = []
    for call in objects_in(step, "tool_calls"):
        outputs = [_result_text(r) for r in results if r.get("source_call_id") == call["tool_call_id"]]
        steps.append(
            function_step(
                str(call["function_name"]),
                str(call["tool_call_id"]),
                call.get("arguments"),
                output="\n".join(outputs) if outputs else None,
                reasoning=None if steps else reasoning,
            )
        )
    uncalled = [_result_text(r) for r in results if r.get("source_call_id") is None]
    if uncalled:
        output, before = "\n".join(uncalled), None if steps else reasoning
        steps.append(Step(kind="tool", tool_name="environment", tool_output=output, reasoning=before))
    return steps


def _result_text(result: JsonObject) -> str:
    text = content_text(result.get("content"))
    agents = objects_in(result, "subagent_trajectory_ref")
    if text or not agents:
        return text
    ids = [str(agent.get("trajectory_id") or agent.get("session_id")) for agent in agents]
    return f"(the work of another agent: {', '.join(ids)})"


def _models(document: JsonObject, steps: Sequence[JsonObject]) -> Iterator[str]:
    usual = object_in(document, "agent").get("model_name")
    for step in steps:
        if step["source"] == "agent" and (model := step.get("model_name") or usual):
            yield str(model)


class _Totals:
    """The tokens and the cost: the file's own totals, else the sums of the figures that its steps have."""

    def __init__(self, document: JsonObject, steps: Sequence[JsonObject]) -> None:
        self._total = object_in(document, "final_metrics")
        self._by_step = [object_in(s, "metrics") for s in steps if s["source"] == "agent"]

    def sum_of(self, name: str) -> float | None:
        total = number_in(self._total, f"total_{name}")
        if total is not None:
            return total
        numbers = [number_in(metrics, name) for metrics in self._by_step]
        known = [number for number in numbers if number is not None]
        return sum(known) if known else None

    @property
    def usage(self) -> Usage:
        return Usage(
            requests=len(self._by_step),
            input=self._tokens("prompt_tokens"),
            output=self._tokens("completion_tokens"),
            cached=self._tokens("cached_tokens"),
        )

    def _tokens(self, name: str) -> int | None:
        tokens = self.sum_of(name)
        if tokens is not None and not tokens.is_integer():
            raise ValueError(f"{name}: {tokens} is no whole number of tokens")
        return None if tokens is None else int(tokens)


def _metadata(document: JsonObject) -> JsonObject:
    kept = {name: document[name] for name in ("session_id", "agent", "notes", "extra") if document.get(name)}
    return {"schema_version": document["schema_version"], **kept}
