"""A rollout as a trajectory of ATIF-v1.8, which Harbor 0.25 reads: of any run, ranked or not."""

import mimetypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, StrictStr, model_validator

from harness.core.rankings import Ranked
from harness.core.records import Rollout
from harness.formats.chat_turns import SYSTEM_ROLES
from harness.formats.json_values import parse_json
from harness.formats.training.candidates import Losses, RankedGroup, TurnsOf
from harness.formats.training.line_models import ClosedPart, Part, Whole
from harness.formats.training.records import TrainingLine, exported_files
from harness.formats.training.rules import ExportRules
from harness.formats.turns import Message, NoMessages, TokenCounts, Tool, Turn, join_turns, without_reasoning

AtifStep = dict[str, Any]
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
    worth: Sequence[float]
    """What each of the rollout's model calls was worth; nothing where that is not told."""
    steps: list[AtifStep] = field(default_factory=list[AtifStep])
    lost: list[str] = field(default_factory=list[str])
    """What ATIF has no place for, each thing by its name."""
    _system: list[Message] = field(default_factory=list[Message])
    _shown: list[Message] = field(default_factory=list[Message])
    _step_of_call: dict[str, AtifStep] = field(default_factory=dict[str, AtifStep])

    def add(self, turn: Turn) -> None:
        """Add what a turn was shown since the turn before it, and what the model said."""
        at = next((i for i, m in enumerate(turn.context) if m["role"] not in SYSTEM_ROLES), len(turn.context))
        system, talk = list(turn.context[:at]), [without_reasoning(m) for m in turn.context[at:]]
        if system != self._system:
            self._add_all(system, {})
        goes_on = talk[: len(self._shown)] == self._shown
        shown = len(self._shown) if goes_on else 0
        self._add_all(turn.context[at + shown :], {} if goes_on else {"is_copied_context": True})
        others = {"agent": turn.agent} if turn.agent != self.agent else {}
        others |= {"tool_definitions": list(turn.tools)} if list(turn.tools) != list(self.tools) else {}
        others |= {"step_advantage": self.worth[turn.call]} if self.worth and turn.call is not None else {}
        step = self._said(turn.completion)
        step |= {"model_name": turn.model} if turn.model and turn.model != self.model else {}
        if tokens := turn.tokens:
            metrics = {
                "prompt_tokens": len(tokens.prompt_ids) or None,
                "completion_tokens": len(tokens.ids),
                "prompt_token_ids": list(tokens.prompt_ids) or None,
                "completion_token_ids": list(tokens.ids),
                "logprobs": list(tokens.logprobs) if tokens.logprobs else None,
            }
            step["metrics"] = _known(metrics)
        step |= {"llm_call_count": 1} | ({"extra": others} if others else {})
        self._append(step, turn.completion)
        self._system, self._shown = system, [*talk, *map(without_reasoning, turn.completion)]

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

    def _add_all(self, messages: Iterable[Message], mark: AtifStep) -> None:
        for message in messages:
            if message["role"] == "assistant":
                self._append(self._said([message]) | {"is_copied_context": True}, [message])
                continue
            content = self._content(message.get("content"))
            if message["role"] != "tool":
                source = "system" if message["role"] in SYSTEM_ROLES else "user"
                self._append({"source": source, "message": content} | mark, ())
            elif result := self.result_of(str(message.get("tool_call_id"))):
                result["content"] = content
            else:
                self._append({"source": "user", "message": "", "observation": {"results": [{"content": content}]}}, ())

    def _append(self, step: AtifStep, said: Sequence[Message]) -> None:
        step = {"step_id": len(self.steps) + 1} | step
        self.steps.append(step)
        self._step_of_call |= {str(call.get("id")): step for m in said for call in m.get("tool_calls") or ()}

    def _said(self, messages: Sequence[Message]) -> AtifStep:
        """Return what the model said in one call."""
        contents = [content for m in messages if (content := self._content(m.get("content") or m.get("refusal")))]
        texts = [content for content in contents if isinstance(content, str)]
        parts = [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in contents]
        message = "\n".join(texts) if len(texts) == len(contents) else [part for each in parts for part in each]
        step: AtifStep = {"source": "agent", "message": message}
        if thoughts := [str(m["reasoning_content"]) for m in messages if m.get("reasoning_content")]:
            step["reasoning_content"] = "\n".join(thoughts)
        if calls := [_tool_call(call) for m in messages for call in m.get("tool_calls") or ()]:
            step["tool_calls"] = calls
        return step

    def _content(self, content: Any) -> str | list[dict[str, Any]]:
        """Return a content as ATIF has it, without the parts that it has no place for."""
        if not isinstance(content, list):
            return "" if content is None else str(content)
        made: list[dict[str, Any]] = []
        for part in cast("list[Any]", content):
            match part:
                case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
                    made.append({"type": "text", "text": text})
                case {"type": "image_url", "image_url": {"url": str(url)}} if (kind := _media_type(url)) in _IMAGES:
                    made.append({"type": "image", "source": {"media_type": kind, "path": url}})
                case {"type": kind}:
                    self.lost.append(f"a part of a message ({kind})")
                case _:
                    kind = None if isinstance(part, dict) else type(part).__name__
                    self.lost.append(f"a part of a message ({kind})")
        return made or ""


