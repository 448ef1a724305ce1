"""`--vary auto` finds a way that works, and paraphrases are asked for once: both before the first rollout."""

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from agents import Agent
from rich.console import Console

import harness
from harness.archive.reader import RunReader
from harness.archive.run_info import WayFound, list_runs
from harness.core.errors import HarnessError, Refused, UsageError
from harness.core.progress import Silent
from harness.core.records import Group
from harness.core.settings_sources import load
from harness.pipeline.plan import prepare
from harness.report.summary.ranking import summarize
from harness.report.summary.rollouts import anchor_is_greedy
from harness.report.terminal.show import overview
from harness.rollouts.loading import from_object
from tests.fake_endpoint import FakeEndpoint, Raw, Reaction, Refuse, Say, Seen, fair_judge

AGENT = Agent(name="a", instructions="Answer from the sources.")
PARAPHRASES = "Work from the sources.\n---\nLet the sources answer.\n---\nSources first.\n---\nCite, then answer."


@pytest.fixture(autouse=True)
def a_machine_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Noting(Silent):
    def __init__(self) -> None:
        self.said = list[str]()

    def note(self, text: str) -> None:
        self.said.append(text)


def stub(temperature: str, effort: str = "heard", paraphrases: str = PARAPHRASES) -> Callable[[Seen], Reaction]:
    """A model that answers alike to all that it takes for the same, and takes temperature and effort as named."""
    number = count()

    def reply(seen: Seen) -> Reaction:
        heard = [seen.system, seen.user]
        if "temperature" in seen.body and temperature == "refused":
            return Refuse(400, "Unsupported parameter: 'temperature'", param="temperature")
        if temperature == "drawn" or (temperature == "heard" and seen.body.get("temperature")):
            heard.append(str(next(number)))
        if "reasoning_effort" in seen.body and effort == "refused":
            return Refuse(400, "Unrecognized request argument supplied: reasoning_effort")
        if effort == "heard":
            heard.append(str(seen.body.get("reasoning_effort")))
        return Say(paraphrases if "paraphrases" in seen.user else f"{hash(tuple(heard))} and more words")

    return reply


@dataclass(frozen=True)
class Ran:
    vary: str | None
    found: WayFound | None
    group: Group
    usd: float | None
    shown: str
    said: list[str]


async def ran(tmp_path: Path, endpoint: FakeEndpoint, **settings: Any) -> Ran:
    progress = Noting()
    own: dict[str, Any] = {"n": 4, "model": "m", "base_url": endpoint.base_url, "topology": "none", "vary": "auto"}
    own |= {"runs_dir": tmp_path / "runs", "prices": {"m": "1/10"}, "progress": progress, "agent": AGENT} | settings
    result = await harness.run(own.pop("agent"), ["q"], **own)
    with RunReader(result.path) as reader:
        group, ranking = reader.group(next(iter(reader.queries()))), reader.ranking(None)
        summary, console = summarize(reader, ranking), Console(width=300, file=StringIO())
        console.print(overview(reader, ranking, summary, 300))
        shown = cast("StringIO", console.file).getvalue()
        return Ran(reader.settings.vary, reader.info.way_found, group, summary.agents.cost.usd, shown, progress.said)


