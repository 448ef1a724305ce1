"""What a server sends with success in place of a model's reply: it is asked again, and to blame in the end."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, function_tool

import harness
from harness.core.errors import Refused
from harness.core.progress import Silent
from harness.core.records import Rollout
from harness.core.settings import Api
from tests.fake_endpoint import FakeEndpoint, Page, Raw, Reaction, Say, Seen, Torn, searching_agent, verdict

SEARCH = (("search", {"query": "languages"}),)
SILENCE: dict[str, Any] = {"error": {"message": "upstream is overloaded", "code": 502}}
BAD: dict[str, tuple[Reaction, str]] = {
    "page": (Page("<!doctype html><p>Bad gateway"), "a web page: '<!doctype html><p>Bad gateway'"),
    "empty": (Page(""), "an empty body"),
    "half a body": (Torn(framed=True), "a body that is cut short, or no JSON"),
    "half a body, unframed": (Torn(), "Connection error"),
    "an error": (Raw(SILENCE), "an error in place of a reply: upstream is overloaded"),
    "a list": (Page("[1]"), "JSON that is no model's reply: '[1]'"),
    "no choices": (Raw({"choices": [], "output": None}), "JSON that is no model's reply"),
    "a failed choice": (Raw({"choices": [{"finish_reason": "error", "error": "gone", "message": {}}]}), "reply: gone"),
    "a failed response": (Raw({"status": "failed", "output": [], "error": {"message": "gone"}}), "reply: gone"),
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "a" * 40)


@function_tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def run(folder: Path, *urls: str, queries: Iterable[str] = ("Why?",), **settings: Any) -> harness.Run:
    values: Any = {"n": 1, "model": "m", "topology": "none", "retries": 1, "report": False, **settings}
    agent = Agent(name="a", instructions="Answer.", tools=[search])
    return harness.run_sync(agent, list(queries), base_url=list(urls), runs_dir=folder, **values)


def by_query(made: harness.Run) -> dict[str, Rollout]:
    return {query.text: made.rollouts(query)[0] for query in made.queries}


def spoilt(*, once: bool) -> Callable[[Seen], Reaction]:
    """Search first; then give what the question names, always or once."""
    answers, spoilt_already = searching_agent(), set[str]()

    def script(seen: Seen) -> Reaction:
        if not seen.tool_outputs or (once and seen.user in spoilt_already):
            return answers(seen)
        spoilt_already.add(seen.user)
        return BAD[seen.user][0]

    return script


@pytest.mark.few(1)
@pytest.mark.parametrize(("api", "tokens"), [("chat", "off"), ("chat", "auto"), ("responses", "off")])
def test_a_reply_that_is_none_is_asked_for_again(api: Api, tokens: str, tmp_path: Path) -> None:
    with FakeEndpoint(spoilt(once=True)).serving() as server:
        made = run(tmp_path, server.base_url, queries=BAD, api=api, tokens=tokens, concurrency=3)
    assert {(rollout.status, rollout.retries) for rollout in by_query(made).values()} == {("ok", 1)}


@pytest.mark.parametrize(("api", "tokens"), [("chat", "off"), ("chat", "auto"), ("responses", "off")])
def test_where_none_ever_comes_the_server_is_to_blame_in_plain_words(api: Api, tokens: str, tmp_path: Path) -> None:
    with FakeEndpoint(spoilt(once=False)).serving() as server:
        made = run(tmp_path, server.base_url, queries=BAD, api=api, tokens=tokens, retries=0, concurrency=1)
    for what, rollout in by_query(made).items():
        kind, words = ("network", "APIConnectionError") if "unframed" in what else ("api", "NoReply"), BAD[what][1]
        assert rollout.failure
        assert (rollout.failure.kind, rollout.failure.type) == kind, what
        assert words in rollout.failure.message
        assert rollout.trajectory.path[0].tool_name == "search", "what came before is kept"


def test_a_page_at_the_first_call_asks_whether_the_address_is_that_of_an_api(tmp_path: Path) -> None:
    with FakeEndpoint(lambda _: Page("<html>Welcome")).serving() as server, pytest.raises(Refused) as refused:
        run(tmp_path, server.base_url)
    text = str(refused.value)
    assert text.startswith(f"{server.host} gives no model's replies (the endpoint answered with a web page")
    assert "Most end in /v1" in text
    assert len(server.requests) == 2
    assert not list(tmp_path.iterdir())


def test_of_several_servers_one_that_gives_pages_rests(tmp_path: Path) -> None:
    notes = list[str]()

    class Notes(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    with FakeEndpoint(lambda _: Page()).serving() as ill, FakeEndpoint().serving() as well:
        made = run(tmp_path, ill.base_url, well.base_url, n=8, concurrency=2, progress=Notes())
    served = Counter((r.status, r.served_by) for r in made.rollouts(made.queries[0]))
    assert served == {("ok", well.host): 8}
    assert len(ill.requests) <= 4, "one rollout of each place, tried twice"
    assert [note for note in notes if "rests, and other servers are asked" in note]


def test_counts_that_no_reply_can_have_wreck_no_sum_and_the_user_hears_of_them_once(tmp_path: Path) -> None:
    notes = list[str]()

    class Notes(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    def agent(seen: Seen) -> Say:
        return Say("Seen.", usage=(10**18, 20)) if seen.tool_outputs else Say(calls=SEARCH, usage=(10**18, 20))

    def judging(_: Seen) -> Reaction:
        return Say(verdict(7, 5), usage=(7, 10**12))

    with FakeEndpoint(agent, judging).serving() as server:
        settings: Any = {"topology": "anchor", "judge_model": "j", "n": 2, "progress": Notes()}
        made = run(tmp_path, server.base_url, **settings)
    for rollout in made.rollouts(made.queries[0]):
        assert (rollout.usage.input, rollout.usage.output, rollout.price_usd) == (None, 40, None)
    (ranked,) = made.ranking().groups
    assert (ranked.judge_usage.input, ranked.judge_usage.output) == (7, None)
    assert len([note for note in notes if "counts tokens as no reply can have them" in note]) == 1