def _media_type(url: str) -> str | None:
    return re.split("[;,]", url[5:])[0] if url.startswith("data:") else mimetypes.guess_type(url)[0]


def _known(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


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


VERSION = "ATIF-v1.8"
_UNKNOWN = "unknown"
"""ATIF wants a name and a version of each agent."""
_STEPS_ONLY = "messages of the calls, which are not recorded: the steps are those that a judge was shown"


def atif_lines(
    group: RankedGroup, rules: ExportRules, losses: Losses, recorded_turns: TurnsOf
) -> Iterator[TrainingLine]:
    """Yield a line for each rollout of a group, in their order; failed ones only where they are asked for."""
    places = {ranked.index: ranked for ranked in group.ranked.rollouts}
    for rollout in group.group.rollouts:
        if rollout.status == "failed" and "failed" not in rules.included:
            losses.add("rollout", f"failed ({rollout.failure.kind})" if rollout.failure else "failed")
            continue
        try:
            turns, lost = recorded_turns(rollout), ()
        except NoMessages as exc:
            turns, lost = (), (f"calls that have no form as messages ({str(exc)[:100]})",)
        if not turns:
            turns, lost = _turns_of_steps(rollout), (*lost, _STEPS_ONLY)
        record, unplaced = atif_trajectory(
            rollout, turns, places.get(rollout.index), group.step_advantages.get(rollout.index, ())
        )
        tokens = TokenCounts.of(join_turns(turns, by_tokens=True))
        yield TrainingLine(record, (rollout.index,), (*lost, *unplaced), tokens=tokens)


def atif_trajectory(
    rollout: Rollout, turns: Sequence[Turn], place: Ranked | None, worth: Sequence[float] = ()
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a rollout as a trajectory, nested agents as embedded ones, and what ATIF has no place for."""
    name = rollout.origin_id or f"{rollout.run}/{rollout.query}/{rollout.index}"
    outer = [turn for turn in turns if turn.within is None] or list(turns)
    main, lost = _steps_of(outer, worth), list[str]()
    for turn in turns:
        lost += (*turn.lost_completion, *turn.lost_tools, *["an output schema"] * bool(turn.output_schema))
    calls = dict.fromkeys(turn.within for turn in turns if turn.within and turn not in outer)
    nested = {f"{name}/{call}": (call, _steps_of([t for t in turns if t.within == call], worth)) for call in calls}
    all_steps = [main, *(steps for _, steps in nested.values())]
    for trajectory_id, (call, _) in nested.items():
        for steps in all_steps:  # the result of the call that a nested agent worked for names its trajectory
            if result := steps.result_of(call):
                result["subagent_trajectory_ref"] = [{"trajectory_id": trajectory_id}]
    lost += [part for steps in all_steps for part in steps.lost]
    imported: Mapping[str, Any] = rollout.metadata if rollout.origin == "atif" else {}
    totals = {
        "total_prompt_tokens": rollout.usage.input,
        "total_completion_tokens": rollout.usage.output,
        "total_cached_tokens": rollout.usage.cached,
        "total_cost_usd": rollout.price_usd,
        "total_steps": len(main.steps),
    }
    extra = {
        "query_id": rollout.query,
        "role": rollout.role if rollout.origin is None else None,
        "reward": place.reward if place and place.reward is not None else rollout.given_reward,
        "rank": place.rank if place else None,
        "failure": rollout.failure.kind if rollout.failure else None,
        "files": exported_files(rollout.trajectory.files) or None,
    }
    came_with = dict(imported.get("extra") or {})
    named = {"query_id": came_with["query_id"]} if came_with.get("query_id") else {}
    record = _document(name, main, imported)
    record["final_metrics"] = _known(totals)
    record["extra"] = came_with | _known(extra) | named
    embedded = [_document(name, steps, {}) for name, (_, steps) in nested.items()]
    return record | ({"subagent_trajectories": embedded} if embedded else {}), tuple(lost)


def _steps_of(turns: Sequence[Turn], worth: Sequence[float]) -> AtifSteps:
    steps = AtifSteps(turns[0].agent, turns[0].model, turns[0].tools, worth)
    for turn in turns:
        steps.add(turn)
    return steps


def _document(name: str, steps: AtifSteps, imported: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trajectory; what it said of itself where it came from, stays."""
    agent: dict[str, Any] = {"name": steps.agent or _UNKNOWN, "version": _UNKNOWN}
    agent |= {"model_name": steps.model} if steps.model else {}
    agent |= {"tool_definitions": list(steps.tools)} if steps.tools else {}
    agent |= imported.get("agent") or {}
    came_with = {key: value for key, value in imported.items() if key in {"session_id", "notes"}}
    return {"schema_version": VERSION, "trajectory_id": name, **came_with, "agent": agent, "steps": steps.steps}


def _turns_of_steps(rollout: Rollout) -> list[Turn]:
    """Return turns made of the steps that a judge was shown, for a rollout whose calls are not recorded."""
    path, answer = rollout.trajectory.path, rollout.trajectory.answer
    context: list[Message] = [{"role": "user", "content": rollout.trajectory.query}]
    if rollout.instructions:
        context.insert(0, {"role": "system", "content": rollout.instructions})
    model = rollout.effective.models[0] if rollout.effective.models else None
    turns: list[Turn] = []
    for number, step in enumerate(path):
        shown, results = tuple(context), list[Message]()
        if step.tool_name:
            function = {"name": step.tool_name, "arguments": step.tool_input or "{}"}
            call = {"id": step.call_id or f"call_{number}", "type": "function", "function": function}
            said: Message = {"role": "assistant", "content": None, "tool_calls": [call]}
            said |= {"reasoning_content": step.reasoning} if step.reasoning else {}
            output = step.tool_output if step.tool_output is not None else step.error
            if output is not None:
                results.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        elif step.kind == "reasoning":
            said = {"role": "assistant", "content": "", "reasoning_content": step.reasoning}
        else:
            said = {"role": "assistant", "content": step.reasoning or ""}
        turns.append(Turn(step.agent, model, shown, (said,)))
        context += [said, *results]
    if answer or not turns:
        last: Message = {"role": "assistant", "content": answer}
        turns.append(Turn(path[-1].agent if path else None, model, tuple(context), (last,)))
    return turns


class _AtifAgent(ClosedPart, frozen=True):
    unchecked = "tool_definitions extra"
    name: StrictStr
    version: StrictStr
    model_name: Any = None


class _AtifCall(ClosedPart, frozen=True):
    unchecked = "extra"
    tool_call_id: StrictStr
    function_name: StrictStr
    arguments: dict[str, Any]


class _AtifResult(ClosedPart, frozen=True):
    unchecked = "content subagent_trajectory_ref extra"
    source_call_id: Any = None


class _AtifObservation(Part, frozen=True):
    results: list[_AtifResult] | None = None


class _AtifMetrics(ClosedPart, frozen=True):
    unchecked = (
        "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs extra"
    )


class _AtifStep(ClosedPart, frozen=True):
    unchecked = "timestamp is_copied_context llm_call_count extra"
    step_id: Whole
    source: Literal["system", "user", "agent"]
    model_name: Any = None
    reasoning_effort: Any = None
    message: Any
    reasoning_content: Any = None
    tool_calls: list[_AtifCall] | None = None
    observation: _AtifObservation | None = None
    metrics: _AtifMetrics | None = None

    @model_validator(mode="after")
    def _check_step(self) -> Self:
        if not isinstance(self.message, str | list):
            raise ValueError("message is neither a text nor a list of parts")  # noqa: TRY004 - a fault of the line
        if self.source != "agent":
            for name in ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is for agents only")
        calls = {call.tool_call_id for call in self.tool_calls or ()}
        for result in (self.observation and self.observation.results) or ():
            if result.source_call_id is not None and result.source_call_id not in calls:
                raise ValueError(f"a result of {result.source_call_id!r}, which is no call of this step")
        return self


class AtifTrajectory(ClosedPart, frozen=True):
    """A trajectory of ATIF."""

    unchecked = "session_id notes final_metrics continued_trajectory_ref extra"
    schema_version: Annotated[StrictStr, Field(pattern=r"^ATIF-v1\.")]
    trajectory_id: Any = None
    agent: _AtifAgent
    steps: Annotated[list[_AtifStep], Field(min_length=1)]
    subagent_trajectories: list["AtifTrajectory"] | None = None

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for number, step in enumerate(self.steps, 1):
            if step.step_id != number:
                raise ValueError(f"step_id of step {number} is {step.step_id}")
        names = [nested.trajectory_id for nested in self.subagent_trajectories or ()]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError("subagent_trajectories have no trajectory_id, or two have the same")
        return self
