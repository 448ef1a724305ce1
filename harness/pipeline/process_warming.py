"""A rollout of a stand-in, before the agent is loaded: what a first rollout makes anew, each fork then has.

Modules that are imported late, the types of replies, the prices: a process that had to make them would take ten times
the processor time of its rollout. The stand-in's model is a process that is forked for it and listens on this machine.
"""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

from agents import Agent, Tool, function_tool
from pydantic import SecretStr

from harness.archive.store import MemoryStore
from harness.core.records import Query, Rollout
from harness.core.settings import Api, Settings
from harness.endpoints.address import Endpoint
from harness.pipeline.engines import open_run_context
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.loading import AgentEnv, from_object
from harness.rollouts.maker import BegunRollout, FirstCall, RolloutsHere

_TIMES = 8
"""Python makes code faster that has run some times; each fork would have to do so for itself."""


def warm_up(spec: AgentSpec, settings: Settings) -> bool:
    """Make a rollout of a stand-in on models such as those of `spec`; return whether it ended well.

    Where it does not, nothing is lost but time.
    """
    api: Api = spec.endpoint.api if spec.endpoint else "chat"
    with suppress(Exception), _model(api) as url:
        here = {"base_url": url, "key": SecretStr("none")}
        endpoint = spec.endpoint or Endpoint(base_url=url, api=api, key=SecretStr("none"))
        endpoint = None if spec.offline else endpoint.model_copy(update=here)
        tools: list[Tool] = [function_tool(_look_up, name_override="look_up")]
        agent = from_object(Agent(name="stand-in", instructions="Answer.", model="m", tools=tools))
        stand_in = AgentSpec(agent, endpoint, spec.offline, "m")
        asked = replace(settings, approve=(), upload_traces=False, redact=(), timeout=10.0, retries=0)
        tokens = "off" if settings.tokens == "off" else "auto"
        return asyncio.run(_roll_out(stand_in, replace(asked, model=None, vary=None, tokens=tokens)))
    return False


async def make_once(spec: AgentSpec, settings: Settings) -> None:
    """Make a packaged agent once, which opens its corpus. A user's own may open what processes must not share."""
    if spec.loaded.packaged:
        env = AgentEnv(spec.endpoint.api if spec.endpoint else "chat", spec.offline, settings.corpus, None, Random(0))
        async with spec.loaded.open(env):
            pass


async def _look_up(word: str) -> str:
    """Look a word up."""
    return word


async def _roll_out(spec: AgentSpec, settings: Settings) -> bool:
    async with open_run_context(spec, settings, MemoryStore(), RunEnvironment({})) as run_context:
        done = dict[int, Rollout]()
        query = Query(id="q", text="Why?")
        for _ in range(_TIMES):
            await RolloutsHere(run_context).make(BegunRollout(query, 1, FirstCall(), done, lambda: False, leads=False))
        return done[1].status == "ok" and len(done[1].trajectory.path) > 0


@contextmanager
def _model(api: Api) -> Generator[str]:
    """Give the address of a model that asks for a tool once, then answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pid = os.fork()
        if pid == 0:
            try:
                _answer(listener, api)
            finally:
                os._exit(0)
        past_proxies = os.environ.get("NO_PROXY")
        os.environ["NO_PROXY"] = "*"
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            del os.environ["NO_PROXY"]
            if past_proxies is not None:
                os.environ["NO_PROXY"] = past_proxies


def _answer(listener: socket.socket, api: Api) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as asked:
            while asked.readline():
                headers = dict(line.lower().split(b": ", 1) for line in iter(asked.readline, b"\r\n"))
                body = asked.read(int(headers[b"content-length"]))
                is_done = b'"role":"tool"' in body.replace(b" ", b"") or b"function_call_output" in body
                reply = json.dumps(stand_in_reply(api, is_done=is_done)).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
                connection.sendall(head.encode() + reply)


def stand_in_reply(api: Api, *, is_done: bool) -> Mapping[str, Any]:
    """Return the body of a model's reply: an answer if it `is_done`, else a call of the tool look_up."""
    return (_chat if api == "chat" else _response)(is_done=is_done)


_CALL = {"name": "look_up", "arguments": '{"word": "why"}'}


def _chat(*, is_done: bool) -> Mapping[str, Any]:
    calls = [{"id": "call_1", "type": "function", "function": _CALL}]
    message = {"content": "Done."} if is_done else {"content": None, "tool_calls": calls}
    finish = "stop" if is_done else "tool_calls"
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


def _response(*, is_done: bool) -> Mapping[str, Any]:
    text: dict[str, Any] = {"type": "output_text", "text": "Done.", "annotations": []}
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    call = {"id": "f", "type": "function_call", "call_id": "call_1", "status": "completed", **_CALL}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18, **details}
    of_all: dict[str, Any] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
    head = {"id": "r", "object": "response", "created_at": 0, "model": "m"}
    return {**head, "output": [message if is_done else call], "usage": usage, **of_all}
