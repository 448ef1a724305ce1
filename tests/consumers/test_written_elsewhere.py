"""Files that other packages write by themselves come back as trajectories: spans, datasets, traces of verifiers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.formats.trajectory_files import read_trajectories
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.formats.foreign_samples import GOOD, SAMPLES, TRACE, USER

pytestmark = [pytest.mark.consumers, pytest.mark.process]

TRACED = """\
import asyncio, sys
from pathlib import Path
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from google.protobuf.json_format import MessageToJson
from openai import AsyncOpenAI
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from {package} import OpenAIAgentsInstrumentor

kind, url, path = sys.argv[1:]
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider{options})

@function_tool
def look(word: str) -> str:
    "Look."
    return "Short waves scatter."

models = dict(chat=OpenAIChatCompletionsModel, responses=OpenAIResponsesModel)
model = models[kind]("m", AsyncOpenAI(base_url=url, api_key="none"))
agent = Agent(name="a", instructions="Be brief.", tools=[look], model=model)
asyncio.run(Runner.run(agent, "Why is the sky blue?"))
Path(path).write_text(MessageToJson(encode_spans(exporter.get_finished_spans())))
"""
LEFT_OUT = "a model call whose messages its trace's last call does not hold"


def looks_first(seen: Seen) -> Say:
    return Say("Rayleigh scattering.") if seen.tool_outputs else Say(calls=(("look", {"word": "sky"}),))


@pytest.mark.parametrize("kind", ["chat", "responses"])
@pytest.mark.parametrize(
    ("package", "options"),
    [
        ("openinference.instrumentation.openai_agents", ""),
        ("opentelemetry.instrumentation.openai_agents", ", capture_message_content=True"),
    ],
)
def test_spans_of_an_instrumented_agent_are_its_trajectory(package: str, options: str, kind: str, tmp_path: Path):
    pytest.importorskip(package)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.common")
    script = TRACED.format(package=package, options=options)
    with FakeEndpoint(looks_first, looks_first).serving() as endpoint:
        words = [sys.executable, "-c", script, kind, endpoint.base_url, str(tmp_path / "spans.json")]
        subprocess.run(words, check=True, cwd=ROOT, capture_output=True)
    (made,) = read_trajectories([tmp_path / "spans.json"])
    assert (made.format, made.query, made.answer) == ("otlp", USER["content"], GOOD["content"])
    looked = [(step.tool_name, step.tool_output) for step in made.path] == [("look", "Short waves scatter.")]
    assert (
        looked or LEFT_OUT in made.unplaced
    )  # of a Responses call this GenAI instrumentation writes no call of a tool


@pytest.mark.parametrize("name", ["kto", "kto with tools", "prompt-completion text", "alpaca", "sharegpt"])
def test_rows_of_a_dataset_come_back(name: str, tmp_path: Path):
    datasets: Any = pytest.importorskip("datasets")
    form, rows, answers, rewards, _ = SAMPLES[name]
    datasets.Dataset.from_list(rows).to_json(tmp_path / "rows.jsonl")
    made = list(read_trajectories([tmp_path / "rows.jsonl"]))
    assert [(each.format, each.answer) for each in made] == [(form, answer) for answer in answers]
    assert [each.reward for each in made] == rewards


def test_a_trace_of_verifiers_keeps_its_tokens_and_reward(tmp_path: Path):
    trace: Any = pytest.importorskip("verifiers.v1.trace")
    written = trace.WireTrace.model_validate(TRACE | {"agent": {"name": "agent", "config": {}}})
    (tmp_path / "traces.jsonl").write_text(written.model_dump_json() + "\n")
    (made,) = read_trajectories([tmp_path / "traces.jsonl"])
    assert (made.answer, made.reward, made.query_id) == (GOOD["content"], 0.75, "sky")
    assert made.turns[-1].tokens
    assert made.turns[-1].tokens.ids == (7, 8)
