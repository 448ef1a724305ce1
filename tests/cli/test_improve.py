"""`harness improve`: a planted weakness is found and mended, and a kill at any moment costs what was in flight."""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Hang, Reaction, Seen
from tests.improving.world import HELD_OUT, World, write_files
from tests.nursery import Nursery

WEAK = """\
from agents import Agent
from harness.offline.tool import search_tool
TEXT = "You are a research assistant. Do not search. Write two paragraphs."
agent = Agent(name="weak", instructions=TEXT, tools=[search_tool()])
"""
IMPROVE = (
    *("improve", "poet.py", "--queries", "train.txt", "--gate", "gate.txt", "--judge-model", "judge"),
    *("--children", "2", "--batch", "2", "--concurrency", "1", "--judge-concurrency", "1", "--json"),
)


def test_a_planted_weakness_is_found_and_mended(harness: Harness, tmp_path: Path) -> None:
    subjects = ("Lisp", "Fortran", "Unix", "Java", "Prolog", "COBOL", "Python", "Pascal", "Haskell", "Simula", "BASIC")
    subjects += ("APL", "ALGOL", "Ada Lovelace", "Smalltalk", "compilers")
    (tmp_path / "weak.py").write_text(WEAK)
    queries = [f"Write about {subject}." for subject in subjects]
    (tmp_path / "train.txt").write_text("\n".join(queries[:3]))
    (tmp_path / "gate.txt").write_text("\n".join(queries[3:]))
    files = ("improve", "weak.py", "--queries", "train.txt", "--gate", "gate.txt", "--offline", "--apply", "mended.md")
    small = ("--rounds", "1", "--children", "1", "--batch", "2")
    free = harness(*files, *small, "--dry-run")
    assert (free.code, (tmp_path / "runs").exists()) == (0, False), free.err
    assert "1 round at most on 3 training queries, then the gate on 13 held out: up to " in free.out
    assert "OFFLINE SELF-TEST" in free.err
    assert "half of the time" in free.out
    for kept in ("weak.py", "train.txt"):
        over = harness(*files, *small, "--apply", kept)
        assert (over.code, "write over" in over.err) == (2, True)
    done = harness(*files, *small)
    assert done.code == 0, done.err
    assert "Better: candidate 1 was preferred to the original" in done.out
    assert "-You are a research" in done.out
    assert re.search(r"next: .*run --agent \S+ --instructions \S+instructions.md 'QUERY'", done.out), done.out
    mended = (tmp_path / "mended.md").read_text()
    assert "Do not search" not in mended
    assert "Search for" in mended
    (folder,) = (tmp_path / "runs").iterdir()
    page = (folder / "improved" / "report.html").read_text()
    parts = (
        "Who came from whom",
        "After each round",
        "What each round learnt",
        "Verdicts",
        "judged by",
        "95 % intervals",
    )
    assert all(shown in page for shown in parts)
    assert harness("show", folder.name).out == done.out
    assert json.loads(harness("resume", folder.name, "--json").out)["accepted"] is True
    assert json.loads(harness("ls", "--json").out)[0]["outcome"] == "better"
    checked = harness("validate", folder.name)
    assert (checked.code, "its runs and comparisons are looked at" in checked.out) == (0, True)
    proposed = folder / "proposals" / "0001.json"
    for change in ({"children": [{"number": 7, "round": 1, "parts": {}}]}, {"parent": 3}, {"round": 2}):
        kept = proposed.read_text()
        proposed.write_text(json.dumps({**json.loads(kept), **change}))
        damaged = harness("validate", folder.name)
        assert (damaged.code, "0001.json" in damaged.err) == (5, True)
        proposed.write_text(kept)
    (folder / "improve.json").write_text("{}")
    assert (harness("validate", folder.name).code, harness("ls").code) == (5, 0)


class Killer:
    """Kills a process at its n-th request, which gets no reply."""

    def __init__(self, world: World) -> None:
        self.world, self.left, self.pid = world, 10**9, 0

    def script(self, usual: Callable[[Seen], Reaction]) -> Callable[[Seen], Reaction]:
        def reply(seen: Seen) -> Reaction:
            self.left -= 1
            if self.left == 0:
                os.kill(self.pid, signal.SIGKILL)
                return Hang(0.01)
            return usual(seen)

        return reply


def candidates(result: Any) -> Any:
    return [(one["parts"], one["parents"], one["p_best"]) for one in result["standings"]]


@pytest.mark.parametrize(
    ("kills", "size"),
    [(1, "-n 2 --rounds 1"), pytest.param(20, "--rounds 2", marks=pytest.mark.nightly)],
)
def test_killed_anywhere_it_goes_on_to_the_same_candidates_and_buys_nothing_twice(
    nursery: Nursery, tmp_path: Path, kills: int, size: str
) -> None:
    killer = Killer(world := World())
    with FakeEndpoint(killer.script(world.agent), killer.script(world.judge)).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        for name in ("whole", "killed"):
            (tmp_path / name).mkdir()
            write_files(tmp_path / name)
        improve = (*IMPROVE, *size.split())
        whole = nursery.wait(nursery.start(improve, tmp_path / "whole", env))
        assert whole.code == 0, whole.err
        needed, argv = len(endpoint.requests), improve
        endpoint.requests.clear()
        for life in range(kills):
            killer.left = 10**9
            born = nursery.start(argv, tmp_path / "killed", env)
            killer.pid, killer.left = born.pid, max(2, needed // (kills + 1) + life % 3)
            assert nursery.wait(born).code == -signal.SIGKILL
            (folder,) = (tmp_path / "killed" / "runs").iterdir()
            argv = improve if life % 2 else ("resume", folder.name, "--json")
        killer.left = 10**9
        last = nursery.wait(nursery.start(argv, tmp_path / "killed", env))
        assert last.code == 0, last.err
        asked = Counter(json.dumps(seen.body, sort_keys=True) for seen in endpoint.requests)
        assert sum(times - 1 for times in asked.values()) <= kills, "only what was in flight is asked again"
        assert candidates(last.json) == candidates(whole.json)
        assert (last.json["sentence"], last.json["accepted"]) == (whole.json["sentence"], True)
        assert last.json["gate_queries"] == len(HELD_OUT)
