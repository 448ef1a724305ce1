"""The rules of ATIF-v1.8 as the models of harbor 0.25.0 check them (harbor.models.trajectories), fault by fault."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.formats.training.checks import fields_of, list_of, other_keys

_KEYS = frozenset(
    "schema_version session_id trajectory_id agent steps notes final_metrics continued_trajectory_ref extra "
    "subagent_trajectories".split()
)
_STEP = frozenset(
    "step_id timestamp source model_name reasoning_effort message reasoning_content tool_calls observation metrics "
    "is_copied_context llm_call_count extra".split()
)
_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_AGENT = frozenset("name version model_name tool_definitions extra".split())
_CALL = frozenset("tool_call_id function_name arguments extra".split())
_RESULT = frozenset("source_call_id content subagent_trajectory_ref extra".split())
_METRICS = frozenset(
    "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs "
    "extra".split()
)


def faults_of_trajectory(record: Any) -> Iterator[str]:
    """Yield what is wrong with a trajectory."""
    fields = fields_of(record)
    yield from other_keys(fields, _KEYS, "the trajectory")
    if not str(fields.get("schema_version")).startswith("ATIF-v1."):
        yield f"schema_version is {fields.get('schema_version')!r}"
    agent = fields_of(fields.get("agent"))
    yield from other_keys(agent, _AGENT, "agent")
    yield from (f"agent.{name} is no text" for name in ("name", "version") if not isinstance(agent.get(name), str))
    steps = list_of(fields.get("steps"))
    if not steps:
        yield "steps holds no step"
    for number, step in enumerate(map(fields_of, steps), 1):
        yield from _step(step, number)
    yield from _nested(list_of(fields.get("subagent_trajectories")))


def _nested(nested: list[Any]) -> Iterator[str]:
    names = [fields_of(document).get("trajectory_id") for document in nested]
    if not all(isinstance(name, str) for name in names) or len(set(map(str, names))) < len(names):
        yield "subagent_trajectories have no trajectory_id, or two have the same"
    for place, document in enumerate(nested):
        yield from (f"subagent_trajectories[{place}]: {fault}" for fault in faults_of_trajectory(document))


def _step(step: Mapping[str, Any], number: int) -> Iterator[str]:
    where, source = f"step {number}", step.get("source")
    yield from other_keys(step, _STEP, where)
    if step.get("step_id") != number:
        yield f"{where}: step_id is {step.get('step_id')!r}, not {number}"
    if source not in {"system", "user", "agent"}:
        yield f"{where}: source is {source!r}"
    if not isinstance(step.get("message"), str | list):
        yield f"{where}: message is neither a text nor a list of parts"
    if source != "agent":
        yield from (f"{where}: {name} is for agents only" for name in _AGENT_ONLY if step.get(name) is not None)
    calls = [fields_of(call) for call in list_of(step.get("tool_calls"))]
    for call in calls:
        yield from other_keys(call, _CALL, f"{where}: a tool call")
        texts = (call.get("tool_call_id"), call.get("function_name"))
        if not all(isinstance(text, str) for text in texts) or not isinstance(call.get("arguments"), dict):
            yield f"{where}: a tool call needs an id, a name, and arguments as an object"
    yield from _results(step, {str(call.get("tool_call_id")) for call in calls}, where)
    yield from other_keys(fields_of(step.get("metrics")), _METRICS, f"{where}: metrics")


def _results(step: Mapping[str, Any], calls: set[str], where: str) -> Iterator[str]:
    for result in map(fields_of, list_of(fields_of(step.get("observation")).get("results"))):
        yield from other_keys(result, _RESULT, f"{where}: a result")
        source = result.get("source_call_id")
        if source is not None and source not in calls:
            yield f"{where}: a result of {source!r}, which is no call of this step"
