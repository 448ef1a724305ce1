"""A large archive, generated: how fast and in how much memory it is listed, shown and ranked again.

    python benchmarks/archive_scale.py [GROUPS]

Writes a run of GROUPS (10,000) groups of 8 with `arena` verdicts into a temporary folder, then times real commands,
each in a process of its own: seconds, and the most memory that it held (resident). The first one also builds the index.
A plain `rescore` first counts what it would buy, so it reads the run twice.
"""

import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

from harness.archive.run_info import RunInfo
from harness.archive.store import RunStore
from harness.core.records import Effective, Group, Query, Rollout, Sampling, Step, Trajectory
from harness.core.settings import OFFLINE_JUDGE, Settings, as_written
from harness.endpoints.costs import Priced
from harness.judging.judge_model import Ask, JudgeModel
from harness.judging.judges import EmbeddedAsk, PairwiseJudge
from harness.judging.rubric import load_rubric
from harness.judging.verdict_cache import CachedPairJudge, PairJury, VerdictCache
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group

N = 8
AT = datetime(2026, 1, 1, tzinfo=UTC)
STARTER = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), *used]))
"""
WORDS = "lisp scheme compiler type program stack heap garbage closure macro pattern module proof loop".split()


def rollout(run: str, query: str, index: int, rng: random.Random) -> Rollout:
    """Return a rollout with two steps and an answer of some sentences."""
    text = [" ".join(rng.choices(WORDS, k=60)) for _ in range(3)]
    steps = tuple(
        Step(kind="tool", tool_name="search", tool_input=t[:40], tool_output=t, reasoning=t[:80]) for t in text[:2]
    )
    return Rollout(
        run=run,
        query=query,
        index=index,
        role="sample" if index else "anchor",
        status="ok",
        requested=Sampling(temperature=0.8 if index else 0.0),
        effective=Effective(uniform=True),
        price_usd=0.0,
        trajectory=Trajectory(query=query, path=steps, answer=text[2]),
        started_at=AT,
        duration_s=1.0,
    )


async def generate(
    folder: Path,
    groups: int,
    with_calls: Callable[[Rollout, RunStore], Rollout] | None = None,
    short: Collection[str] = (),
    first: int = 0,
    ask: Ask | None = None,
) -> Path:
    """Write the run: verdicts by `ask` (the embedded judge), no fsync, no ranking; `with_calls` may add calls.

    `short` queries have a rollout less. The queries are numbered from `first`.
    """
    settings = as_written(Settings(judge_budget=0))
    info = RunInfo(
        schema_version=1,
        id=f"20260101T000000-large-{first:06x}",
        created_at=AT,
        agent="large",
        settings=settings,
        judge={"model": OFFLINE_JUDGE},
        offline=True,
        versions={},
    )
    rubric = load_rubric("writing")
    with RunStore.create(folder, info) as store:
        os.fsync = lambda _: None  # type: ignore[assignment] - the generator's own; the commands timed below are real
        reply = store.put_blob("The judge's reply.")
        model = JudgeModel(
            ask or EmbeddedAsk(),
            identity=f"{OFFLINE_JUDGE}@offline",
            clock=lambda: AT,
            pricing=Priced(OFFLINE_JUDGE, None, free=True),
            keep=lambda _: reply,
        )
        jury = PairJury([CachedPairJudge(PairwiseJudge(model, rubric), VerdictCache(store))])
        for g in range(first, first + groups):
            query = Query(id=f"q{g}", text=f"What of {g}?")
            rollouts = tuple(
                rollout(info.id, query.id, i, random.Random(f"{g}/{i}")) for i in range(N - (query.id in short))
            )
            store.add_query(query)
            for r in rollouts:
                store.add_rollout(with_calls(r, store) if with_calls else r)
            await rank_group(Group(query=query, rollouts=rollouts), jury, Rules(), random.Random(0))
        return store.folder


def timed(*args: str) -> tuple[float, float]:
    """Run a harness command. Return its seconds and its peak resident memory in MB."""
    began = time.perf_counter()
    used = used_by(*args)
    return time.perf_counter() - began, used.ru_maxrss / 1024


def used_by(*args: str) -> resource.struct_rusage:
    """Run a harness command, and return what it used.

    A small process starts it: Linux counts as a child's memory what its parent holds when it is started, too.
    """
    command = [sys.executable, "-I", "-S", "-c", STARTER, sys.executable, "-m", "harness", *args]
    code, *used = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    if code:
        raise SystemExit(f"harness {' '.join(args)} ended with {code}")
    return resource.struct_rusage(used)


def main() -> None:
    """Generate, time, print."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = asyncio.run(generate(Path(folder), groups))
        size = sum(p.stat().st_size for p in run.rglob("*.jsonl")) / 1e6
        print(f"{groups:,} groups of {N}: {size:,.0f} MB, generated in {time.perf_counter() - began:.0f} s", flush=True)
        commands: list[tuple[str, ...]] = [
            ("ls", "--runs-dir", folder),
            ("rescore", str(run), "--free", "-q"),
            ("rescore", str(run), "--free", "-q"),
            ("rescore", str(run)),
            ("show", str(run), "--query", f"q{min(7, groups - 1)}"),
            ("ls", "--runs-dir", folder),
        ]
        for args in commands:
            seconds, peak = timed(*args)
            rate = f", {groups / seconds:,.0f} groups/s" if args[0] == "rescore" else ""
            print(f"{args[0]:8} {seconds:7.1f} s  {peak:6.0f} MB resident{rate}", flush=True)


if __name__ == "__main__":
    main()
