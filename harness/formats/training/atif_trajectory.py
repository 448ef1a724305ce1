"""A rollout as a trajectory of ATIF-v1.8, which Harbor 0.25 reads: of any run, ranked or not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.core.rankings import Ranked
from harness.core.records import Rollout, Step
from harness.formats.sequences import sequences_of
from harness.formats.training.atif_steps import AtifSteps
from harness.formats.training.candidates import RankedGroup, TurnsOf
from harness.formats.training.losses import Losses
from harness.formats.training.records import TrainingLine
from harness.formats.training.rules import ExportRules
from harness.formats.training.token_fields import TokenCounts
from harness.formats.turns import Message, NoMessages, Turn

VERSION = "ATIF-v1.8"
_UNKNOWN = "unknown"
"""ATIF wants a name and a version of each agent."""
_STEPS_ONLY = "messages of the calls, which are not recorded: the steps are those that a judge was shown"


def atif_lines(group: RankedGroup, rules: ExportRules, losses: Losses, turns_of: TurnsOf) -> Iterator[TrainingLine]:
    """Yield a line for each rollout of a group, in their order; failed ones only where they are asked for."""
    places = {ranked.index: ranked for ranked in group.ranked.rollouts}
    for rollout in group.group.rollouts:
        if rollout.status == "failed" and "failed" not in rules.included:
            losses.add("rollout", f"failed ({rollout.failure.kind})" if rollout.failure else "failed")
            continue
        try:
            turns, lost = turns_of(rollout), ()
        except NoMessages as exc:
            turns, lost = (), (f"calls that have no form as messages ({str(exc)[:100]})",)
        if not turns:
            turns, lost = _turns_of_steps(rollout), (*lost, _STEPS_ONLY)
        record, unplaced = atif_trajectory(rollout, turns, places.get(rollout.index))
        tokens = TokenCounts.of(sequences_of(turns, by_tokens=True))
        yield TrainingLine(record, (rollout.index,), (*lost, *unplaced), tokens=tokens)


def atif_trajectory(
    rollout: Rollout, turns: Sequence[Turn], place: Ranked | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a rollout as a trajectory, nested agents as embedded ones, and what ATIF has no place for."""
    name = rollout.origin_id or f"{rollout.run}/{rollout.query}/{rollout.index}"
    outer = [turn for turn in turns if turn.within is None] or list(turns)
    main, lost = _steps_of(outer), [name for turn in turns for name in _lost(turn)]
    calls = dict.fromkeys(turn.within for turn in turns if turn.within and turn not in outer)
    steps_of = {call: _steps_of([turn for turn in turns if turn.within == call]) for call in calls}
    all_steps = [main, *steps_of.values()]
    nested = [_document(f"{name}/{call}", steps) for call, steps in steps_of.items()]
    for call, document in zip(steps_of, nested, strict=True):
        _refer(all_steps, call, document["trajectory_id"])
    lost += [part for steps in all_steps for part in steps.lost]
    imported: Mapping[str, Any] = rollout.metadata if rollout.origin == "atif" else {}
    record = _document(name, main, imported) | _totals(rollout, len(main.steps))
    came_with = dict(imported.get("extra") or {})
    named = came_with.get("query_id")
    record["extra"] = came_with | _extra(rollout, place) | ({"query_id": named} if named else {})
    return record | ({"subagent_trajectories": nested} if nested else {}), tuple(lost)


def _steps_of(turns: Sequence[Turn]) -> AtifSteps:
    first = turns[0]
    steps = AtifSteps(first.agent, first.model, first.tools)
    for turn in turns:
        steps.add(turn)
    return steps


def _document(name: str, steps: AtifSteps, imported: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a trajectory; what it said of itself where it came from, stays."""
    agent: dict[str, Any] = {"name": steps.agent or _UNKNOWN, "version": _UNKNOWN}
    agent |= {"model_name": steps.model} if steps.model else {}
    agent |= {"tool_definitions": list(steps.tools)} if steps.tools else {}
    came_with = {key: value for key, value in (imported or {}).items() if key in {"session_id", "notes"}}
    agent |= (imported or {}).get("agent") or {}
    return {"schema_version": VERSION, "trajectory_id": name, **came_with, "agent": agent, "steps": steps.steps}


def _refer(all_steps: Sequence[AtifSteps], call_id: str, trajectory_id: str) -> None:
    """Let the result of the call that a nested agent worked for name that agent's trajectory."""
    for steps in all_steps:
        if result := steps.result_of(call_id):
            result["subagent_trajectory_ref"] = [{"trajectory_id": trajectory_id}]


def _totals(rollout: Rollout, steps: int) -> dict[str, Any]:
    usage = rollout.usage
    totals = {
        "total_prompt_tokens": usage.input,
        "total_completion_tokens": usage.output,
        "total_cached_tokens": usage.cached,
        "total_cost_usd": rollout.price_usd,
        "total_steps": steps,
    }
    return {"final_metrics": {name: value for name, value in totals.items() if value is not None}}


def _extra(rollout: Rollout, place: Ranked | None) -> dict[str, Any]:
    reward = place.reward if place and place.reward is not None else rollout.given_reward
    extra = {
        "query_id": rollout.query,
        "role": rollout.role if rollout.origin is None else None,
        "reward": reward,
        "rank": place.rank if place else None,
        "failure": rollout.failure.kind if rollout.failure else None,
    }
    return {name: value for name, value in extra.items() if value is not None}


def _lost(turn: Turn) -> tuple[str, ...]:
    schema = ("an output schema",) if turn.output_schema else ()
    return (*turn.lost_completion, *turn.lost_tools, *schema)


def _turns_of_steps(rollout: Rollout) -> list[Turn]:
    """Return turns made of the steps that a judge was shown, for a rollout whose calls are not recorded."""
    path, answer = rollout.trajectory.path, rollout.trajectory.answer
    context: list[Message] = [{"role": "user", "content": rollout.trajectory.query}]
    if rollout.instructions:
        context.insert(0, {"role": "system", "content": rollout.instructions})
    model = rollout.effective.models[0] if rollout.effective.models else None
    turns: list[Turn] = []
    for number, step in enumerate(path):
        said, results = _message_of_step(step, f"call_{number}")
        turns.append(Turn(step.agent, model, tuple(context), (said,)))
        context += [said, *results]
    if answer or not turns:
        turns.append(Turn(path[-1].agent if path else None, model, tuple(context), (_reply(answer),)))
    return turns


def _reply(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _message_of_step(step: Step, call_id: str) -> tuple[Message, list[Message]]:
    if not step.tool_name:
        is_thought = step.kind == "reasoning"
        said = _reply("" if is_thought else step.reasoning or "")
        return (said | {"reasoning_content": step.reasoning} if is_thought else said), []
    function = {"name": step.tool_name, "arguments": step.tool_input or "{}"}
    call = {"id": step.call_id or call_id, "type": "function", "function": function}
    thought = {"reasoning_content": step.reasoning} if step.reasoning else {}
    said = {"role": "assistant", "content": None, "tool_calls": [call]} | thought
    output = step.tool_output if step.tool_output is not None else step.error
    return said, [] if output is None else [{"role": "tool", "tool_call_id": call["id"], "content": output}]
