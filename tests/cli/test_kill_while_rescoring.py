"""A rescoring under another judge that is killed: nothing is half there, and plain `resume` ends what was begun."""

import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from tests.cli.test_endpoint_run import lines
from tests.cli.test_sigkill import by_seed, ranks
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Hang, Reaction, Refuse, Seen, fair_judge
from tests.nursery import Nursery

AT_A_TIME = 3
RESCORE = ("rescore", "--judge-model", "other", "--json", "--judge-concurrency", str(AT_A_TIME))
READING = ("ls", "show", "stats", "validate")


@pytest.fixture
def env(endpoint: FakeEndpoint) -> dict[str, str]:
    endpoint.agent = by_seed
    return {"OPENAI_BASE_URL": endpoint.base_url}


@pytest.fixture
def run(harness: Harness, env: dict[str, str], tmp_path: Path) -> Path:
    """A finished run of two queries, judged by the model m."""
    (tmp_path / "q.jsonl").write_text('{"id": "a", "query": "Why a?"}\n{"id": "b", "query": "Why b?"}\n')
    done = harness(*"run --queries q.jsonl --agent search --model m -n 4 -q".split(), env=env)
    assert done.code == 0, done.err
    (folder,) = (tmp_path / "runs").iterdir()
    return folder


class Slow:
    """A judge that has given so many verdicts hangs, so that what was begun stays where it is."""

    def __init__(self, verdicts: int) -> None:
        self._left, self.stuck = verdicts, threading.Event()

    def __call__(self, seen: Seen) -> Reaction:
        self._left -= 1
        if self._left >= 0:
            return fair_judge()(seen)
        self.stuck.set()
        return Hang(100)


def until(reached: Callable[[], bool]) -> None:
    for _ in range(6000):
        if reached():
            return
        time.sleep(0.01)
    raise AssertionError("nothing happened for a minute")


def killed(nursery: Nursery, endpoint: FakeEndpoint, run: Path, verdicts: int) -> None:
    """Rescore under another judge, and kill the process when it holds so many of its verdicts."""
    judge = endpoint.judge = Slow(verdicts)
    before = len(lines(run, "verdicts"))
    born = nursery.start(RESCORE, run.parents[1], {"OPENAI_BASE_URL": endpoint.base_url})
    until(lambda: judge.stuck.is_set() and len(lines(run, "verdicts")) == before + verdicts)
    os.kill(born.pid, signal.SIGKILL)
    assert nursery.wait(born).code == -signal.SIGKILL
    endpoint.judge = fair_judge()


def read(harness: Harness) -> dict[str, str]:
    """Return what each command that reads a run prints; none of them fails, or complains but of a ranking not begun."""
    done = {name: harness(name) if name == "ls" else harness(name, "last") for name in READING}
    assert {name: d.code for name, d in done.items()} == dict.fromkeys(READING, 0)
    assert all(d.err == "" or "was stopped before its first group" in d.err for d in done.values())
    return {name: d.out + d.err for name, d in done.items()}


def the_one_before_is_named(harness: Harness, before: dict[str, str]) -> None:
    now = read(harness)
    for name in ("show", "stats"):
        assert "cut short, or is under way" in " ".join(now[name].split()), now[name]
    (ranking,) = re.findall(
        r"was stopped before its first group: .* goes on with it, and --ranking (\S+) takes", now["show"]
    )
    table = before["show"].split("\njudge")[0]
    assert harness("show", "last", "--ranking", ranking).out.startswith(table)
    groups = harness("export", "last", "--ranking", ranking, "--format", "groups", "-o", "groups")
    assert groups.code == 0, groups.err


def asked(endpoint: FakeEndpoint) -> list[str]:
    return [json.dumps(seen.body) for seen in endpoint.of_judge]


@pytest.fixture
def never_killed(harness: Harness, env: dict[str, str], run: Path) -> Any:
    """The places under the other judge, from a copy of the run that nobody killed."""
    elsewhere = run.parents[1] / "whole"
    shutil.copytree(run.parent, elsewhere)
    done = harness(*RESCORE, "--runs-dir", str(elsewhere), env=env)
    assert done.code == 0, done.err
    return ranks(done.json)


@pytest.mark.nightly
@pytest.mark.parametrize("verdicts", [1, 4])
def test_killed_before_its_first_group_was_ranked_it_can_be_read_and_resume_buys_the_rest(
    harness: Harness, nursery: Nursery, endpoint: FakeEndpoint, run: Path, never_killed: Any, verdicts: int
) -> None:
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    endpoint.requests.clear()
    before = read(harness)
    killed(nursery, endpoint, run, verdicts)
    with RunReader(run) as reader:
        newest = reader.newest_ranking()
        assert newest
        assert (newest.head.judge["model"], len(newest.groups), newest.finished) == ("other", 0, False)
    the_one_before_is_named(harness, before)
    of_killed = asked(endpoint)
    resumed = harness("resume", "--json", env=env)
    assert resumed.code == 0, resumed.err
    assert ranks(resumed.json) == never_killed
    of_resume = asked(endpoint)[len(of_killed) :]
    assert not {*of_killed[:verdicts]} & {*of_resume}, "a verdict on disk was bought again"
    assert len(of_resume) == len({*of_resume})
    assert not endpoint.of_agent
    assert "nothing to do" in harness("resume", env=env).out
    assert harness("validate", "last").code == 0


@pytest.mark.nightly
def test_killed_in_its_first_judge_call_it_is_known_and_resume_does_it(
    harness: Harness, nursery: Nursery, endpoint: FakeEndpoint, run: Path, never_killed: Any
) -> None:
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    before = read(harness)
    killed(nursery, endpoint, run, 0)
    the_one_before_is_named(harness, before)
    resumed = harness("resume", "--json", env=env)
    assert resumed.code == 0, resumed.err
    assert ranks(resumed.json) == never_killed
    assert "nothing to do" in harness("resume", env=env).out


def test_a_judge_that_refuses_its_first_call_leaves_the_run_as_it_was(
    harness: Harness, endpoint: FakeEndpoint, run: Path, env: dict[str, str]
) -> None:
    before = read(harness)
    endpoint.judge = lambda seen: Refuse(401, "no such key")
    assert harness(*RESCORE, env=env).code == 2
    assert read(harness) == before
    assert "nothing to do" in harness("resume", env=env).out
