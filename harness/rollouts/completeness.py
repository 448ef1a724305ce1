"""What is missing of a rollout's record: recorded calls, replies on the wire and spans, held against each other."""

from collections.abc import Iterator, Sequence
from typing import Any

from agents.tracing import Span

from harness.rollouts.steps import function_around
from harness.rollouts.witnessed_calls import WitnessedCall


def gaps_of(
    spans: Sequence[Span[Any]], replies: Sequence[WitnessedCall], stray_replies: Sequence[str], *, ended_well: bool
) -> tuple[str, ...]:
    """Return what the record of a rollout lacks, in words; nothing where all three accounts agree.

    `stray_replies` are the addresses of replies that came over the run's own client and belong to no recorded call.
    """
    return tuple(_gaps(spans, replies, stray_replies, ended_well=ended_well))


def _gaps(
    spans: Sequence[Span[Any]], replies: Sequence[WitnessedCall], stray_replies: Sequence[str], *, ended_well: bool
) -> Iterator[str]:
    unrecorded = sum(r.recorded is None for r in replies)
    if unrecorded:
        yield f"{_calls(unrecorded)} on a model that was not recorded: the request and the whole reply are missing"
    if stray_replies:
        yield f"{_calls(len(stray_replies))} on the run's client past the recorded models: nothing of it is kept"
    present = {s.span_id for s in spans}
    untraced = sum(r.span is None and r.parent not in present for r in replies)
    if untraced:
        yield f"{_calls(untraced)} while tracing was off: times, guardrails and the errors of tools are missing"
    silent = _silent_turns(spans, replies) if ended_well else 0
    if silent:
        yield f"{silent} {'turn' if silent == 1 else 'turns'} of the agent of whose model call there is no record"


def _silent_turns(spans: Sequence[Span[Any]], replies: Sequence[WitnessedCall]) -> int:
    """Return how many turns of the outermost run no model call was seen in."""
    by_id = {s.span_id: s for s in spans}
    heard = {r.parent for r in replies}
    turns = [s for s in spans if s.span_data.type == "turn" and s.span_id not in heard]
    return sum(s.error is None and function_around(s.span_id, by_id) is None for s in turns)


def _calls(number: int) -> str:
    return f"{number} model {'call' if number == 1 else 'calls'}"
