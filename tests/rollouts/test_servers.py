"""Several servers of one model: fewest rollouts first, each stays, one that fails rests and is tried again."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import harness
from harness.archive.reader import RunReader
from harness.core.errors import Refused, UsageError
from harness.core.progress import Silent
from harness.core.records import Rollout
from harness.core.settings_sources import load
from harness.endpoints.address import agent_servers, judge_endpoint
from harness.endpoints.credentials import Credentials
from harness.rollouts.engine import ServerAtWork, fewest_outstanding
from tests.fake_endpoint import Cut, FakeEndpoint, Hang, Refuse, Say, Seen, searching_agent

KEY = "sk-" + "a" * 40
QUERIES = ["What is one?", "What is two?"]


Servers = Callable[..., FakeEndpoint]


@pytest.fixture
def servers() -> Iterator[Servers]:
    with ExitStack() as opened:
        yield lambda *script: opened.enter_context(FakeEndpoint(*script).serving())


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def run(folder: Path, *urls: str, **settings: Any) -> harness.Run:
    values: Any = {"n": 4, "model": "m", "topology": "none", "retries": 1, "report": False, **settings}
    return harness.run_sync("search", QUERIES, base_url=list(urls), runs_dir=folder, **values)


def rollouts(made: harness.Run) -> list[Rollout]:
    return [rollout for query in made.queries for rollout in made.rollouts(query)]


class VerdictScore(Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.usefixtures("keyed")
def test_rollouts_are_spread_over_the_servers_and_each_stays_with_its_own(servers: Servers, tmp_path: Path):
    ours = [servers(), servers(), servers()]
    made = run(tmp_path, *(server.base_url for server in ours), concurrency=3)
    served = Counter(rollout.served_by for rollout in rollouts(made))
    assert served.keys() == {server.host for server in ours}
    assert min(served.values()) >= 2
    for server in ours:  # a rollout is two calls, the second with what the first asked for
        assert len(server.requests) == 2 * served[server.host]
        assert sum(bool(seen.tool_outputs) for seen in server.requests) == served[server.host]
        assert {seen.key for seen in server.requests} == {KEY}
    assert made.settings.base_url == tuple(server.base_url for server in ours)
    assert made.info.endpoint == {"base_url": ours[0].base_url, "api": "chat"}
    assert harness.resume_sync(made).ranking_id is None


@pytest.mark.usefixtures("keyed")
def test_of_one_server_nothing_more_is_written_than_before_there_were_several(servers: Servers, tmp_path: Path):
    server = servers()
    made = run(tmp_path, server.base_url, n=1)
    assert made.settings.base_url == server.base_url
    texts = [path.read_text() for path in (made.path / "rollouts").iterdir()]
    assert '"served_by"' not in "".join(texts)


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("place", [0, 1])
def test_a_server_that_is_not_there_fails_no_rollout(place: int, servers: Servers, tmp_path: Path):
    alive, gone = servers(), "http://127.0.0.1:9/v1"
    urls = [alive.base_url]
    urls.insert(place, gone)
    heard = VerdictScore()
    made = run(tmp_path, *urls, progress=heard, concurrency=2)
    assert Counter((r.status, r.served_by) for r in rollouts(made)) == {("ok", alive.host): 8}
    assert not made.given_up
    assert [note.split(":9 ")[1].split(":")[0] for note in heard.notes] == ["rests, and other servers are asked"]
    assert len(alive.requests) == 16
    assert sum(path.read_text().count("\n") for path in (made.path / "rollouts").iterdir()) == 9, "header and rollouts"
    assert harness.resume_sync(made).ranking_id is None


@pytest.mark.usefixtures("keyed")
def test_a_server_that_fails_does_not_draw_the_rollouts_and_is_tried_again(servers: Servers, tmp_path: Path):
    bad = [0]
    answers = searching_agent()

    def ailing(seen: Seen) -> Say | Refuse:
        bad[0] += 1
        return Refuse(404, "no such model") if 1 < bad[0] < 4 else answers(seen)

    well, ill = servers(), servers(ailing)
    made = run(tmp_path, ill.base_url, well.base_url, concurrency=2, n=6)
    assert len(made.queries) == 2
    kinds = Counter((r.status, r.served_by) for r in rollouts(made))
    assert kinds["ok", well.host] + kinds["ok", ill.host] + kinds["failed", ill.host] == 12
    assert kinds["failed", ill.host] <= 1, "of a rollout that had a reply; any other goes to the other server"


@pytest.mark.nightly
@pytest.mark.usefixtures("keyed")
def test_rollouts_without_a_reply_do_not_wait_for_a_server_that_dies(servers: Servers, tmp_path: Path):
    answered = [0]
    answers = searching_agent()

    def dying(seen: Seen) -> Say | Cut:
        answered[0] += 1
        return answers(seen) if answered[0] == 1 or seen.tool_outputs else Cut()

    well, dead = servers(), servers(dying)
    heard = VerdictScore()
    made = run(tmp_path, dead.base_url, well.base_url, concurrency=16, n=8, retries=5, progress=heard)
    served = Counter((r.status, r.served_by) for r in rollouts(made))
    assert served == {("ok", dead.host): 1, ("ok", well.host): 15}
    assert not made.given_up
    assert not [note for note in heard.notes if "--give-up" in note], "nobody waits until it is given up"


@pytest.mark.usefixtures("keyed")
def test_a_server_that_hangs_rests_after_the_first_call_that_got_no_reply_in_time(servers: Servers, tmp_path: Path):
    hanging, well = servers(lambda _: Hang(60)), servers()
    made = run(tmp_path, hanging.base_url, well.base_url, concurrency=2, n=4, retries=5, request_timeout=1.0)
    assert Counter((r.status, r.served_by) for r in rollouts(made)) == {("ok", well.host): 8}
    assert len(hanging.requests) <= 2, "one of the beginning, and perhaps one when it had rested"


def test_what_rollouts_that_began_together_fail_of_makes_a_servers_rest_no_longer():
    bad = at_work("bad")
    for now in (0.0, 0.1, 0.2):
        bad.served("network", now)
    assert (bad.failures, bad.rests_until) == (1, 1.0)


@pytest.mark.usefixtures("keyed")
def test_a_judge_that_is_asked_at_a_dead_first_server_is_named_as_what_failed(servers: Servers, tmp_path: Path):
    gone = "http://127.0.0.1:9/v1"
    with pytest.raises(Refused) as refused:
        run(tmp_path, gone, servers().base_url, topology="anchor", judge_model="j", n=2)
    text = str(refused.value)
    assert text.startswith("cannot reach 127.0.0.1:9 for the judge (")
    assert "The judge is asked there: judge_base_url='URL' names another server for it. " in text
    assert "The address comes from base_url=" in text


def at_work(name: str) -> ServerAtWork:
    gate = SimpleNamespace(given_up=None, is_down=False, hangs=False)
    gate.down_for = lambda _who: gate.given_up  # pyright: ignore[reportUnknownLambdaType]
    models = SimpleNamespace(state=SimpleNamespace(gate=gate))
    return ServerAtWork(cast("Any", SimpleNamespace(models=models, name=name)))


def test_a_server_that_failed_rests_ever_longer_and_then_one_rollout_tries_it():
    bad, good = at_work("bad"), at_work("good")
    good.outstanding = 5
    assert fewest_outstanding([bad, good], 0) is bad
    bad.served("network", 0)
    assert [fewest_outstanding([bad, good], now) is bad for now in (0.5, 1.0)] == [False, True]
    bad.outstanding = 1
    assert fewest_outstanding([bad, good], 1.0) is good, "one tries"
    bad.outstanding = 0
    bad.served("api", 1.0)
    assert [fewest_outstanding([bad, good], now) is bad for now in (2.9, 3.0)] == [False, True]
    bad.served("timeout", 3.0)
    bad.outstanding = 4
    assert fewest_outstanding([bad, good], 3.0) is bad, "it works again: what the agent is to blame for does not count"


def test_a_server_whose_calls_fail_meanwhile_gets_no_rollouts_and_one_that_is_given_up_none_at_all():
    down, good = at_work("down"), at_work("good")
    good.outstanding = down.outstanding = 3
    cast("Any", down.run_context.models.state.gate).is_down = True
    assert fewest_outstanding([down, good], 0) is good
    cast("Any", good.run_context.models.state.gate).given_up = "no reply"
    assert fewest_outstanding([down, good], 0) is down


@pytest.mark.usefixtures("keyed")
def test_if_every_server_turns_the_first_call_down_the_run_is_refused(servers: Servers, tmp_path: Path):
    both = [servers(lambda _: Refuse(401, "wrong key")) for _ in range(2)]
    with pytest.raises(Refused, match=both[1].host):
        run(tmp_path, *(server.base_url for server in both))
    assert [len(server.requests) for server in both] == [1, 1]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("keyed")
def test_a_run_is_resumed_on_its_servers_or_on_those_of_them_that_are_named(servers: Servers, tmp_path: Path):
    broken = [True]
    answers = searching_agent()
    one, two = (servers(lambda seen: Refuse(500) if broken[0] and seen.tool_outputs else answers(seen)) for _ in "ab")
    made = run(tmp_path, one.base_url, two.base_url, retries=0, give_up=1.0)
    assert {r.status for r in rollouts(made)} == {"failed"}
    broken[0] = False
    before = len(one.requests)
    with pytest.raises(UsageError, match="the run's models are at"):
        harness.resume_sync(made, base_url="http://127.0.0.1:9/v1")
    again = harness.resume_sync(made, base_url=two.base_url)
    assert {(r.status, r.served_by) for r in rollouts(again)} == {("ok", None)}
    assert len(one.requests) == before


def test_keys_go_to_the_named_servers_alone():
    named, strange = "https://one.example/v1", "https://two.example/v1"
    settings = load({"base_url": [named, strange]})
    both = agent_servers(settings, Credentials.naming({"OPENAI_API_KEY": KEY}, settings.base_url))
    assert [server.key.get_secret_value() for server in both] == [KEY, KEY]
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY would go to https://two\.example/v1"):
        agent_servers(settings, Credentials.naming({"OPENAI_API_KEY": KEY}, named))
    judge = judge_endpoint(load({"base_url": [named, strange]}), Credentials.naming({"OPENAI_API_KEY": KEY}, named))
    assert judge
    assert judge.base_url == named


@pytest.mark.usefixtures("keyed")
def test_a_strangers_run_sends_no_key_to_a_server_that_only_the_run_names(servers: Servers, tmp_path: Path):
    ours, strange = servers(), servers()
    made = run(tmp_path, ours.base_url, n=1)
    info = json.loads((made.path / "run.json").read_text())
    info["settings"] |= {"base_url": [ours.base_url, strange.base_url], "n": 2}
    (made.path / "run.json").write_text(json.dumps(info))
    with pytest.raises(UsageError, match="OPENAI_API_KEY would go to"):
        harness.resume_sync(made.path, agent="search")
    harness.resume_sync(made.path, agent="search", base_url=ours.base_url)
    assert strange.requests == []
    with RunReader(made.path) as reader:
        assert all(len(group) == 2 for group in reader.index.rollouts.values())


@pytest.mark.parametrize(
    ("urls", "says"),
    [
        (["http://a/v1", "http://a/v1/"], "names a twice"),
        (["http://a/v1", "https://api.openai.com/v1"], "different APIs"),
        (["http://a/v1", "b/v1"], "is not an http"),
        (["http://a/v1", ""], "is not an http"),
    ],
)
def test_servers_that_cannot_be_asked_together_are_refused(urls: list[str], says: str):
    with pytest.raises(UsageError, match=says):
        agent_servers(load({"base_url": urls}), Credentials.naming({}, urls))
    assert len(agent_servers(load({"base_url": urls[:1]}), Credentials.naming({}, urls))) == 1