FOUND = [
    (stub("refused"), "effort=low,medium,high", ("model 'm' refuses the setting temperature",)),
    (stub("ignored"), "effort=low,medium,high", ("model 'm' ignores a temperature of 0.8",)),
    (
        stub("refused", "ignored"),
        "instructions=[",
        ("model 'm' refuses the setting temperature", "it ignores a reasoning effort"),
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("model", "way", "why"), FOUND)
async def test_auto_gives_distinct_samples_where_a_temperature_is_refused_or_ignored(
    tmp_path: Path, model: Callable[[Seen], Reaction], way: str, why: tuple[str, ...]
):
    with FakeEndpoint(agent=model).serving() as endpoint:
        run = await ran(tmp_path, endpoint)
    anchor, *samples = run.group.rollouts
    assert len({rollout.trajectory.answer for rollout in samples}) == 3
    assert len({rollout.recipe and rollout.recipe.name for rollout in samples}) == 3
    assert (anchor.recipe, anchor.requested.temperature) == (None, None)
    assert anchor_is_greedy(run.group) is None
    assert str(run.vary).startswith(way)
    assert run.found
    assert run.found.found == why
    assert f"samples vary by auto: {run.found.usage.requests} calls before the first rollout; {why[0]}" in run.shown
    (note,) = [note for note in run.said if "samples vary by" in note]
    assert why[0] in note


@pytest.mark.anyio
@pytest.mark.parametrize(("temperature", "greedy"), [("heard", True), ("refused", False), ("ignored", None)])
async def test_no_anchor_is_called_greedy_whose_temperature_was_not_heard(
    tmp_path: Path, temperature: str, greedy: bool | None
):
    with FakeEndpoint(agent=stub(temperature)).serving() as endpoint:
        run = await ran(tmp_path, endpoint, vary="temperature")
    assert anchor_is_greedy(run.group) is greedy


@pytest.mark.anyio
async def test_auto_keeps_to_temperature_where_that_works(tmp_path: Path):
    with FakeEndpoint(agent=stub("heard")).serving() as endpoint:
        run = await ran(tmp_path, endpoint)
    assert run.vary == "temperature"
    assert [rollout.requested.temperature for rollout in run.group.rollouts] == [0, 0.8, 0.8, 0.8]


@pytest.mark.anyio
async def test_what_a_server_draws_whatever_the_temperature_is_seen_at_temperature_0(tmp_path: Path):
    with FakeEndpoint(agent=stub("drawn", "refused")).serving() as endpoint:
        run = await ran(tmp_path, endpoint)
    assert run.found
    assert run.found.found == ("model 'm' ignores a temperature of 0", "it refuses a reasoning effort")


@pytest.mark.anyio
async def test_a_reply_that_echoes_another_temperature_tells_that_it_is_ignored(tmp_path: Path):
    inner = stub("heard")

    def echoing(seen: Seen) -> Reaction:
        said = inner(seen)
        assert isinstance(said, Say)
        message = {"role": "assistant", "content": said.text}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        return Raw(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "temperature": 1.0}
        )

    with FakeEndpoint(agent=echoing).serving() as endpoint:
        run = await ran(tmp_path, endpoint, prices={"m": "0/0"})
    assert run.found
    assert run.found.found[0] == "model 'm' ignores a temperature of 0.8"


@pytest.mark.anyio
async def test_paraphrases_are_asked_for_once_counted_and_kept(tmp_path: Path):
    with FakeEndpoint(agent=stub("heard")).serving() as endpoint:
        run = await ran(tmp_path, endpoint, vary="instructions=4")
        assert sum("paraphrases" in seen.user for seen in endpoint.of_agent) == 1
        again = await ran(tmp_path, endpoint, vary="instructions=4")
        assert sum("paraphrases" in seen.user for seen in endpoint.of_agent) == 1
    instructions = [rollout.instructions for rollout in run.group.rollouts]
    assert instructions[0] == AGENT.instructions
    assert len(set(instructions[1:])) == 3
    assert set(instructions[1:]) < set(PARAPHRASES.split("\n---\n"))
    assert again.vary == run.vary
    assert again.found is None
    assert run.found
    assert run.found.price_usd == pytest.approx(300e-6)
    prices = [rollout.price_usd or 0 for rollout in run.group.rollouts]
    assert run.usd == pytest.approx(sum(prices) + 300e-6)


@pytest.mark.anyio
@pytest.mark.parametrize("vary", ["instructions=4", "auto"])
async def test_paraphrases_that_came_short_are_said_to_also_where_they_were_kept(tmp_path: Path, vary: str):
    few = "Work from the sources.\n---\nSources first."
    with FakeEndpoint(agent=stub("refused", "refused", few)).serving() as endpoint:
        for _ in range(2):
            run = await ran(tmp_path, endpoint, vary=vary)
            assert run.said.count("the model was asked for 4 paraphrases and wrote 2") == 1
        assert sum("paraphrases" in seen.user for seen in endpoint.of_agent) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("vary", ["instructions=4", "auto"])
async def test_paraphrases_that_were_paid_for_outlive_a_run_that_could_not_begin(tmp_path: Path, vary: str):
    (tmp_path / "no folder").write_text("")
    with FakeEndpoint(agent=stub("refused", "refused")).serving() as endpoint:
        with pytest.raises(UsageError, match="no folder"):
            await ran(tmp_path, endpoint, vary=vary, runs_dir=tmp_path / "no folder")
        run = await ran(tmp_path, endpoint, vary=vary)
        assert sum("paraphrases" in seen.user for seen in endpoint.of_agent) == 1
    assert str(run.vary).startswith("instructions=[")


@pytest.mark.anyio
async def test_a_dry_run_says_what_would_be_asked_and_then_shows_the_texts(tmp_path: Path):
    with FakeEndpoint(agent=stub("heard")).serving() as endpoint:
        chosen = {"vary": "instructions=4", "model": "m", "base_url": endpoint.base_url, "prices": {"m": "1/10"}}
        environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "OPENAI_API_KEY": "k"}
        before = await prepare(from_object(AGENT), load(chosen), environ)
        assert before.settings.vary == "instructions=4"
        assert before.way_cost
        assert before.way_cost.high > 0
        assert endpoint.requests == []
        await ran(tmp_path, endpoint, vary="instructions=4")
        after = await prepare(from_object(AGENT), load(chosen), environ)
    assert "Sources first." in str(after.settings.vary)
    assert after.way_cost
    assert after.way_cost.high == 0


