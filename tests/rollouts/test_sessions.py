"""An app's session: each rollout has a fresh one, and one that rollouts would share is refused before any call."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, SQLiteSession
from agents.memory import SessionABC

import harness
from harness.core.errors import UsageError
from harness.pipeline.app_checks import shared_place
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.rollouts.test_capture import roll_out
from tests.rollouts.test_replay import archived, identical

pytestmark = pytest.mark.anyio
NOWHERE: dict[str, Any] = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}


class Listed(SessionABC):
    """Keeps its items in a list, as an app's own session may."""

    def __init__(self, session_id: str = "mine") -> None:
        self.session_id, self.items, self.closed = session_id, list[Any](), 0

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return self.items

    async def add_items(self, items: list[Any]) -> None:
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop()

    async def clear_session(self) -> None:
        self.items.clear()

    async def close(self) -> None:
        self.closed += 1


class Stored(Listed):
    """Keeps its items at an address; which, only the app knows."""

    def __init__(self, session_id: str, url: str, client: object) -> None:
        self.session_id, self.url, self.client, self.closed = session_id, url, client, 0


def plain(seen: Seen) -> Say:
    return Say(f"Answer to {len(seen.items)}.")


async def test_each_rollout_has_a_fresh_session_that_is_closed_at_its_end():
    made: list[Listed] = []

    def session(query: harness.Query) -> Listed:
        made.append(Listed(query.id))
        return made[-1]

    agent = harness.AppAgent(Agent(name="a"), session=session)
    rollouts, requests = await roll_out(agent, plain, n=3)
    assert [rollout.trajectory.answer for rollout in rollouts] == ["Answer to 1."] * 3
    assert [len(seen.items) for seen in requests] == [1] * 3
    assert [len(each.items) for each in made] == [0, 0, 2, 2, 2], "two were made to see whether they are one"
    assert [each.closed for each in made] == [1] * 5


APP = """
import uuid
from pathlib import Path
from agents import Agent, Runner, SQLiteSession, function_tool

DATABASE = Path(__file__).with_name("chat.db")

async def session(query):
    made = SQLiteSession(uuid.uuid4().hex, DATABASE)
    await made.add_items([{"role": "user", "content": "Before."}, {"role": "assistant", "content": "Yes?"}])
    return made

@function_tool
async def ask() -> str:
    "Ask twice, and go on where the first question ended."
    own = SQLiteSession("inner")
    await Runner.run(Agent(name="inner"), "First.", session=own)
    return (await Runner.run(Agent(name="inner"), "Second.", session=own)).final_output

agent = Agent(name="app", tools=[ask])
"""


def asking(seen: Seen) -> Say:
    if seen.tool_outputs or not seen.body.get("tools"):
        return Say(f"Answer to {len(seen.items)}.")
    return Say(calls=(("ask", {}),))


@pytest.mark.few(1)
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_session_with_a_history_is_captured_turn_by_turn_and_replayed(api: str, tmp_path: Path):
    file = tmp_path / "app.py"
    file.write_text(APP)
    rollouts, requests = await roll_out(str(file), asking, api, n=2)
    for rollout in rollouts:
        assert (rollout.status, rollout.capture, rollout.trajectory.answer) == ("ok", "full", "Answer to 5.")
        assert rollout.trajectory.path[0].tool_output == "Answer to 3."
        assert [call.agent for call in rollout.calls] == ["app", "inner", "inner", "app"]
    assert sorted(len(seen.items) for seen in requests) == [1, 1, 3, 3, 3, 3, 5, 5]
    run = await archived(str(file), "Go.", asking, tmp_path / "runs", api)
    await identical(run, str(file))
    await identical(run, str(file), live_tools=True)


async def test_a_value_serves_one_rollout_and_its_replay_gets_a_fresh_one(tmp_path: Path):
    session = SQLiteSession("one")
    agent = harness.AppAgent(Agent(name="a"), session=session)
    with FakeEndpoint(agent=plain).serving() as endpoint:
        at: dict[str, Any] = {"model": "m", "base_url": endpoint.base_url, "runs_dir": tmp_path, "topology": "none"}
        run = await harness.run(agent, "Hi.", n=1, judge_model="offline-features", **at)
    assert len(await session.get_items()) == 2
    (outcome,) = await harness.replay(run, agent)
    assert outcome.divergence is None
    assert len(await session.get_items()) == 2


ONE = Listed()


def given(path: Path) -> dict[str, Any]:
    return {
        "a value": ONE,
        "one object": lambda: ONE,
        "one id in one database": lambda: SQLiteSession("me", path / "chat.db"),
        "one id at one address": lambda: Stored("me", "postgres://db", object()),
    }


@pytest.mark.parametrize("how", given(Path()))
async def test_a_session_that_rollouts_would_share_is_refused_with_the_remedy(how: str, tmp_path: Path):
    with pytest.raises(UsageError, match=r"n=3.*: .*a function session\(query\) that makes a new one each time"):
        await harness.rollout(Agent(name="a"), "Hi.", n=3, session=given(tmp_path)[how], **NOWHERE)


@pytest.mark.parametrize("how", ["a value", "one object"])
async def test_with_one_rollout_a_query_two_queries_may_not_share_it_either(how: str, tmp_path: Path):
    with pytest.raises(UsageError, match=r"n=1.*queries"):
        await harness.run(
            Agent(name="a"), ["One.", "Two."], n=1, session=given(tmp_path)[how], runs_dir=tmp_path, **NOWHERE
        )
    assert not harness.runs(tmp_path)


async def test_with_one_rollout_a_query_a_session_named_for_its_query_is_its_own(tmp_path: Path):
    agent = harness.AppAgent(Agent(name="a"), session=lambda query: SQLiteSession(query.id, tmp_path / "chat.db"))
    ((rollout,), _) = await roll_out(agent, plain)
    assert rollout.status == "ok"


def test_what_tells_two_sessions_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "chat.db"
    apart = [
        (SQLiteSession("a"), SQLiteSession("a")),
        (SQLiteSession("a", file), SQLiteSession("b", file)),
        (SQLiteSession("a", file), SQLiteSession("a", tmp_path / "other.db")),
        (Listed(), Listed()),
        (Stored("a", "one", 0), Stored("a", "two", 0)),
        (Listed(uuid.uuid4().hex), Stored("a", "one", 0)),
    ]
    for one, other in apart:
        assert shared_place(one, other, isolated=False) is None
    monkeypatch.chdir(tmp_path)
    inside = SQLiteSession("a", "chat.db"), SQLiteSession("a", "chat.db")
    assert shared_place(*inside, isolated=True) is None
    assert shared_place(*inside, isolated=False) == "SQLiteSession with session_id 'a' in chat.db"
