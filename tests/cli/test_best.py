"""`harness best`: the best answer alone on stdout, why on stderr, the rest in the archive."""

import json
import os
from itertools import count
from pathlib import Path

import pytest

from harness.archive.reader import RunReader
from tests.conftest import Done, Harness
from tests.fake_endpoint import Cut, FakeEndpoint, Hang, Refuse, Say, Script, Seen, fair_judge
from tests.fuzz.attempts import attempt

AGENT = "from agents import Agent\nagent = Agent(name='plain')\n"
STRUCTURED = """
from agents import Agent
from pydantic import BaseModel
class City(BaseModel):
    name: str
    people: int
agent = Agent(name="plain", output_type=City)
"""


def numbered(seen: Seen, numbers: count = count(1)) -> Say:  # noqa: B008 - one series a process
    return Say(f"Answer {next(numbers)}.")


def numbered_from_1() -> Script:
    numbers = count(1)
    return lambda _: Say(f"Answer {next(numbers)}.")


def longest(text: str) -> int:
    return 10 if "best" in text else 1


def one_best() -> Script:
    numbers = count()

    def script(_: Seen) -> Say:
        number = next(numbers)
        return Say("the best answer" if number == 3 else f"poor answer {number}")

    return script


def structured() -> Script:
    numbers = count(1)
    return lambda _: Say(json.dumps({"name": "Oslo", "people": next(numbers)}))


def one_refused() -> Script:
    numbers = count()

    def script(_: Seen) -> Say | Refuse:
        number = next(numbers)
        return Refuse(400, "no") if number == 2 else Say(f"Answer {number}.")

    return script


def run(harness: Harness, endpoint: FakeEndpoint, folder: Path, *args: str, source: str = AGENT) -> Done:
    (folder / "plain.py").write_text(source)
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    return harness("best", "Which?", "--agent", "plain.py", "--model", "m", *args, env=env)


def test_the_best_answer_alone_is_printed_and_all_runs_are_archived(harness: Harness, tmp_path: Path):
    with FakeEndpoint(agent=one_best(), judge=fair_judge(longest)).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "-n", "6")
    assert (done.code, done.out) == (0, "the best answer\n")
    assert "is the best of 6 with probability" in done.err
    (folder,) = (p for p in (tmp_path / "runs").iterdir())
    (ranking,) = RunReader(folder).ranking().groups
    assert (ranking.topology, ranking.estimator, len(ranking.rollouts)) == ("cyclic", "pooled", 6)


def test_judging_stops_when_the_leader_is_sure_and_says_what_that_saved(harness: Harness, tmp_path: Path):
    with FakeEndpoint(agent=one_best(), judge=fair_judge(longest)).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "-n", "8")
        calls = len(endpoint.of_judge)
    assert calls < 28
    assert f"{calls} judge calls, {28 - calls} saved by stopping early" in done.err


def test_a_structured_answer_is_printed_as_json(harness: Harness, tmp_path: Path):
    with FakeEndpoint(agent=structured(), judge=fair_judge()).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "-n", "3", source=STRUCTURED)
    assert done.code == 0, done.err
    assert json.loads(done.out)["name"] == "Oslo"


def test_a_failed_run_among_them_does_not_spoil_the_answer(harness: Harness, tmp_path: Path):
    with FakeEndpoint(agent=one_refused(), judge=fair_judge()).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "-n", "4")
    assert done.code == 0, done.err
    assert done.out.startswith("Answer ")


def test_without_any_answer_it_says_why_and_exits_3(harness: Harness, tmp_path: Path):
    with FakeEndpoint(agent=lambda _: Say("cut", finish="length")).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "-n", "3")
    assert (done.code, done.out) == (3, ""), done.err
    assert "error: no best answer: no rollout of 3 ended well" in done.err


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (lambda _: Say("no json"), "JSON"),
        (lambda _: Cut(), "cannot reach"),
        (lambda _: Refuse(401, "bad key"), "bad key"),
    ],
)
def test_without_any_verdict_it_answers_with_the_anchors_answer_exits_0_and_says_so(
    harness: Harness, tmp_path: Path, judge: Script, reason: str
):
    with FakeEndpoint(agent=numbered_from_1(), judge=judge).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "-n", "3", "--retries", "0", "--json", "--quiet")
    assert (done.code, done.json["answer"], done.json["judged"]) == (0, "Answer 1.", False)
    assert done.json["p_best"] is done.json["runner_up"] is None
    assert "not judged: " in done.err
    assert reason in done.err


@pytest.mark.nightly
def test_a_deadline_is_kept_though_runs_and_the_judge_hang(endpoint: FakeEndpoint, tmp_path: Path):
    numbers = count()

    def agent(_: Seen) -> Say | Hang:
        return Hang(60) if (number := next(numbers)) == 2 else Say(f"Answer {number}.")

    endpoint.agent, endpoint.judge = agent, lambda _: Hang(60)
    (tmp_path / "plain.py").write_text(AGENT)
    folders = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    environ = folders | {"OPENAI_BASE_URL": endpoint.base_url, "NO_COLOR": "1", "TERM": "dumb"}
    argv = ("best", "Which?", "--agent", "plain.py", "--model", "m", "-n", "4", "--json")
    attempt((*argv, "--dry-run"), tmp_path, environ, reachable=endpoint.host)  # imports all that the next one needs
    outcome = attempt((*argv, "--deadline", "6"), tmp_path, environ, reachable=endpoint.host)
    assert outcome.faults() == []
    result = json.loads(outcome.out)
    assert (outcome.code, result["rollout"], result["judged"]) == (0, 0, False)
    assert "not judged: the deadline of 6 s was over" in " ".join(outcome.err_text.split())
    (failed,) = (r for r in result["groups"][0]["rollouts"] if r["status"] == "failed")
    assert failed["failure"]["message"] == "left: it had not ended by the deadline"


def test_a_ceiling_that_cannot_be_kept_is_refused(harness: Harness, tmp_path: Path):
    with FakeEndpoint(agent=numbered).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "--max-cost", "1")
        assert not endpoint.requests
    assert done.code == 2
    assert "--max-cost 1 cannot be kept" in done.err


def test_from_16_on_double_elimination_picks(harness: Harness, tmp_path: Path):
    with FakeEndpoint(agent=numbered, judge=fair_judge()).serving() as endpoint:
        done = run(harness, endpoint, tmp_path, "-n", "16", "--json")
    assert done.code == 0, done.err
    (ranking,) = RunReader(tmp_path / done.json["path"]).ranking().groups
    assert ranking.topology == "double"
