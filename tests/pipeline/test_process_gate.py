"""The calls of a process of a rollout at the run's gates, with the line between the two in memory."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
import openai
import pytest

from harness.core.progress import Silent
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.gate import Gate, GateLesson, Patience
from harness.pipeline.process_gate import CallsElsewhere, GateElsewhere, GateOpen, GatesElsewhere

PATIENCE = Patience(give_up_s=60.0)
REFUSED = httpx2.Response(401, request=httpx2.Request("POST", "http://endpoint.invalid"))


class _Line:
    """Joins a gate of the run and what stands for it in the process, and notes what goes to and fro."""

    def __init__(self, tasks: anyio.abc.TaskGroup, told: list[str]) -> None:
        self.gate, self._told = Gate("the endpoint", PATIENCE, random.Random(0), Silent()), told
        self._elsewhere = CallsElsewhere({self.gate.name: self.gate}, self._down, tasks, self.tell_open)
        self._here = GatesElsewhere(Silent(), self._up)
        self.send = GateElsewhere(self.gate.name, PATIENCE, Silent(), self._here).send

    def tell_open(self) -> None:
        if self.gate.open != self._here.is_open:
            self._down(GateOpen(self.gate.open))

    def _up(self, news: Any) -> None:
        self._told.append(type(news).__name__)
        self._elsewhere.receive(news)

    def _down(self, news: Any) -> None:
        self._told.append(type(news).__name__)
        self._here.receive(news)


def on_a_line(work: Callable[[_Line], Awaitable[None]]) -> list[str]:
    told = list[str]()

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            await work(_Line(tasks, told))
            await anyio.wait_all_tasks_blocked()

    anyio.run(run)
    return told


async def reply() -> str:
    return "a reply"


async def refuse() -> str:
    raise openai.AuthenticationError("no such key", response=REFUSED, body=None)


def test_while_its_gate_is_open_a_call_waits_for_no_answer():
    async def work(line: _Line) -> None:
        line.tell_open()
        for _ in range(2):
            assert await line.send(reply) == "a reply"
            await anyio.wait_all_tasks_blocked()
        assert line.gate.has_answered

    assert on_a_line(work) == ["GateOpen", *["CallWaits", "CallEnded"] * 2]


def test_what_closes_the_gate_is_told_and_the_next_call_is_not_made():
    async def work(line: _Line) -> None:
        line.tell_open()
        with pytest.raises(openai.AuthenticationError):
            await line.send(refuse)
        with pytest.raises(EndpointDown, match="no such key"):
            await line.send(reply)
        assert not line.gate.has_answered

    ended = ["CallWaits", "CallEnded", "CallOver", "GateOpen"]
    assert on_a_line(work) == ["GateOpen", *ended, "CallWaits", "CallOver"]


def test_a_call_that_went_as_the_gate_closed_is_stopped():
    stopped = list[bool]()

    async def hang() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)
        return "never"

    async def work(line: _Line) -> None:
        line.tell_open()
        line.gate.learn(GateLesson(line.gate.name, given_up="given up elsewhere"))
        with pytest.raises(EndpointDown, match="given up elsewhere"):
            await line.send(hang)

    on_a_line(work)
    assert stopped == [True]