async def dynamic(*_: Any) -> str:
    return "Be brief."


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("agent", "model", "settings", "complaint"),
    [
        (
            Agent(name="a"),
            stub("heard"),
            {"vary": "instructions=4"},
            "the instructions of agent 'a' are made by a func",
        ),
        (
            Agent(name="a", instructions=dynamic),
            stub("heard"),
            {"vary": "instructions=4"},
            "write variants into a FILE",
        ),
        (
            Agent(name="a"),
            stub("refused", "refused"),
            {},
            "refuses the setting temperature; it refuses a reasoning eff",
        ),
        (AGENT, stub("heard", paraphrases="---"), {"vary": "instructions=4"}, "asked for 4 paraphrases and wrote none"),
        (AGENT, stub("heard"), {"max_cost": 0.0}, "does not allow it"),
        (AGENT, stub("heard"), {"shard": "2/2"}, "auto asks the model first, and parts of a run"),
        (AGENT, stub("heard"), {"shard": "2/2", "vary": "instructions=4"}, "name the way that it found"),
        (AGENT, lambda _: Refuse(401), {}, "asks for the key"),
        (AGENT, lambda _: Refuse(400), {}, "refused the first call to the model 'm'"),
        (AGENT, lambda _: Refuse(422), {}, "refused the first call to the model 'm'"),
        (AGENT, stub("refused"), {"strict_temperature": True}, "strict_temperature"),
    ],
)
async def test_where_no_way_is_left_there_is_no_run(
    tmp_path: Path, agent: Agent[Any], model: Callable[[Seen], Reaction], settings: dict[str, Any], complaint: str
):
    with (
        FakeEndpoint(agent=model).serving() as endpoint,
        pytest.raises((UsageError, Refused), match=complaint),
    ):
        await ran(tmp_path, endpoint, agent=agent, **settings)
    assert not (tmp_path / "runs").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("vary", ["auto", "instructions=3"])
async def test_best_of_which_keeps_nothing_refuses_to_ask_first(vary: str):
    with FakeEndpoint().serving() as endpoint:
        for door in (harness.best_of, harness.rollout):
            with pytest.raises(UsageError, match=r"asks the model first"):
                await door(AGENT, "q", n=2, model="m", base_url=endpoint.base_url, vary=vary)
    assert endpoint.requests == []


class TwoModels:
    """The model `a` takes a temperature, and any effort but low; `b` refuses a temperature. Counts what was paid."""

    def __init__(self) -> None:
        self.a, self.refusing, self.b = stub("heard"), stub("heard", "refused"), stub("refused")
        self.paid = 0

    def __call__(self, seen: Seen) -> Reaction:
        of_a = self.refusing if seen.body.get("reasoning_effort") == "low" else self.a
        reply = (of_a if seen.body["model"] == "a" else self.b)(seen)
        self.paid += isinstance(reply, Say)
        return reply

    async def compared(self, runs_dir: Path, queries: int, max_cost: float) -> None:
        with FakeEndpoint(self, fair_judge()).serving() as endpoint:
            sides = [Agent(name=model, instructions="Answer.", model=model) for model in ("a", "b")]
            at: dict[str, Any] = {"base_url": endpoint.base_url, "judge_model": "j", "runs_dir": runs_dir}
            at |= {"prices": {"a": "1/10", "b": "1/10", "j": "0/0"}, "max_cost": max_cost, "vary": "auto"}
            await harness.compare(*sides, queries=[f"q{number}" for number in range(queries)], **at)


@pytest.mark.anyio
async def test_the_sides_of_a_comparison_vary_by_what_works_for_all_of_them(tmp_path: Path):
    await TwoModels().compared(tmp_path, queries=1, max_cost=1.0)
    for run in list_runs(tmp_path):
        with RunReader(run) as reader:
            assert reader.settings.vary == "effort=medium,high"
            assert reader.info.way_found
            assert reader.info.way_found.found == ("model 'b' refuses the setting temperature",)


@pytest.mark.anyio
async def test_what_the_sides_of_a_comparison_ask_first_counts_against_its_ceiling(tmp_path: Path):
    models = TwoModels()
    with pytest.raises(HarnessError, match=r"max_cost=0.0112.* spent"):
        await models.compared(tmp_path, queries=20, max_cost=0.0112)
    assert 0.0112 - 0.0004 < 300e-6 * models.paid <= 0.0112
