"""The calls to the agent's model: whether it replies, takes temperature and seed, and calls a function."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from agents import ModelSettings, function_tool

from harness.core.settings import Settings
from harness.doctor.agent_checks import CheckedAgent
from harness.doctor.checks import Check
from harness.doctor.failed_calls import failed_call
from harness.doctor.model_probe import ModelProbe, ProbeReply
from harness.endpoints.address import Endpoint

_WORD_TOKENS = 16
"""Enough for a word; the Responses API takes no lower limit."""
_CALL_TOKENS = 1024
"""Enough for a function call of a model that thinks first."""
_SAY_OK = "Reply with the word ok and nothing else."
_CALL = "Call the function search with the query 'arena'. Do not answer yourself."
_TOOL_ADVICE = (
    "vLLM: --enable-auto-tool-choice --tool-call-parser PARSER; llama.cpp: --jinja; or a model trained for tools"
)


@function_tool
def search(query: str) -> str:
    """Search for articles.

    Args:
        query: A few words to look for.
    """
    return f"No results for {query!r}."


def count_model_calls(agent: CheckedAgent) -> int:
    """Return how many calls `ask_model` makes if nothing is refused."""
    return (4 if agent.takes_seed else 3) + len(_further(agent))


async def ask_model(agent: CheckedAgent, settings: Settings) -> AsyncIterator[Check]:
    """Make the calls one after the other; where the first gets no reply the others are not made.

    Of several servers the first gets them, and each of the others one.
    """
    async for check in _ask_first(agent, settings):
        yield check
    for server in _further(agent):
        there = replace(agent, spec=replace(agent.spec, endpoint=server))
        probe = ModelProbe(there, settings)
        try:
            yield reply_check(there, await probe.ask(_SAY_OK, ModelSettings(), tokens=_WORD_TOKENS), "server reply")
        finally:
            await probe.aclose()


def _further(agent: CheckedAgent) -> Sequence[Endpoint]:
    """Return the servers beside the first, where the agent's models are asked at them."""
    return () if agent.has_own_endpoint else agent.spec.servers[1:]


async def _ask_first(agent: CheckedAgent, settings: Settings) -> AsyncIterator[Check]:
    probe = ModelProbe(agent, settings)
    try:
        first = reply_check(agent, await probe.ask(_SAY_OK, ModelSettings(), tokens=_WORD_TOKENS))
        yield first
        if first.status == "fail":
            for name in ("temperature", "seed", "tool call"):
                yield Check(name, "skipped", "not tried, since there was no reply")
            return
        greedy = ModelSettings(temperature=0.0)
        yield temperature_check(agent, await probe.ask(_SAY_OK, greedy, tokens=_WORD_TOKENS))
        if agent.takes_seed:
            yield seed_check(agent, await probe.ask(_SAY_OK, ModelSettings(), tokens=_WORD_TOKENS, seed=1))
        else:
            yield Check("seed", "skipped", "a run sends none here: only the chat API of an endpoint has seeds")
        yield tool_call_check(agent, await probe.ask(_CALL, ModelSettings(), tokens=_CALL_TOKENS, tools=[search]))
    finally:
        await probe.aclose()


def reply_check(agent: CheckedAgent, reply: ProbeReply, check: str = "reply") -> Check:
    """Say whether the model replies at all, and by which name."""
    if not reply.replied:
        return _failed(check, agent, reply)
    name = reply.call.wire.model if reply.call else None
    named = f", and calls itself {name}" if name and name != agent.spec.model else ""
    return Check(check, "ok", f"{agent.model_name} at {agent.host} replied in {reply.took_s:.1f} s{named}")


def temperature_check(agent: CheckedAgent, reply: ProbeReply) -> Check:
    """Say whether temperature 0, the anchor's, is accepted."""
    if not reply.replied:
        return _failed("temperature", agent, reply)
    if reply.left_out:
        advice = "name another --model for a greedy anchor, or stop there with --strict-temperature"
        return Check("temperature", "warn", "; ".join(reply.left_out), advice)
    return Check("temperature", "ok", "0 is accepted")


def seed_check(agent: CheckedAgent, reply: ProbeReply) -> Check:
    """Say whether a seed is accepted."""
    if not reply.replied:
        return _failed("seed", agent, reply)
    if reply.left_out:
        return Check("seed", "warn", "; ".join(reply.left_out), "nothing: the samples differ all the same")
    return Check("seed", "ok", "accepted")


def tool_call_check(agent: CheckedAgent, reply: ProbeReply) -> Check:
    """Say whether the function was called, and what came instead. Fails where the agent cannot do without."""
    calls = [item for item in reply.output if item.type == "function_call"]
    if any(call.name == search.name and _is_object(call.arguments) for call in calls):
        return Check("tool call", "ok", "a function is called when it should be")
    if calls:
        finding = f"comes back as {calls[0].name}({calls[0].arguments})"[:300]
        return Check("tool call", "warn", finding, _TOOL_ADVICE)
    if reply.cut:
        finding = f"none within {_CALL_TOKENS} tokens"
        return Check("tool call", "warn", finding, "take a model that thinks less, or see --timeout")
    if reply.replied:
        text = " ".join(" ".join(_texts(reply.output)).split())[:200]
        return Check("tool call", "warn", f"none: told to call a function, the model wrote {text!r}", _TOOL_ADVICE)
    failed = _failed("tool call", agent, reply)
    stops_run = agent.offers_functions  # otherwise no call of a run carries functions
    return Check("tool call", "fail" if stops_run else "warn", failed.found, _TOOL_ADVICE)


def _failed(name: str, agent: CheckedAgent, reply: ProbeReply) -> Check:
    return failed_call(name, reply.error, agent.model_name, agent.host, after_s=reply.took_s)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _texts(output: Sequence[Any]) -> list[str]:
    return [part.text for item in output if item.type == "message" for part in item.content if hasattr(part, "text")]
