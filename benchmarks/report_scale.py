"""A large archive, generated: how fast, in how much memory and how often its pages are written.

    python benchmarks/report_scale.py [GROUPS]

Writes a run of GROUPS (10,000) groups of 8 with `arena` verdicts into a temporary folder and ranks it, which writes its
pages. Then prints, each command in a process of its own, CPU seconds, the most memory that it held (resident), and how
many pages it wrote: the first `report`, a second one with nothing changed, a `rescore` with nothing changed, and a
`rescore` after each of 10 queries has got one more rollout.
"""

import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from archive_scale import AT, N, generate, rollout, used_by

from harness.archive.store import RunStore

CHANGED = 10


def written(run: Path) -> dict[str, int]:
    """Return when each page of a query was written (ns)."""
    if not (run / "report").is_dir():
        return {}
    with os.scandir(run / "report") as entries:
        return {entry.name: entry.stat().st_mtime_ns for entry in entries}


def measured(what: str, run: Path, *args: str) -> None:
    """Run a command and print what it used, and how many pages it wrote."""
    before = written(run)
    used = used_by(*args)
    after = written(run)
    changed = sum(before.get(name) != time for name, time in after.items())
    cpu = used.ru_utime + used.ru_stime
    print(f"{what:30} {cpu:7.1f} s CPU  {used.ru_maxrss / 1024:5.0f} MB resident  {changed:,} pages", flush=True)


def add_rollouts(run: Path, queries: Sequence[str]) -> None:
    """Add to each of the queries the rollout that it lacks."""
    with RunStore(run, AT + timedelta(days=1)) as store:
        for query in queries:
            store.add_rollout(rollout(run.name, query, N - 1, random.Random(query)))


def main() -> None:
    """Generate, rank, draw, print."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    late = [f"q{at * groups // CHANGED}" for at in range(CHANGED)]
    with tempfile.TemporaryDirectory() as folder:
        run = asyncio.run(generate(Path(folder), groups, short=late))
        print(f"{groups:,} groups of {N}", flush=True)
        measured("first rescore, with all pages", run, "rescore", str(run), "--free", "-q")
        sizes = [path.stat().st_size for path in (run / "report").iterdir()]
        index = (run / "report.html").stat().st_size
        print(f"index {index:,} bytes, {len(sizes):,} pages, the largest {max(sizes):,} bytes", flush=True)
        measured("report, nothing changed", run, "report", str(run))
        measured("rescore, nothing changed", run, "rescore", str(run), "--free", "-q")
        add_rollouts(run, late)
        measured(f"rescore, {CHANGED} groups changed", run, "rescore", str(run), "-q")


if __name__ == "__main__":
    main()
