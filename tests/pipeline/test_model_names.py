"""A run looks its models up in the lists of their endpoints beside its first calls, and waits for none."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.core.errors import Refused
from harness.core.progress import Silent
from harness.core.settings_sources import load
from harness.endpoints import model_list
from harness.formats.queries import query_from
from harness.pipeline.plan import RescoreOptions, prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, rescore_run, run_queries
from harness.rollouts.loading import load_agent
from tests.builders import AT
from tests.fake_endpoint import FakeEndpoint, Hang, Page, Reaction, Refuse, Seen, fair_judge, searching_agent

pytestmark = pytest.mark.anyio
DAY = (AT + timedelta(days=15)).date().isoformat()


class Notes(Silent):
    """Keeps what a run notes of models."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.all_there = threading.Event()
        self.wanted = 0

    def note(self, text: str) -> None:
        if "does not list" in text or "down on" in text:
            self.said.append(text)
        if len(self.said) >= self.wanted:
            self.all_there.set()


async def run(endpoint: FakeEndpoint, at: Path, notes: Notes | None = None, **settings: Any) -> RunResult:
    """Roll a query out and rank it; the judge's last words wait for the notes that are wanted."""
    notes, judge = notes or Notes(), endpoint.judge

    def in_time(seen: Seen) -> Reaction:
        if notes.wanted:
            notes.all_there.wait(20)
        return judge(seen)

    endpoint.judge = in_time
    environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-own"}
    wanted = load({"runs_dir": at / "runs", "n": 2, "model": "luna", "judge_model": "terra"} | settings)
    prepared = await prepare(load_agent("search", at), wanted, environ)
    around = RunEnvironment(environ, clock=lambda: AT, progress=notes)
    return await run_queries(prepared, [query_from("Why?")], around)


def unlisted(endpoint: FakeEndpoint, name: str, near: str) -> str:
    return f"{endpoint.host} does not list {name!r}, and may serve it all the same; did you mean {near!r}?"


async def test_what_a_list_says_of_the_agents_model_and_the_judges_is_noted(endpoint: FakeEndpoint, tmp_path: Path):
    notes = Notes()
    notes.wanted = 3
    endpoint.models = ["lunar", {"id": "terra", "shutdown_date": DAY}, "sol"]
    await run(endpoint, tmp_path, notes, vary="models=sol:1,soul:1")
    assert set(notes.said) == {
        unlisted(endpoint, "luna", "lunar"),
        unlisted(endpoint, "soul", "sol"),
        f"{endpoint.host} says that terra shuts down on {DAY}; name another with --judge-model",
    }
    assert endpoint.lists_read == ["sk-own"], "once for both"


@pytest.mark.parametrize("given", [["luna", "terra"], [], Refuse(404), Page(), Hang(100)], ids=repr)
async def test_a_list_without_news_or_that_never_comes_says_nothing_and_holds_nothing_up(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any
):
    monkeypatch.setattr(model_list, "LIST_PATIENCE_S", 1000.0)
    notes = Notes()
    endpoint.models = given
    assert (await run(endpoint, tmp_path, notes)).ranking_id
    assert notes.said == []


NO_MODEL = Refuse(404, "no such model", "model_not_found")


async def test_a_model_that_its_endpoint_refuses_is_an_error_that_names_the_nearest(
    endpoint: FakeEndpoint, tmp_path: Path
):
    endpoint.models = ["lunar", "tera"]
    endpoint.agent = lambda _: NO_MODEL
    with pytest.raises(Refused, match=r"does not have the model 'luna' .*; did you mean 'lunar'\?$"):
        await run(endpoint, tmp_path)
    assert not (tmp_path / "runs").exists(), "nothing was spent"
    endpoint.agent, endpoint.judge = searching_agent(), lambda _: NO_MODEL
    with pytest.raises(Refused, match=r"the judge's model 'terra' .*; did you mean 'tera'\? .*rescore"):
        await run(endpoint, tmp_path)


async def test_rescoring_asks_for_a_list_only_where_a_judge_is_refused(endpoint: FakeEndpoint, tmp_path: Path):
    endpoint.models = ["luna", "terra"]
    made = await run(endpoint, tmp_path, topology="none")
    environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-own"}
    read, endpoint.judge = len(endpoint.lists_read), fair_judge()
    changes = {"topology": "cyclic", "judge_model": "terra"}
    await rescore_run(made.path, changes, RunEnvironment(environ), RescoreOptions())
    assert len(endpoint.lists_read) == read == 1
    endpoint.judge = lambda _: NO_MODEL
    with pytest.raises(Refused, match=r"did you mean 'terra'\?"):
        await rescore_run(made.path, changes | {"judge_model": "tera"}, RunEnvironment(environ), RescoreOptions())


async def test_each_list_is_asked_for_with_the_key_of_its_own_endpoint(endpoint: FakeEndpoint, tmp_path: Path):
    with FakeEndpoint().serving() as other:
        other.models = ["tera"]
        other.judge = endpoint.judge
        made = await run(other, tmp_path, judge_base_url=endpoint.base_url)
        assert made.ranking_id
        assert other.lists_read == ["sk-own"]
        assert set(endpoint.lists_read) <= {"none"}


async def test_best_of_and_rollout_name_the_nearest_model_where_one_is_refused_and_ask_for_no_list_before(
    endpoint: FakeEndpoint,
):
    notes, working = Notes(), endpoint.agent

    def in_time(seen: Seen) -> Reaction:
        notes.all_there.wait(20)
        return working(seen)

    at: dict[str, Any] = {"n": 2, "model": "luna", "base_url": endpoint.base_url}
    endpoint.models = ["lunar", {"id": "terra", "shutdown_date": DAY}]
    assert (await harness.best_of("search", "Why?", judge="terra", **at)).judged
    assert endpoint.lists_read == []
    endpoint.agent, endpoint.judge = in_time, lambda _: NO_MODEL
    notes.wanted = 2
    best = await harness.best_of("search", "Why?", judge="tera", progress=notes, **at)
    assert set(notes.said) == {unlisted(endpoint, "luna", "lunar"), unlisted(endpoint, "tera", "terra")}
    assert "did you mean 'terra'?" in best.why
    endpoint.agent = lambda _: NO_MODEL
    for ask in (harness.best_of, harness.rollout):
        with pytest.raises(Refused, match=r"does not have the model 'luna' .*; did you mean 'lunar'\?$"):
            await ask("search", "Why?", **at)
