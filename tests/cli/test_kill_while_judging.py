"""A run that is killed while it judges: what was paid for and arrived is on disk, and is not paid for again."""

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from tests.cli.test_endpoint_run import lines
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Seen, fair_judge
from tests.nursery import Born, Nursery

AT_A_TIME = 3


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_kill_only_the_verdicts_whose_reply_never_reached_the_disk_are_bought(
    harness: Harness, nursery: Nursery, tmp_path: Path, seed: int
) -> None:
    rng, answer = random.Random(seed), fair_judge()
    running: list[Born] = []
    fatal = rng.randint(5, 16)

    def judge(seen: Seen):
        if len(endpoint.of_judge) == fatal:
            threading.Timer(rng.uniform(0, 0.02), os.kill, [running[0].pid, signal.SIGKILL]).start()
        return answer(seen)

    endpoint = FakeEndpoint(judge=judge)
    with endpoint.serving():
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        command = ["run", "Why?", "--model", "m", "-n", "8", "--judge-concurrency", str(AT_A_TIME)]
        running.append(nursery.start(command, tmp_path, env))
        assert nursery.wait(running[0]).code == -signal.SIGKILL
        (folder,) = (tmp_path / "runs").iterdir()
        on_disk, asked = {v["key"] for v in lines(folder, "verdicts")}, len(endpoint.of_judge)
        assert asked - len(on_disk) <= AT_A_TIME
        again = harness("rescore", "--json", env=env)
    assert again.code == 0, again.err
    keys = [v["key"] for v in lines(folder, "verdicts")]
    assert len(keys) == len(set(keys))
    assert len(endpoint.of_judge) - asked == len(set(keys) - on_disk)
    assert len(endpoint.of_judge) <= len(keys) + AT_A_TIME
