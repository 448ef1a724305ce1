"""Where a branch begins: what of a recorded rollout is given again, and what is expected of the agent then."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from agents import ModelResponse, ModelSettings
from agents.tracing import get_trace_provider

from harness.archive.reader import RunReader
from harness.archive.run_state import MissingWork
from harness.archive.typed_records import checked
from harness.core.branch_point import BranchPoint
from harness.core.errors import ArchiveDamaged, counted
from harness.core.records import ModelCall, Rollout, Step, digest
from harness.endpoints.refused_settings import with_seed
from harness.rollouts.approval_gate import Decision, TimedDecision, ToolOutput
from harness.rollouts.capture import WireReply
from harness.rollouts.checkpoints import Attempted, BranchStart
from harness.rollouts.model_request import sent_output
from harness.rollouts.packed_calls import unpacked
from harness.rollouts.raw import RawCall, unpack_tokens, with_objects
from harness.rollouts.recorder import CallBudget, RecordedCall
from harness.rollouts.snapshots import NOTHING_KEPT, KeptState, unpack_state


def branch_start(reader: RunReader, query: str, branch: BranchPoint) -> BranchStart:
    """Return where a branch begins, from the record of its rollout in its own run. Raises ArchiveDamaged."""
    places = reader.index.rollouts.get(query, {})
    if branch.rollout not in places:
        raise ArchiveDamaged(f"{reader.folder}/run.json: it branches from rollout {branch.rollout}, which is not there")
    rollout, texts = reader.rollout_at(places[branch.rollout].place), reader.blobs
    name, tokens = str(rollout.raw_calls), rollout.sampled_tokens
    plain = checked(texts.get(name), lambda text: [*unpacked(text, texts.get)], texts.place(name))
    if digest([(request, reply) for request, reply, _ in plain[: branch.call]]) != branch.prefix:
        why = f"the first {counted(branch.call, 'call')} of rollout {branch.rollout} are not those it branches from"
        raise ArchiveDamaged(f"{reader.folder}/run.json: {why}")
    raw = checked(plain, with_objects, texts.place(name))
    sampled = unpack_tokens(texts.get(tokens), texts.place(tokens)) if tokens else [None] * len(raw)
    made = {call.raw: call for call in rollout.calls if call.raw is not None}
    calls = [_given(made.get(at) or ModelCall(), call) for at, call in enumerate(raw[: branch.call])]
    for call, its_tokens in zip(calls, sampled, strict=False):
        call.wire.sampled = its_tokens
    outputs = {} if branch.live_tools else dict(_outputs(rollout, raw, branch.call))
    if (edit := branch.edit) and calls:
        if edit.message is not None:
            calls[-1].response, calls[-1].wire.sampled = _saying(edit.message, calls[-1].response), None
        else:
            now = get_trace_provider().time_iso()
            outputs[len(calls) - 1, str(edit.call_id)] = ToolOutput(edit.output or "", None, now, now)
    next_requests = () if branch.edit else [call.request for call in raw[branch.call :]]
    name = made[branch.call].snapshot if branch.call in made else None
    kept = unpack_state(texts.get(name), texts.place(name)) if name else NOTHING_KEPT
    if (branch.restored and not kept.by_file) or (branch.sandboxes and not kept.sandboxes):
        raise ArchiveDamaged(f"{reader.folder}/run.json: a branch restores a state of which there is no snapshot")
    state = KeptState(kept.by_file if branch.restored else (), kept.sandboxes if branch.sandboxes else ())
    return BranchStart(branch, rollout.recipe, calls, outputs, state, next_requests, rollout.temporary_folders)


def branch_budget(
    most: int | None, missing: MissingWork | None, before: Callable[[str, int], Attempted | None]
) -> CallBudget:
    """Return how many model calls the branches of a run may make, and made, also where they were cut off."""
    if missing is None or missing.of_branches is None:
        return CallBudget()
    budget = CallBudget(most, longer=missing.of_branches.longer)
    for (query, index), made in missing.of_branches.made.items():
        had = before(query, index) if index in missing.rollouts.get(query, ()) else None
        budget.made += max(made, had.bought if had else 0)
    return budget


def gone_on(start: BranchStart, had: Attempted) -> Attempted:
    """Return what an attempt at a branch had, as such: tools whose replies are given again give what they gave."""
    own = {(at, id_): output for (at, id_), output in had.outputs.items() if not had.calls[at].is_prefix}
    places = {
        at: next((i for i, given in enumerate(start.calls) if given.request == call.request), None)
        for at, call in enumerate(had.calls)
        if call.is_prefix
    }
    given = {(at, id_): output for at, i in places.items() for (of, id_), output in start.outputs.items() if of == i}
    return Attempted(had.calls, own | given, had.elapsed_s, start).or_anew()


def _given(made: ModelCall, raw: RawCall) -> RecordedCall:
    began = made.started_at
    ended = began and made.duration_s is not None and began + timedelta(seconds=made.duration_s)
    call = RecordedCall(
        None,
        with_seed(ModelSettings(temperature=made.temperature, top_p=made.top_p), made.seed),
        made.model,
        raw.request,
        WireReply(None, None, made.replied_model, made.replied_temperature, beside=raw.beside, policy=made.policy),
        raw.reply,
        own_model=made.own_model,
        ended_at=ended.isoformat() if ended else None,
        is_prefix=True,
        snapshot=made.snapshot,
    )
    if began:
        call.started_at = began.isoformat()
    return call


def _outputs(rollout: Rollout, raw: Sequence[RawCall], most: int) -> Iterator[tuple[tuple[int, str], ToolOutput]]:
    """Yield what the tool calls of the first replies gave, but for tools that made model calls: those run again."""
    nested = {(call.within_raw, call.within) for call in rollout.calls}
    steps = {(step.call_id, step.kind == "approval"): step for step in _all_steps(rollout.trajectory.path)}
    requests = [call.request for call in raw]
    for at in range(most):
        for item in raw[at].reply.output:
            call_id = getattr(item, "call_id", None)
            if getattr(item, "type", None) != "function_call" or not call_id or (at, call_id) in nested:
                continue
            step, output = steps.get((call_id, False)), sent_output(requests, at, call_id)
            if output is None and step:
                output = step.tool_output
            if output is not None:
                decided = steps.get((call_id, True))
                yield (at, call_id), _as_it_was(output, step, decided)


def _as_it_was(output: Any, step: Step | None, decided: Step | None) -> ToolOutput:
    now = get_trace_provider().time_iso()
    began = step.started_at if step else None
    ended = began + timedelta(seconds=step.duration_s or 0.0) if step and began else None
    decision = None
    if decided and decided.started_at:
        over = decided.started_at + timedelta(seconds=decided.duration_s or 0.0)
        decision = TimedDecision(Decision.from_words(decided.tool_output or ""), decided.started_at, over)
    times = (began.isoformat(), ended.isoformat()) if began and ended else (now, now)
    return ToolOutput(output, step.error if step else None, *times, decision)


def _saying(text: str, reply: ModelResponse | None) -> ModelResponse | None:
    """Return a reply with another text in the place of what it says."""
    reply = copy.deepcopy(reply)
    for item in reply.output if reply else ():
        if item.type == "message":
            parts = [part for part in item.content if part.type == "output_text"]
            if parts:
                parts[0].text = text
                item.content = [*parts[:1]]
                break
    return reply


def _all_steps(path: Iterable[Step]) -> Iterator[Step]:
    for step in path:
        yield step
        yield from _all_steps(step.inner)
