"""A run that is killed again and again, each resume being the next victim, loses only what was in flight.

HARNESS_TEST_KILLS=500 python -m pytest tests/cli/test_sigkill.py -p no:randomly
"""

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.archive.run_info import list_runs
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge
from tests.nursery import Nursery

KILLS = int(os.environ.get("HARNESS_TEST_KILLS", "25"))
AT_ONCE = 3
QUERIES, N = 4, 4
RUN = (
    *f"run --queries q.jsonl --agent search --model m -n {N} -q".split(),
    *f"--concurrency {AT_ONCE} --judge-concurrency {AT_ONCE}".split(),
)


def by_seed(seen: Seen) -> Say:
    """Search, then give the answer that this query and seed always get."""
    time.sleep(0.002)
    if not seen.tool_outputs:
        return Say(calls=(("search", {"query": "programming languages"}),))
    drawn = hashlib.sha256(f"{seen.user}/{seen.body['seed']}".encode()).hexdigest()
    return Say(f"Answer {drawn}.")


def judge(seen: Seen) -> Any:
    time.sleep(0.002)
    return fair_judge()(seen)


class Bill:
    """What the server was asked to pay for: whole rollouts and verdicts, each as often as it was."""

    def __init__(self, endpoint: FakeEndpoint) -> None:
        seen = list(endpoint.requests)
        self.rollouts = [f"{s.user}/{s.body['seed']}" for s in seen if not s.is_judge and s.tool_outputs]
        self.verdicts = [json.dumps(s.body["messages"]) for s in seen if s.is_judge]


@dataclass
class Tally:
    """Of one kind of thing that costs money: how often it was bought again, how much is billed and not on disk."""

    twice: int = 0
    lost: int = 0

    def check(self, billed: list[str], on_disk: int) -> None:
        """Compare the bill with the disk after one more life of the process."""
        twice, lost = len(billed) - len(set(billed)), len(set(billed)) - on_disk
        again = twice - self.twice
        assert again <= self.lost, "something on disk was bought again"
        assert 0 <= lost - self.lost + again <= AT_ONCE, "something was lost that was not in flight"
        self.twice, self.lost = twice, lost


def on_disk(folder: Path | None) -> tuple[int, int]:
    """How many rollouts that ended well, and how many verdicts, are there."""
    if folder is None:
        return 0, 0
    with RunReader(folder) as reader:
        ok = sum(p.status == "ok" for places in reader.index.rollouts.values() for p in places.values())
        return ok, len(reader.index.verdicts)


def ranks(shown: Any) -> Any:
    return {
        g["id"]: [(r["index"], r["rank"], r["reward"], r["answer"]) for r in g["rollouts"]] for g in shown["groups"]
    }


def a_moment(rng: random.Random) -> Callable[[FakeEndpoint], Iterator[bool]]:
    """Draw when to kill: after a number of further calls and a little, or after a while, whatever has happened."""
    if rng.random() < 0.2:
        until = time.monotonic() + rng.uniform(0, 0.6)
        return lambda _: iter(lambda: time.monotonic() >= until, None)
    calls, more = rng.randint(1, 14), rng.uniform(0, 0.02)

    def reached(endpoint: FakeEndpoint) -> Iterator[bool]:
        wanted = len(endpoint.requests) + calls
        while len(endpoint.requests) < wanted:
            yield False
        time.sleep(more)
        while True:
            yield True

    return reached


@pytest.fixture
def never_killed(harness: Harness, tmp_path: Path) -> Any:
    (tmp_path / "q.jsonl").write_text(
        "".join(json.dumps({"id": f"q{i}", "query": f"Why {i}?"}) + "\n" for i in range(QUERIES))
    )
    with FakeEndpoint(by_seed, judge).serving() as endpoint:
        done = harness(*RUN, "--json", "--runs-dir", "whole", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 0, done.err
    return ranks(done.json)


@pytest.mark.nightly
def test_what_was_billed_is_on_disk_and_bought_once_however_often_the_process_is_killed(
    never_killed: Any, harness: Harness, nursery: Nursery, tmp_path: Path
):
    rng, kills, rounds = random.Random(int(os.environ.get("HARNESS_TEST_SEED", "6"))), 0, 0
    while kills < KILLS:
        rounds += 1
        kills += one_run(nursery, rng, tmp_path, f"runs{rounds}", KILLS - kills)
        (run,) = list_runs(tmp_path / f"runs{rounds}")
        sound, shown = harness("validate", str(run)), harness("show", str(run), "--json")
        assert (sound.code, shown.code) == (0, 0), sound.out + shown.err
        assert ranks(shown.json) == never_killed


def one_run(nursery: Nursery, rng: random.Random, tmp_path: Path, runs: str, most: int) -> int:
    """Kill a run until it is finished or `most` kills are done, then let it finish; return the number of kills."""
    kills, tallies = 0, (Tally(), Tally())
    with FakeEndpoint(by_seed, judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        while True:
            begun = list_runs(tmp_path / runs)
            command = ("resume", "-q") if begun else RUN
            moment = a_moment(rng)(endpoint) if kills < most else iter(lambda: False, None)
            born = nursery.start([*command, "--runs-dir", runs], tmp_path, env)
            killed = kill_at(born.pid, moment)
            ended = nursery.wait(born)
            folder = next(iter(list_runs(tmp_path / runs)), None)
            time.sleep(0.02)  # what was sent before the kill has come in
            bill = Bill(endpoint)
            for tally, billed, there in zip(tallies, (bill.rollouts, bill.verdicts), on_disk(folder), strict=True):
                tally.check(billed, there)
            if not killed:
                assert ended.code == 0, ended.err
                assert all(tally.lost == 0 for tally in tallies)
                return kills
            assert ended.code in {0, -signal.SIGKILL}, ended.err
            kills += ended.code != 0


def kill_at(pid: int, moment: Iterator[bool]) -> bool:
    """Kill a process at the moment, or tell that it ended before: then it is a zombie until it is waited for."""
    for come in moment:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "Z":
            return False
        if come:
            os.kill(pid, signal.SIGKILL)
            return True
        time.sleep(0.0005)
    raise AssertionError
