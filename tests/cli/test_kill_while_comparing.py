"""A comparison that is killed: nothing is half there, plain `resume` ends what was begun, nothing is bought twice."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.test_kill_while_rescoring import Slow, until
from tests.cli.test_sigkill import by_seed
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Hang, Reaction, Seen, fair_judge
from tests.nursery import Nursery

AT_A_TIME = 2
SIDES = ("search", "--model", "m", "--model", "k", "--queries", "q.txt", "--judge-model", "judge")
COMPARE = ("compare", *SIDES, "--json", "--judge-concurrency", str(AT_A_TIME), "--concurrency", str(AT_A_TIME))
FIGURES = ("better", "worse", "tied", "win_rate", "interval", "pairs", "unjudged")


class SlowAgent:
    """An agent that has given so many replies hangs."""

    def __init__(self, replies: int) -> None:
        self._left = replies
        self.stuck = False

    def __call__(self, seen: Seen) -> Reaction:
        self._left -= 1
        if self._left >= 0:
            return by_seed(seen)
        self.stuck = True
        return Hang(100)


def requests(endpoint: FakeEndpoint) -> list[str]:
    return [json.dumps(seen.body, sort_keys=True) for seen in endpoint.of_judge]


@pytest.mark.nightly
@pytest.mark.parametrize("killed_at", ["a rollout", "the first verdict", "a later verdict"])
def test_killed_anywhere_plain_resume_ends_it_and_buys_nothing_twice_but_what_was_in_flight(
    harness: Harness, nursery: Nursery, endpoint: FakeEndpoint, tmp_path: Path, killed_at: str
) -> None:
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    (tmp_path / "q.txt").write_text("Why a?\nWhy b?\nWhy c?\n")
    endpoint.agent = slow = SlowAgent(9 if killed_at == "a rollout" else 999)
    endpoint.judge = judge = Slow({"a rollout": 999, "the first verdict": 0, "a later verdict": 5}[killed_at])
    born = nursery.start(COMPARE, tmp_path, env)
    until(lambda: slow.stuck or judge.stuck.is_set())
    os.kill(born.pid, signal.SIGKILL)
    assert nursery.wait(born).code == -signal.SIGKILL
    rolled_out, asked = len(endpoint.of_agent), requests(endpoint)
    endpoint.agent, endpoint.judge = by_seed, fair_judge()
    listed = harness("ls")
    assert (listed.code, listed.err) == (0, "")
    resumed = harness("resume", "--json", env=env)
    assert resumed.code == 0, resumed.err
    runs = {side["run"]: (tmp_path / "runs" / side["run"]) for side in resumed.json["sides"]}
    assert len(list((tmp_path / "runs").iterdir())) == 1 + len(runs)
    again = requests(endpoint)[len(asked) :]
    assert len({*asked} & {*again}) <= AT_A_TIME, "only what was in flight is asked again"
    assert len(again) == len({*again})
    if killed_at != "a rollout":
        assert len(endpoint.of_agent) == rolled_out, "every rollout was there"
    assert "nothing to do" in harness("resume", env=env).out
    whole = harness("compare", *runs, "--json", env=env)
    assert (whole.code, whole.json) == (0, resumed.json)
    assert len(requests(endpoint)) == len(asked) + len(again)
