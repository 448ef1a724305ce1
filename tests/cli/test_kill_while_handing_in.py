"""A run that is killed while it hands a batch in loses that one file at most, and says that it may have been bought."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import pytest

from harness.archive.batch_log import BatchLog
from harness.archive.run_info import list_runs
from tests.batch_server import BatchEndpoint
from tests.cli.conftest import PLAIN, agents
from tests.conftest import Harness
from tests.nursery import Nursery

RUN = (
    *"run Why? --agent plain.py:agent -n 4 --model m --topology cyclic --judge-batch -q".split(),
    *"--judge-model j1 --judge-model j2".split(),
)
A_FILE = 6
"""Questions to each of the two jurors."""


@pytest.mark.nightly
@pytest.mark.parametrize(("point", "lists"), [("upload", True), ("create", True), ("create", False)])
def test_a_kill_between_a_batch_and_the_note_of_its_id_loses_at_most_that_file_and_says_so(
    nursery: Nursery, harness: Harness, tmp_path: Path, *, point: str, lists: bool
):
    (tmp_path / "plain.py").write_text(PLAIN)
    victims = Queue[int]()
    with BatchEndpoint(agents()).serving() as at:
        assert isinstance(at, BatchEndpoint)
        at.lists = lists
        env = {"OPENAI_BASE_URL": at.base_url, "OPENAI_API_KEY": "sk-x"}
        setattr(at, f"on_{point}", second_time(lambda: os.kill(victims.get(timeout=60), signal.SIGKILL)))
        born = nursery.start(RUN, tmp_path, env)
        victims.put(born.pid)
        assert nursery.wait(born).code == -signal.SIGKILL
        bought = len(at.batches)
        assert bought == {"upload": 1, "create": 2}[point]
        (run,) = list_runs(tmp_path / "runs")
        noted, unknown = BatchLog(run).batches.values()
        assert (noted.submitted is None, unknown.submitted) == (False, None)
        at.at_once = True
        done = harness("resume", env=env)
        assert (done.code, harness("validate", "last").code) == (0, 0), done.err
        lost = point == "create" and not lists
        assert ("and may have been bought; it is asked again" in done.err) is lost
        while json.loads(harness("ls", "--json").out)[0]["state"] != "done":
            done = harness("resume", env=env)
            assert done.code == 0, done.err
        asked = Counter(at.asked)
        again = [key for key, times in asked.items() if times > 1]
        assert sorted(again) == (sorted(unknown.made.keys) if lost else [])
        assert (len(asked), len(unknown.made.keys), max(asked.values())) == (2 * A_FILE, A_FILE, 1 + lost)


def second_time(act: Callable[[], None]) -> Callable[[object], None]:
    """Return a hook that acts when it is called for the second time."""
    calls = list[object]()

    def hook(what: object) -> None:
        calls.append(what)
        if len(calls) == 2:
            act()

    return hook
