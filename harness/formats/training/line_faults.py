"""What a consumer would refuse of a file of JSON lines: each fault with file and line."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.formats.training.checks import fields_of, is_number, list_of, other_keys
from harness.formats.training.group_rules import faults_of_group
from harness.formats.training.openai_rules import faults_of_example, faults_of_preference
from harness.formats.training.rules import ExportFormat, ExportRules, SftStyle
from harness.formats.training.trl_rules import faults_of_chat, faults_of_completion, faults_of_pair

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


FaultsOf = Callable[[Any], Iterator[str]]
"""Yields what is wrong with a record."""
_FAULTS_OF: Mapping[ExportFormat, FaultsOf] = {
    "groups": faults_of_group,
    "dpo": faults_of_pair,
    "openai-preference": faults_of_preference,
    "art": faults_of_art_group,
    "atif": faults_of_trajectory,
}
_FAULTS_OF_EXAMPLE: Mapping[SftStyle, FaultsOf] = {
    "trl": faults_of_chat,
    "trl-turns": faults_of_completion,
    "openai": faults_of_example,
}


def faults_by(rules: ExportRules) -> FaultsOf | None:
    """Return what checks the lines of an export; None for tables."""
    return _FAULTS_OF_EXAMPLE[rules.style] if rules.format == "sft" else _FAULTS_OF.get(rules.format)


def line_faults(lines: Iterable[str], name: str, faults: FaultsOf) -> Iterator[str]:
    """Yield `file:line: what` for each fault of a file."""
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line, parse_constant=_no_json)
        except ValueError as exc:
            yield f"{name}:{number}: not JSON: {exc}"
        else:
            yield from (f"{name}:{number}: {fault}" for fault in faults(record))


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")
