"""The server's own log of what it was asked and said, and what an archive should hold by it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import rollout
from harness.core.records import Rollout, Step
from harness.core.settings import Api
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Script, Seen

N = 3
"""Rollouts: the anchor and two samples."""


def marked(examples: Iterable[str | Path]) -> list[Any]:
    """Return examples as parameters of a test; the example with an MCP server starts a process."""
    return [
        pytest.param(example, marks=[pytest.mark.process] if "mcp_notes" in str(example) else [])
        for example in examples
    ]


@dataclass
class Logged:
    """A script that remembers every request with the reply it gave."""

    script: Script
    exchanges: list[tuple[Seen, Say]] = field(default_factory=list)

    def __call__(self, seen: Seen) -> Reaction:
        said = self.script(seen)
        if isinstance(said, Say):
            self.exchanges.append((seen, said))
        return said


async def rolled_out(
    agent: str, query: str, script: Script, api: Api, model: str | None = "m"
) -> tuple[list[Rollout], Logged]:
    """Roll an agent out, and hold every rollout against the server's log: its steps, its answer, its temperatures."""
    logged = Logged(script)
    with FakeEndpoint(agent=logged).serving() as endpoint:
        at_once = N if api == "chat" else 1
        group = await rollout(agent, query, N, model=model, base_url=endpoint.base_url, api=api, concurrency=at_once)
    assert len(endpoint.requests) == len(logged.exchanges) == sum(len(r.calls) for r in group.rollouts)
    for done, exchanges in zip(group.rollouts, by_rollout(logged, group.rollouts), strict=True):
        assert steps_archived(done) == steps_seen(exchanges, answered=done.status == "ok")
        assert {seen.body["temperature"] for seen, _ in exchanges} == {0.0 if done.role == "anchor" else 0.8}
        assert done.effective.uniform
        if done.status == "ok" and done.trajectory.answer_type == "text":
            assert done.trajectory.answer == exchanges[-1][1].text
    return list(group.rollouts), logged


def tools_in(seen: Seen) -> list[str]:
    """Return the names of the function tools and handoffs that a request offers."""
    return [t.get("name") or t["function"]["name"] for t in seen.body.get("tools", [])]


def by_rollout(logged: Logged, rollouts: Sequence[Rollout]) -> list[list[tuple[Seen, Say]]]:
    """Split a log by rollout: by the seed that Chat Completions carries, else by who begins anew.

    The second way needs rollouts that ran one after another.
    """
    seeds = [r.requested.seed for r in rollouts]
    if None not in seeds:
        found: dict[int, list[tuple[Seen, Say]]] = defaultdict(list)
        for exchange in logged.exchanges:
            found[exchange[0].body["seed"]].append(exchange)
        assert found.keys() == set(seeds)
        return [found[seed] for seed in seeds if seed is not None]
    first, groups = logged.exchanges[0][0], list[list[tuple[Seen, Say]]]()
    for seen, said in logged.exchanges:
        if seen.system == first.system and seen.items == first.items:
            groups.append([])
        groups[-1].append((seen, said))
    return groups


def steps_seen(exchanges: Sequence[tuple[Seen, Say]], *, answered: bool) -> list[tuple[Any, ...]]:
    """Return the calls that one rollout was told to make, in the order told, with what came back for each.

    The last text is the answer, but a step where the rollout has none.
    """
    asked = [
        (name, arguments, said.reasoning if i == 0 else None)
        for _, said in exchanges
        for i, (name, arguments) in enumerate(said.calls)
    ]
    came_back = sorted({call for seen, _ in exchanges for call in _calls(seen)}, key=lambda c: _number(c[0]))
    assert [(name, arguments) for name, arguments, _ in asked] == [(c[1], json.loads(c[2])) for c in came_back]
    calls = [(*call, reasoning) for call, (_, _, reasoning) in zip(came_back, asked, strict=True)]
    return calls if answered else [*calls, (None, None, None, None, exchanges[-1][1].text)]


def steps_archived(done: Rollout) -> list[tuple[Any, ...]]:
    """Return the steps of a rollout but for guardrails, nested ones after the call that they happened in."""
    steps = [s for s in flatten(done.trajectory.path) if s.kind != "guardrail"]
    return [(s.call_id, s.tool_name, s.tool_input, s.tool_output, s.reasoning) for s in steps]


def flatten(steps: Sequence[Step]) -> list[Step]:
    """Return steps with those inside them."""
    return [one for s in steps for one in (s, *flatten(s.inner))]


def _calls(seen: Seen) -> Iterator[tuple[str, str, str, str]]:
    """Yield (id, name, arguments, output) of the answered calls in a request's history."""
    outputs = {
        i.get("tool_call_id") or i.get("call_id"): _text(i.get("output", i.get("content")))
        for i in seen.items
        if i.get("role") == "tool" or i.get("type") == "function_call_output"
    }
    for item in seen.items:
        told = [item] if item.get("type") == "function_call" else item.get("tool_calls") or []
        for call in told:
            what, key = call.get("function", call), call.get("call_id") or call["id"]
            yield key, what["name"], what["arguments"], _as_archived(what["name"], outputs[key])


def _as_archived(name: str, output: str) -> str:
    return f"handed over to {json.loads(output)['assistant']}" if name.startswith("transfer_to_") else output


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _number(call_id: str) -> list[int]:
    """Return the reply's number and the call's place in it, as the fake server numbers them."""
    return [int(part) for part in call_id.split("_")[1:]]
