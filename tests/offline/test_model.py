"""`offline-extractive` in the real SDK: it plans, searches with the tool it is given, and writes from what it found."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent, FunctionTool, ModelSettings, RunConfig, Runner, Tool, function_tool

from harness.offline.model import OfflineModel
from harness.offline.tool import parse_passages, search_tool, split_sentences

LANGUAGES = "Write an essay on the evolution of programming languages."
ON_TOPIC = [
    LANGUAGES,
    "Why did Lisp machines disappear?",
    "Compare COBOL and Fortran",
    "What is garbage collection?",
    "Who invented Prolog?",
    "Is Fortran good for numbers?",
]
OFF_TOPIC = [
    "How do I fry an egg?",
    "Where do penguins live?",
    "What do elephants eat?",
    "The best recipe for tomato soup",
    "How tall is the Eiffel Tower?",
    "Why is the sky blue?",
    "Give me an overview of the history of Portugal",
    "Who wrote Hamlet?",
    "How do planes stay up?",
    "What is the capital of France?",
]


@dataclass(frozen=True)
class Ran:
    answer: str
    searches: list[str]
    outputs: list[str]

    @property
    def found(self) -> set[str]:
        """Every sentence that stands in some result."""
        return {s for output in self.outputs for p in parse_passages(output) for s in split_sentences(p.text)}


def run(query: str, temperature: float = 0.0, seed: int = 0, tools: list[Tool] | None = None) -> Ran:
    async def go() -> Any:
        agent = Agent(
            name="a",
            instructions="Sum it up.",
            tools=[search_tool()] if tools is None else tools,
            model=OfflineModel(random.Random(seed)),
            model_settings=ModelSettings(temperature=temperature),
        )
        return await Runner.run(agent, query, run_config=RunConfig(tracing_disabled=True))

    items = anyio.run(go).to_input_list()
    calls = [json.loads(i["arguments"])["query"] for i in items if i.get("type") == "function_call"]
    outputs = [i["output"] for i in items if i.get("type") == "function_call_output"]
    return Ran(items[-1]["content"][0]["text"], calls, outputs)


@pytest.mark.parametrize("query", [LANGUAGES, OFF_TOPIC[0]])
def test_at_temperature_0_it_does_the_same_twice_whatever_its_rng(query: str) -> None:
    assert run(query, seed=1) == run(query, seed=2)


def test_above_temperature_0_it_does_the_same_only_with_the_same_rng() -> None:
    assert run(LANGUAGES, 0.8, seed=5) == run(LANGUAGES, 0.8, seed=5)


@pytest.mark.few(3)
@pytest.mark.parametrize("query", ON_TOPIC)
def test_eight_rngs_give_eight_answers_at_temperature_0_8(query: str) -> None:
    answers = {run(query, 0.8, seed).answer for seed in range(8)} | {run(query).answer}
    assert len(answers) == 9


@pytest.mark.parametrize("query", ON_TOPIC)
@pytest.mark.parametrize(("temperature", "seed"), [(0.0, 0), (0.8, 1), (2.0, 2)])
def test_every_sentence_of_an_answer_stands_in_some_search_result(query: str, temperature: float, seed: int) -> None:
    ran = run(query, temperature, seed)
    told = split_sentences(ran.answer)
    assert len(told) >= 3
    assert set(told) <= ran.found
    assert len(told) == len(set(told))


@pytest.mark.parametrize("query", OFF_TOPIC)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_it_says_so_where_the_corpus_has_nothing_on_the_subject(query: str, temperature: float) -> None:
    ran = run(query, temperature)
    assert ran.answer.startswith("The corpus has nothing on ")
    assert "Searches tried: " in ran.answer
    assert all(repr(search) in ran.answer for search in ran.searches)


def test_it_searches_before_it_writes_and_never_for_the_same_twice() -> None:
    for seed in range(8):
        searches = run(LANGUAGES, 0.8, seed).searches
        assert 1 <= len(searches) <= 5
        assert len(searches) == len(set(searches))


@pytest.mark.parametrize("query", ["", "?", "the", "🙂", "\0", "a" * 3000, "lisp " * 2000])
def test_odd_queries_get_an_answer(query: str) -> None:
    assert run(query).answer


def test_a_query_that_comes_as_a_list_of_messages_is_read() -> None:
    messages: Any = [
        {"role": "user", "content": "Hello."},
        {"role": "user", "content": [{"type": "input_text", "text": "What is Prolog?"}]},
    ]
    assert run(messages).answer == run("What is Prolog?").answer


def test_it_writes_from_whatever_its_tool_brings_and_from_nothing_else() -> None:
    @function_tool
    async def look_up(words: str) -> str:
        return f"Walruses sleep on the ice.\n\nWalruses eat clams, whatever {len(words)} letters say."

    @function_tool
    async def unfit(one: int, other: int) -> int:
        return one + other

    async def go() -> Any:
        agent = Agent(
            name="a",
            tools=[unfit, look_up],
            model=OfflineModel(random.Random(0)),
            model_settings=ModelSettings(temperature=0.0),
        )
        return await Runner.run(agent, "What do walruses eat?", run_config=RunConfig(tracing_disabled=True))

    answer = anyio.run(go).final_output
    assert "Walruses eat clams" in answer
    assert {s for s in split_sentences(answer) if "Walruses" not in s} == set()


def test_without_a_tool_it_says_that_it_knows_nothing() -> None:
    ran = run("What is Prolog?", tools=[])
    assert ran.searches == []
    assert ran.answer == "The corpus has nothing on 'prolog'."


def test_it_searches_the_user_s_own_texts(tmp_path: Path) -> None:
    (tmp_path / "walrus.txt").write_text(
        "The walrus sleeps on the ice in winter. The walrus was described by Linnaeus in 1758."
    )
    ran = run("Tell me of the walrus", tools=[search_tool(tmp_path)])
    assert set(split_sentences(ran.answer)) <= ran.found
    assert "Linnaeus" in ran.answer


def test_the_search_tool_says_what_it_is_and_takes_one_text() -> None:
    tool = search_tool()
    assert isinstance(tool, FunctionTool)
    assert (tool.name, list(tool.params_json_schema["properties"])) == ("search", ["query"])
    assert "library of articles" in tool.description
