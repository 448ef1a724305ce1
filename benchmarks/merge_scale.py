"""What `harness merge` and what comes after it take of a large run, and whether memory grows with it.

    python benchmarks/merge_scale.py [QUERIES] [FOLDER]

Generates PARTS (8) ranked runs of QUERIES (10,000) queries of 8 rollouts together, with `arena` verdicts, and as many
of 96 queries. Merges both without pages, then shows, ranks again and lists each merged run, each command in a process
of its own: seconds, CPU time, and the most memory that the process held (resident), beside that of the small run.

What takes long is to generate the runs: with FOLDER they stay there, and the next time they are taken from there.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from archive_scale import N, generate, used_by

PARTS = 8
FEW = 96


@dataclass(frozen=True)
class Used:
    """What a command took."""

    seconds: float
    cpu_s: float
    memory_mb: float

    @classmethod
    def by(cls, *args: str) -> "Used":
        """Run a command."""
        began = time.perf_counter()
        used = used_by(*args)
        return cls(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def measured(folder: Path, queries: int) -> dict[str, Used]:
    """Generate the parts unless they are there, merge them, use the merged run; return what each command took."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    each, parts = queries // PARTS, sorted(map(str, (folder / "parts").glob("*")))
    for k in range(len(parts), PARTS):
        run = asyncio.run(generate(folder / "parts", each, first=k * each))
        used_by("rescore", str(run), "--free", "-q", "--no-report")
        parts.append(str(run))
    shutil.rmtree(folder / "all", ignore_errors=True)
    size = sum(p.stat().st_size for p in folder.rglob("*.jsonl")) / 1e6
    print(f"{PARTS} runs of {each:,} queries x {N}: {size:,.0f} MB", flush=True)
    whole = str(folder / "all" / "whole")
    commands = {
        "merge": ("merge", *parts, "-o", whole, "-q", "--no-report"),
        "show": ("show", whole),
        "rescore --free": ("rescore", whole, "--free", "-q", "--no-report"),
        "ls": ("ls", "--runs-dir", str(folder / "all")),
    }
    return {name: Used.by(*args) for name, args in commands.items()}


def main() -> None:
    """Measure the small run and the large one, and print both."""
    queries = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(sys.argv[2] if len(sys.argv) > 2 else folder)
        few, many = (measured(kept / str(count), count) for count in (FEW, queries))
    for name, large in many.items():
        small = few[name].memory_mb
        print(
            f"{name:14} {large.seconds:7.1f} s  {large.cpu_s:7.1f} s of CPU  {large.memory_mb:5.0f} MB resident, "
            f"{large.memory_mb / small:.2f} x the {small:.0f} MB of {FEW} queries",
            flush=True,
        )


if __name__ == "__main__":
    main()
