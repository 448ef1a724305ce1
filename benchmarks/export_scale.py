"""A large run, generated: how fast and in how much memory it is exported as training data.

    python benchmarks/export_scale.py [GROUPS]

Writes a run of GROUPS (10,000) groups of 8, each rollout with three recorded calls, into a temporary folder, ranks it,
and times real commands: seconds, and the most memory that a command held (resident).
"""

import asyncio
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from agents import ModelResponse, Usage
from archive_scale import N, generate, timed
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from harness.archive.store import RunStore
from harness.core.records import Failure, ModelCall, Rollout
from harness.rollouts.raw import RawCall, pack

SYSTEM = "Search for material, then sum it up. " * 60
TOOLS: list[Any] = [{"name": "search", "description": "Search.", "schema": {"type": "object", "properties": {}}}]


def with_calls(rollout: Rollout, store: RunStore) -> Rollout:
    """Return a rollout with two tool calls and an answer, as the calls that made its path.

    The last one of each group counts as failed: a group needs a signal, and the embedded judge ties the others.
    """
    items: list[Any] = [{"role": "user", "content": rollout.query}]
    calls: list[RawCall] = []
    for number in count():
        request: dict[str, Any] = {"instructions": SYSTEM, "input": list(items), "tools": TOOLS}
        step = rollout.trajectory.path[number] if number < len(rollout.trajectory.path) else None
        reply = ModelResponse([_call(number, step.tool_input) if step else _answer(rollout)], Usage(), None)
        calls.append(RawCall(request, reply))
        if step is None:
            break
        output = {"type": "function_call_output", "call_id": f"call_{number}", "output": step.tool_output}
        items += [*reply.to_input_items(), output]
    made = tuple(ModelCall(model="m", agent="a", raw=number) for number in range(len(calls)))
    changes: dict[str, Any] = {"raw_calls": store.put_blob(pack(calls, store.put_blob)), "calls": made}
    if rollout.index == N - 1:
        changes |= {
            "status": "failed",
            "failure": Failure(kind="max_turns", type="MaxTurnsExceeded", message="too many"),
        }
    return rollout.model_copy(update=changes)


def _call(number: int, words: str | None) -> ResponseFunctionToolCall:
    arguments = f'{{"query": "{words}"}}'
    return ResponseFunctionToolCall(arguments=arguments, call_id=f"call_{number}", name="search", type="function_call")


def _answer(rollout: Rollout) -> ResponseOutputMessage:
    text = ResponseOutputText(annotations=[], text=rollout.trajectory.answer, type="output_text")
    return ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")


def main() -> None:
    """Generate, rank, time, print."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = str(asyncio.run(generate(Path(folder), groups, with_calls)))
        print(f"{groups:,} groups of {N}, generated in {time.perf_counter() - began:.0f} s", flush=True)
        timed("rescore", run, "-q", "--max-failures", str(groups * N))
        for form, *more in (("csv",), ("groups", "--include-failed")):
            to = str(Path(folder, f"out-{form}"))
            seconds, peak = timed("export", run, "--format", form, *more, "-o", to, "--allow-offline", "-q")
            print(f"{form:8} {seconds:7.1f} s  {peak:6.0f} MB resident, {groups / seconds:,.0f} groups/s", flush=True)


if __name__ == "__main__":
    main()
