"""A policy's server and its judge, and an agent with a tool, for tests of `rollout_groups`."""

from collections.abc import Callable
from itertools import count
from typing import Any

from agents import Agent, function_tool

from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, fair_judge
from tests.token_server import Kind, TokenServer

QUERIES = [f"Question {number}?" for number in range(20)]

SETTINGS: dict[str, Any] = {
    "model": "m",
    "judge_model": "j",
    "n": 3,
    "topology": "cyclic",
    "estimator": "margins",
    "retries": 0,
    "request_timeout": 2.0,
    "judge_timeout": 2.0,
    "give_up": 1.0,
}


@function_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"meaning of {word}"


def looker() -> Agent[Any]:
    return Agent(name="looker", instructions="Be short.", tools=[look_up])


def looks_up() -> Callable[[Seen], Reaction]:
    """Look a word up, then answer with a number; each answer is another."""
    numbers = count(1)

    def reply(seen: Seen) -> Say:
        if not seen.tool_outputs and seen.body.get("tools"):
            return Say(calls=(("look_up", {"word": "w"}),))
        return Say(f"Number {next(numbers)}.")

    return reply


def policy_server(script: Callable[[Seen], Any] | None = None, kind: Kind = "vllm") -> FakeEndpoint:
    """Return a server that tells tokens, and judges by the number in an answer."""
    return FakeEndpoint(TokenServer(script or looks_up(), kind), fair_judge(number_in))


def number_in(answer: str) -> int:
    return int("".join(filter(str.isdigit, answer)) or 0) % 11
