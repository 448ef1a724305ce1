"""ATIF, Harbor's Agent Trajectory Interchange Format (ATIF-v1.x, its RFC 0001): one object a trajectory.

Steps are the system's, the user's or the agent's; an agent's step holds its message, reasoning, tool calls and what
they gave (`observation.results`, by `source_call_id`). The first user step is the query, `extra.query_id` its id.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from harness.core.records import Step, Usage
from harness.formats.foreign import Foreign, joined, uncalled
from harness.formats.messages import content_text

Told = Mapping[str, Any]


def is_atif(told: Told) -> bool:
    """Whether an object says that it is ATIF."""
    return str(told.get("schema_version", "")).startswith("ATIF-")


def read_atif(told: Told) -> Foreign:
    """Read one object. Raises ValueError saying what is wrong with it."""
    version = str(told.get("schema_version"))
    if not version.startswith("ATIF-v1."):
        raise ValueError(f"schema_version is {version!r}; ATIF-v1.x is what is read here")
    steps = _steps(told.get("steps"))
    asked = next(
        (i for i, s in enumerate(steps) if s["source"] == "user" and content_text(s.get("message")).strip()), None
    )
    if asked is None or not any(s["source"] == "agent" for s in steps[asked:]):
        raise ValueError("there must be a user's step with a message, and an agent's step after it")
    agent, extra = cast("Told", told.get("agent") or {}), cast("Told", told.get("extra") or {})
    path, answer = _path(steps[asked + 1 :])
    system = [content_text(s.get("message")) for s in steps[:asked] if s["source"] == "system"]
    models = [s.get("model_name") or agent.get("model_name") for s in steps if s["source"] == "agent"]
    times = [datetime.fromisoformat(str(s["timestamp"])) for s in steps if s.get("timestamp")]
    usage, price = _bill(told, steps)
    query_id = extra.get("query_id")
    return Foreign(
        format="atif",
        query=content_text(steps[asked].get("message")),
        query_id=None if query_id is None else str(query_id),
        id=str(told.get("trajectory_id") or told.get("session_id") or "") or None,
        path=path,
        answer=answer,
        reward=extra.get("reward"),
        metadata=_metadata(told),
        instructions="\n\n".join(filter(None, system)) or None,
        tool_names=tuple(dict.fromkeys(s.tool_name for s in path if s.tool_name)),
        models=tuple(dict.fromkeys(str(m) for m in models if m)),
        usage=usage,
        price_usd=price,
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
    )


def _steps(given: Any) -> list[Told]:
    if not isinstance(given, list) or not given:
        raise ValueError("`steps` must be a list of steps")
    for number, step in enumerate(cast("list[Any]", given), 1):
        source = cast("Told", step).get("source") if isinstance(step, dict) else None
        if source not in {"system", "user", "agent"}:
            raise ValueError(f"step {number} has the source {source!r}, not system, user or agent")
    return cast("list[Told]", given)


def _path(steps: Sequence[Told]) -> tuple[tuple[Step, ...], str]:
    """Return the steps after the query and the answer: the message of the last agent's step, if it called nothing."""
    last = max((i for i, s in enumerate(steps) if s["source"] == "agent"), default=-1)
    path: list[Step] = []
    answer = ""
    for at, step in enumerate(steps):
        said, thought = content_text(step.get("message")), content_text(step.get("reasoning_content"))
        if step["source"] != "agent":
            if said:
                path.append(Step(kind="message", reasoning=f"The {step['source']} said: {said}"))
            continue
        did = _did(step, joined(thought, said))
        path += did
        if did:
            continue
        if at == last:
            answer, said = said, ""
        path += uncalled(thought, said)
    return tuple(path), answer


def _did(step: Told, before: str | None) -> list[Step]:
    """Return an agent's step as one step a call; what was seen without a call is a step too."""
    observed = cast("Told", step.get("observation") or {})
    results = cast("list[Told]", observed.get("results") or [])
    found: list[Step] = []
    for call in cast("list[Told]", step.get("tool_calls") or []):
        call_id, given = str(call["tool_call_id"]), call.get("arguments")
        seen = [_result(r) for r in results if r.get("source_call_id") == call["tool_call_id"]]
        found.append(
            Step(
                kind="tool",
                tool_type="function",
                tool_name=str(call["function_name"]),
                call_id=call_id,
                tool_input=given if isinstance(given, str) or given is None else json.dumps(given, ensure_ascii=False),
                tool_output="\n".join(seen) if seen else None,
                reasoning=None if found else before,
            )
        )
    free = [_result(r) for r in results if r.get("source_call_id") is None]
    if free:
        reasoning = None if found else before
        found.append(Step(kind="tool", tool_name="environment", tool_output="\n".join(free), reasoning=reasoning))
    return found


def _result(result: Told) -> str:
    told = content_text(result.get("content"))
    named = [
        str(r.get("trajectory_id") or r.get("session_id"))
        for r in cast("list[Told]", result.get("subagent_trajectory_ref") or [])
    ]
    return told or f"(the work of another agent: {', '.join(named)})" if named else told


def _bill(told: Told, steps: Sequence[Told]) -> tuple[Usage, float | None]:
    """Return the tokens and the cost: the file's own totals, else the sums of what its steps tell."""
    total = cast("Told", told.get("final_metrics") or {})
    each = [cast("Told", s.get("metrics") or {}) for s in steps if s["source"] == "agent"]

    def sum_of(name: str) -> Any:
        if total.get(f"total_{name}") is not None:
            return total[f"total_{name}"]
        known = [m[name] for m in each if m.get(name) is not None]
        return sum(known) if known else None

    usage = Usage(
        requests=len(each),
        input=sum_of("prompt_tokens"),
        output=sum_of("completion_tokens"),
        cached=sum_of("cached_tokens"),
    )
    return usage, sum_of("cost_usd")


def _metadata(told: Told) -> dict[str, Any]:
    kept = {k: told[k] for k in ("session_id", "agent", "notes", "extra") if told.get(k)}
    return {"schema_version": told["schema_version"], **kept}
