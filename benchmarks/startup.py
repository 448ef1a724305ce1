"""How long short commands take: CPU time, beside that of an import that every program of the kind does.

    python benchmarks/startup.py [TIMES]

Runs `--help`, `ls`, `show` and `stats` of a small run and the import TIMES (20) times, in turns, so that a busy machine
slows them alike; prints the median CPU time (user and system) of each, and the median of its ratios to the import.
Python's compiled files go to a temporary folder, and each is there before the first measurement.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMPORT = "import asyncio, json, decimal, sqlite3, http.client"
HARNESS = [sys.executable, "-m", "harness"]
COMMANDS = {
    "harness --help": ([*HARNESS, "--help"], 1.5),
    "harness ls": ([*HARNESS, "ls"], 3.0),
    "harness show": ([*HARNESS, "show", "last"], 3.0),
    "harness stats": ([*HARNESS, "stats", "last"], None),
}
"""Each with the most that it may take, as a multiple of the import."""


def cpu_seconds(command: list[str], environ: dict[str, str]) -> float:
    """Return the CPU time of a process, user and system, from its start to its end."""
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)]
    child = os.posix_spawn(command[0], command, environ, file_actions=null)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def measure(times: int, folder: Path) -> None:
    """Make a run, measure everything in turns, and print the table."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        "HARNESS_RUNS_DIR": str(folder / "runs"),
    }
    run = [*HARNESS, "run", "--agent", "search", "--offline", "--quiet"]
    subprocess.run(run, env=environ, cwd=folder, check=True, capture_output=True)
    base = [sys.executable, "-c", IMPORT]
    rounds = [
        (cpu_seconds(base, environ), *(cpu_seconds(command, environ) for command, _ in COMMANDS.values()))
        for _ in range(times + 1)
    ][1:]  # the first one compiles
    print(f"{statistics.median(first for first, *_ in rounds) * 1000:6.0f} ms         python -c '{IMPORT}'")
    for at, (name, (_, most)) in enumerate(COMMANDS.items(), 1):
        seconds = statistics.median(each[at] for each in rounds)
        ratio = statistics.median(each[at] / each[0] for each in rounds)
        bound = "" if most is None else f" (at most {most:g})"
        print(f"{seconds * 1000:6.0f} ms  {ratio:4.2f} x  {name}{bound}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20, Path(temporary))
