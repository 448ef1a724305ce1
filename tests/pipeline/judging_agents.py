"""Agents that judge by a script: a model of theirs that calls tools and answers as a function says."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, Model, ModelResponse, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from harness.archive.store import MemoryStore
from harness.core.progress import Silent
from harness.core.settings_sources import load
from harness.endpoints.credentials import Credentials
from harness.judging.judges import PairwiseJudge
from harness.pipeline.judge_agents import resolve_jury
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
from harness.rollouts.loading import from_object
from tests.judging.replies import WRITING

Calls = Sequence[tuple[str, dict[str, Any]]]
Says = Callable[[str, list[str]], Calls | str]
"""From the question, and what the tools gave so far, to calls of tools or the verdict's text."""


class ScriptedModel(Model):
    """A judge's own model."""

    model = "scripted"

    def __init__(self, says: Says) -> None:
        self._says = says
        self.tools: list[str] = []
        self.calls = 0

    async def get_response(self, system: Any, input: Any, settings: Any, tools: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
        self.calls += 1
        self.tools = [tool.name for tool in tools]
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        outputs = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        said = self._says(items[0]["content"], outputs)
        output: list[Any] = []
        if isinstance(said, str):
            text = ResponseOutputText(type="output_text", text=said, annotations=[])
            output.append(
                ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")
            )
        else:
            output += [
                ResponseFunctionToolCall(
                    call_id=f"{len(items)}-{n}", name=tool, arguments=json.dumps(given), type="function_call"
                )
                for n, (tool, given) in enumerate(said)
            ]
        return ModelResponse(
            output=output, usage=Usage(requests=1, input_tokens=100, output_tokens=10), response_id=None
        )

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class Noted(Silent):
    """A watcher that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@asynccontextmanager
async def seated(
    agent: Agent[Any], store: MemoryStore | None = None, progress: Noted | None = None, **settings: Any
) -> AsyncGenerator[PairwiseJudge]:
    """Give the judge that an agent is, as a command would seat it."""
    chosen, credentials = load({"judge_agent": agent, **settings}), Credentials.naming({})
    spec, agents = await resolve_jury(chosen, credentials, None, offline=False, loaded=[from_object(agent)])
    run_env = RunEnvironment({}, progress=progress or Silent())
    async with open_judge_models(spec, chosen, credentials, store or MemoryStore(), run_env, agents=agents) as models:
        yield PairwiseJudge(models[0], WRITING, require_citations=chosen.require_citations)
