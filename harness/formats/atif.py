"""ATIF, Harbor's Agent Trajectory Interchange Format (ATIF-v1.x, its RFC 0001): one object a trajectory.

Steps are the system's, the user's or the agent's; an agent's step holds its message, reasoning, tool calls and what
they gave (`observation.results`, by `source_call_id`). The first user step is the query, `extra.query_id` its id.

This undoes harness/formats/training/atif_trajectory.py, so that what was exported is exported again as it was.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from harness.core.errors import quoted
from harness.core.records import Step, Usage
from harness.core.sampled_tokens import SampledTokens
from harness.formats.chat_turns import content_text, function_step, join_texts, sampled_tokens, steps_without_call
from harness.formats.foreign_chats import left_names
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, objects_of_kinds, text_in
from harness.formats.training.origins import ImportedTrajectory
from harness.formats.turns import Message, Turn


def turns_of_atif(document: JsonObject) -> tuple[Turn, ...]:
    """Return the turns of a trajectory, those of embedded ones after its own. Raises ValueError."""
    embedded = objects_in(document, "subagent_trajectories")
    calls = {  # by the name of an embedded trajectory, the id of the tool call that it worked for
        str(ref.get("trajectory_id")): str(result.get("source_call_id"))
        for trajectory in (document, *embedded)
        for step in objects_in(trajectory, "steps")
        for result in _results(step)
        for ref in objects_in(result, "subagent_trajectory_ref")
    }
    turns = _turns(document, None)
    for trajectory in embedded:
        name = str(trajectory.get("trajectory_id"))
        turns += _turns(trajectory, calls.get(name, name))
    return tuple(turns)


def _turns(document: JsonObject, within: str | None) -> list[Turn]:
    """Return the turns of one trajectory, step by step."""
    agent, turns = object_in(document, "agent"), list[Turn]()
    system: list[Message] = []
    talk: list[Message] = []
    before = ""
    for step in objects_in(document, "steps"):
        source, message = str(step["source"]), step.get("message")
        kind = "copied" if step.get("is_copied_context") is True else source
        if kind == "copied" and before in {"agent", "system"} and turns:
            talk = []  # all that was there is told anew
        observed: list[Message] = [
            {"role": "tool", "tool_call_id": str(r.get("source_call_id")), "content": _content(r["content"])}
            for r in _results(step)
            if r.get("content") is not None
        ]
        if kind == "system" and "observation" not in step:
            system = [*(system if before == "system" else ()), {"role": source, "content": _content(message)}]
        elif source == "agent":
            said = _said(step)
            if kind != "copied":
                extra = object_in(step, "extra")
                tools = objects_in(extra if "tool_definitions" in extra else agent, "tool_definitions")
                turn = Turn(
                    agent=text_in(extra, "agent") if "agent" in extra else text_in(agent, "name"),
                    model=text_in(step, "model_name") or text_in(agent, "model_name"),
                    context=(*system, *talk),
                    completion=(said,),
                    tools=tuple(dict(tool) for tool in tools),
                    within=within,
                    tokens=_tokens(object_in(step, "metrics")),
                )
                turns.append(turn)
            talk = [*talk, said, *observed]
        else:
            shown: list[Message] = [{"role": source, "content": _content(message)}] if message or not observed else []
            talk = [*talk, *shown, *observed]
        before = kind
    return turns


def _said(step: JsonObject) -> Message:
    calls: list[dict[str, Any]] = []
    for call in objects_in(step, "tool_calls"):
        arguments = text_in(object_in(call, "extra"), "arguments")
        if arguments is None:
            arguments = json.dumps(object_in(call, "arguments"), ensure_ascii=False)
        function = {"name": str(call["function_name"]), "arguments": arguments}
        calls.append({"id": str(call["tool_call_id"]), "type": "function", "function": function})
    thought = {"reasoning_content": str(step["reasoning_content"])} if step.get("reasoning_content") else {}
    content = _content(step.get("message"))
    message: Message = {"role": "assistant", "content": None if calls and not content else content, **thought}
    return message | ({"tool_calls": calls} if calls else {})


def _results(step: JsonObject) -> Sequence[JsonObject]:
    return objects_in(object_in(step, "observation"), "results")


def _content(content: JsonValue) -> str | list[dict[str, Any]]:
    if not isinstance(content, list):
        return "" if content is None else str(content)
    parts: list[dict[str, Any]] = []
    for part in objects_in({"content": content}, "content"):
        match part:
            case {"type": "image", "source": {"path": str(path)}}:
                parts.append({"type": "image_url", "image_url": {"url": path}})
            case {"type": "text", "text": str(text)}:
                parts.append({"type": "text", "text": text})
            case _:
                parts.append(dict(part))
    return parts


def _tokens(metrics: JsonObject) -> SampledTokens | None:
    """Return the tokens of a step; without logprobs where these are not as many as the tokens."""
    prompt, ids, logprobs = (metrics.get(name) for name in ("prompt_token_ids", "completion_token_ids", "logprobs"))
    if prompt is None or not ids:
        return None
    if isinstance(ids, list) and isinstance(logprobs, list) and len(logprobs) != len(ids):
        logprobs = None
    return sampled_tokens(prompt, ids, logprobs, "the tokens of a step")


def read_atif(document: JsonObject) -> ImportedTrajectory:
    """Read one object. Raises ValueError saying what is wrong with it."""
    version = str(document.get("schema_version"))
    if not version.startswith("ATIF-v1."):
        raise ValueError(f"schema_version is {quoted(version)}; ATIF-v1.x is what is read here")
    steps = objects_of_kinds(document.get("steps"), "step", "source", ("system", "user", "agent"))
    texts = [content_text(step.get("message")) for step in steps]
    agents = [step for step in steps if step["source"] == "agent"]
    asked = next((i for i, step in enumerate(steps) if step["source"] == "user" and texts[i].strip()), len(steps))
    if not any(step["source"] == "agent" for step in steps[asked:]):
        raise ValueError("there must be a user's step with a message, and an agent's step after it")
    path, answer = _path_and_answer(steps[asked + 1 :])
    system = [text for step, text in zip(steps[:asked], texts, strict=False) if step["source"] == "system" and text]
    times = [datetime.fromisoformat(str(step["timestamp"])) for step in steps if step.get("timestamp")]
    extra, totals = object_in(document, "extra"), object_in(document, "final_metrics")
    figures = [object_in(step, "metrics") for step in agents]
    model = object_in(document, "agent").get("model_name")
    models = [str(name) for step in agents if (name := step.get("model_name") or model)]
    kept = {name: document[name] for name in ("session_id", "agent", "notes", "extra") if document.get(name)}
    return ImportedTrajectory(
        format="atif",
        query=texts[asked],
        query_id=text_in(extra, "query_id"),
        id=str(document.get("trajectory_id") or document.get("session_id") or "") or None,
        path=path,
        answer=answer,
        reward=number_in(extra, "reward"),
        metadata={"schema_version": document["schema_version"], **kept},
        instructions="\n\n".join(system) or None,
        tool_names=tuple(dict.fromkeys(s.tool_name for s in path if s.tool_name)),
        models=tuple(dict.fromkeys(models)),
        usage=Usage(
            requests=len(agents),
            input=_count_of("prompt_tokens", totals, figures),
            output=_count_of("completion_tokens", totals, figures),
            cached=_count_of("cached_tokens", totals, figures),
        ),
        price_usd=_sum_of("cost_usd", totals, figures),
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
        turns=turns_of_atif(document),
        unplaced=tuple(_unread(document)),
    )


_DOCUMENT = "schema_version session_id trajectory_id agent notes extra steps final_metrics subagent_trajectories"
_STEP = (
    "step_id timestamp source model_name message reasoning_content tool_calls observation metrics extra "
    "is_copied_context llm_call_count"
)
_METRICS = (
    "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs "
    "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd total_steps"
)


def _unread(document: JsonObject) -> Iterator[str]:
    """Yield what of a trajectory no record has a place for, each thing by its name."""
    yield from left_names(document, _DOCUMENT, "a trajectory")
    yield from left_names(object_in(document, "final_metrics"), _METRICS, "final_metrics")
    for step in objects_in(document, "steps"):
        yield from left_names(step, _STEP, "a step")
        yield from left_names(object_in(step, "metrics"), _METRICS, "metrics")
        yield from left_names(object_in(step, "extra"), "agent tool_definitions", "a step's extra")
        yield from left_names(object_in(step, "observation"), "results", "an observation")
        for call in objects_in(step, "tool_calls"):
            yield from left_names(call, "tool_call_id function_name arguments extra", "a tool call")
            yield from left_names(object_in(call, "extra"), "arguments", "a tool call's extra")
        for result in _results(step):
            yield from left_names(result, "source_call_id content subagent_trajectory_ref", "a result")
    for inner in objects_in(document, "subagent_trajectories"):
        yield from _unread(inner)


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
    results = _results(step)
    steps: list[Step] = []
    for call in objects_in(step, "tool_calls"):
        call_id, name = call["tool_call_id"], str(call["function_name"])
        outputs = [_result_text(r) for r in results if r.get("source_call_id") == call_id]
        output, before = "\n".join(outputs) if outputs else None, None if steps else reasoning
        steps.append(function_step(name, str(call_id), call.get("arguments"), output=output, reasoning=before))
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


def _sum_of(name: str, totals: JsonObject, by_step: Sequence[JsonObject]) -> float | None:
    """Return the file's own total, else the sum of the figures that its steps have."""
    total = number_in(totals, f"total_{name}")
    if total is not None:
        return total
    known = [number for figures in by_step if (number := number_in(figures, name)) is not None]
    return sum(known) if known else None


def _count_of(name: str, totals: JsonObject, by_step: Sequence[JsonObject]) -> int | None:
    tokens = _sum_of(name, totals, by_step)
    if tokens is not None and not tokens.is_integer():
        raise ValueError(f"{name}: {tokens} is no whole number of tokens")
    return None if tokens is None else int(tokens)
