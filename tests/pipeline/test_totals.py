"""What a watcher hears of the work in all: rollouts once and for good, judge calls by bounds that only close in."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.core.progress import Stage
from harness.core.records import Usage
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen, fair_judge, searching_agent

pytestmark = pytest.mark.anyio


class Watcher(harness.Silent):
    """Remembers the totals, and what was done beside each."""

    def __init__(self) -> None:
        self.totals: dict[Stage, list[tuple[int, int | None]]] = {"rollouts": [], "judging": []}
        self.finished = Counter[Stage]()
        self.failed = Counter[Stage]()
        self.retries = 0

    def total(self, stage: Stage, low: int, high: int | None) -> None:
        self.totals[stage].append((low, high))

    def done(self, stage: Stage, count: int = 1) -> None:
        self.finished[stage] += count
        _, high = self.totals[stage][-1]
        assert high is None or self.finished[stage] <= high

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:
        self.failed[stage] += failed

    def retried(self) -> None:
        self.retries += 1

    def closed_in(self) -> bool:
        """Whether each pair of bounds lies within the one before, and the last is what was done."""
        bounds = self.totals["judging"]
        highs = [high for _, high in bounds if high is not None]
        lows = [low for low, _ in bounds]
        last = (self.finished["judging"], self.finished["judging"])
        return lows == sorted(lows) and highs == sorted(highs, reverse=True) and bounds[-1] == last


@pytest.mark.few(2)
@pytest.mark.parametrize("topology", ["arena", "cyclic", "none", "swiss"])
async def test_rollouts_have_one_total_and_the_bounds_of_judge_calls_close_in(tmp_path: Path, topology: Any):
    watcher = Watcher()
    queries = ["What is Lisp?", "What is Fortran?"]
    await harness.run(
        "search", queries, n=4, topology=topology, offline=True, runs_dir=tmp_path, progress=watcher, report=False
    )
    assert watcher.totals["rollouts"] == [(8, 8)]
    assert watcher.finished["rollouts"] == 8
    assert watcher.closed_in()


async def test_a_stream_of_queries_shows_no_total_until_it_ends(tmp_path: Path):
    watcher = Watcher()

    def stream() -> Iterator[str]:
        for n in range(3):
            assert watcher.totals["rollouts"] == [(0, None)]
            assert {high for _, high in watcher.totals["judging"]} == {None}
            yield f"Question {n}?"

    await harness.run("search", stream(), n=2, offline=True, runs_dir=tmp_path, progress=watcher, report=False)
    assert watcher.totals["rollouts"] == [(0, None), (6, 6)]
    assert watcher.finished["rollouts"] == 6
    assert watcher.closed_in()


def refusing(script: Callable[[Seen], Reaction], every: int) -> Callable[[Seen], Reaction]:
    """Refuse one call in `every`, never the first."""
    numbers = count(1)
    return lambda seen: Refuse(500) if next(numbers) % every == 0 else script(seen)


async def test_rollouts_that_fail_and_judges_that_break_keep_the_totals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    watcher = Watcher()
    scripts = refusing(searching_agent(), 7), refusing(fair_judge(), 5)
    with FakeEndpoint(agent=scripts[0], judge=scripts[1]).serving() as endpoint:
        where: Any = {"model": "m", "base_url": endpoint.base_url, "runs_dir": tmp_path, "retries": 0, "report": False}
        await harness.run("search", ["One?", "Two?"], n=4, progress=watcher, **where)
    assert watcher.totals["rollouts"] == [(8, 8)]
    assert watcher.finished["rollouts"] == 8
    assert watcher.failed["rollouts"]
    assert watcher.failed["judging"]
    assert watcher.closed_in()


async def test_resume_counts_what_is_missing_and_rescore_what_it_buys(tmp_path: Path):
    run = await harness.run("search", ["One?", "Two?"], n=3, offline=True, runs_dir=tmp_path, report=False)
    bought = sum(ranking.judged for ranking in run.ranking().groups)
    (path,) = (run.path / "rollouts").glob("*.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    resumed, reused, anew, free = Watcher(), Watcher(), Watcher(), Watcher()
    await harness.resume(run, progress=resumed)
    assert resumed.totals["rollouts"] == [(2, 2)]
    assert resumed.finished["rollouts"] == 2
    assert resumed.closed_in()
    await harness.rescore(run, progress=reused)
    assert (reused.finished["judging"], reused.closed_in()) == (0, True)
    await harness.rescore(run, judge_label="anew", progress=anew)
    assert (anew.finished["judging"], anew.closed_in()) == (bought, True)
    await harness.rescore(run, judge_label="free", free=True, progress=free)
    assert set(free.totals["judging"]) == {(0, 0)}


async def test_a_call_that_is_made_again_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    refused = iter([Say("Fine."), Refuse(500), Refuse(503)])
    watcher = Watcher()
    with FakeEndpoint(agent=lambda _: next(refused, Say("Again."))).serving() as endpoint:
        where: Any = {"model": "m", "base_url": endpoint.base_url, "topology": "none", "runs_dir": tmp_path}
        await harness.run("search", "One?", n=2, concurrency=1, progress=watcher, **where)
    assert (watcher.retries, watcher.failed.total()) == (2, 0)


async def test_a_group_by_itself_and_the_best_of_n_have_totals_too():
    rolled_out, ranked, best = Watcher(), Watcher(), Watcher()
    group = await harness.rollout("search", "One?", 4, offline=True, progress=rolled_out)
    await harness.rank(group, progress=ranked)
    await harness.best_of("search", "One?", 4, offline=True, progress=best)
    assert rolled_out.totals == {"rollouts": [(4, 4)], "judging": []}
    assert ranked.closed_in()
    assert ranked.finished["judging"] > 0
    assert best.totals["rollouts"] == [(4, 4)]
    assert best.closed_in()
