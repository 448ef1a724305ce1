"""A comparison that is killed again and again, each `resume` being the next victim, buys nothing twice but what was in
flight, and never writes to the runs that it compares.

HARNESS_TEST_KILLS=200 python -m pytest tests/cli/test_sigkill_while_comparing.py -p no:randomly
"""

import hashlib
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.run_info import list_comparisons
from tests.cli.test_sigkill import a_moment, kill_at
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, block, verdict
from tests.nursery import Nursery

KILLS = int(os.environ.get("HARNESS_TEST_KILLS", "5"))
AT_ONCE = 3
QUERIES = 6
MARKS = {"weak": 3, "strong": 8}


def answer(seen: Seen) -> Say:
    """Say who answers what; a seed always gives the same answer."""
    return Say(f"{seen.body['model']} on {seen.user}, seed {seen.body.get('seed')}")


def judge(seen: Seen) -> Reaction:
    """Mark an answer by the model that it names."""
    return Say(verdict(*(MARKS[block(seen.user, f"ANSWER_{side}").split()[0]] for side in "AB")))


@dataclass
class Victims:
    """Commands that a kill ends at a random moment."""

    nursery: Nursery
    endpoint: FakeEndpoint
    work: Path
    rng: random.Random

    @property
    def env(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": self.endpoint.base_url}

    def kill(self, *command: str) -> bool:
        """Start a command and kill it; tell whether it was still there to be killed."""
        born = self.nursery.start([*command, "--judge-concurrency", str(AT_ONCE)], self.work, self.env)
        killed = kill_at(born.pid, a_moment(self.rng)(self.endpoint))
        ended = self.nursery.wait(born)
        time.sleep(0.02)  # what was sent before the kill has come in
        assert killed or ended.code == 0, ended.err
        return killed


@pytest.fixture
def victims(nursery: Nursery, tmp_path: Path) -> Iterator[Victims]:
    (tmp_path / "q.txt").write_text("\n".join(f"Why {number}?" for number in range(QUERIES)))
    (tmp_path / "poet.py").write_text('from agents import Agent\nagent = Agent(name="poet", instructions="Answer.")\n')
    with FakeEndpoint(answer, judge).serving() as endpoint:
        yield Victims(nursery, endpoint, tmp_path, random.Random(1))


def rolled_out(harness: Harness, victims: Victims, model: str) -> str:
    agent = ("--agent", "poet.py", "--model", model, "--queries", "q.txt", "-n", "3")
    done = harness("run", *agent, "--topology", "none", "--judge-model", "judge", "--json", env=victims.env)
    assert done.code == 0, done.err
    return done.json["run"]


def bytes_of(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "run.lock"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def kept_verdicts(work: Path) -> list[str]:
    """The keys of the verdicts on disk, in the order written."""
    folders = list_comparisons(work / "runs")
    if not folders:
        return []
    with ComparisonReader(folders[-1]) as reader:
        return [each.key for each in reader.verdicts()]


@pytest.mark.nightly
def test_a_comparison_killed_at_any_moment_is_resumed_and_leaves_its_runs_as_they_were(
    harness: Harness, victims: Victims, tmp_path: Path
) -> None:
    names = [rolled_out(harness, victims, model) for model in MARKS]
    before = [bytes_of(tmp_path / "runs" / name) for name in names]
    shutil.copytree(tmp_path / "runs", tmp_path / "copy")
    began, lost = len(victims.endpoint.of_judge), 0
    for _ in range(KILLS):
        stopped = victims.kill("compare", *names) if not list_comparisons(tmp_path / "runs") else victims.kill("resume")
        keys = kept_verdicts(tmp_path)
        assert len(keys) == len(set(keys))
        asked = len(victims.endpoint.of_judge) - began
        assert 0 <= asked - len(keys) - lost <= AT_ONCE, "something was lost that was not in flight"
        lost = asked - len(keys)
        if not stopped:
            break
    last = harness("resume", "--json", env=victims.env)
    assert last.code == 0, last.err
    done = harness("compare", *names, "--json", env=victims.env)
    assert (done.code, "nothing to buy" in done.err) == (0, True), done.err
    keys = kept_verdicts(tmp_path)
    assert len(keys) == len(set(keys))
    assert len(victims.endpoint.of_judge) - began - len(keys) == lost
    assert [bytes_of(tmp_path / "runs" / name) for name in names] == before
    checked = harness("validate")
    assert checked.code == 0, checked.out
    whole = harness("compare", *names, "--json", "--runs-dir", "copy", env=victims.env)
    assert (whole.json["results"], whole.json["sentence"]) == (done.json["results"], done.json["sentence"])
