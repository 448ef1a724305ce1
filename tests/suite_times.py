"""Measures how long the suite takes; renews the table of CONTRIBUTING.md and the list of tests that take long.

python -m tests.suite_times [N...]      only the Nth of the commands, from 0; the others keep the figures that they had
"""

import json
import re
import resource
import shlex
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "tests" / "data" / "suite_times.json"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
SLOW = ROOT / "tests" / "data" / "slow_tests.txt"
SLOW_S = 0.1
"""Seconds that all cases of a test take together, from which on the quick loop leaves the test out."""
WHOLE = "python -m pytest"
COMMANDS = (WHOLE, 'python -m pytest -m "not process"', 'python -m pytest -m "nightly or not process"')
HEAD = "| command, on two cores | tests | wall | CPU time of both cores |\n|---|---|---|---|\n"


def measured(command: str) -> dict[str, Any]:
    """Run a command of pytest; return how many tests passed and the seconds that they took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [
        sys.executable,
        *shlex.split(command)[1:],
        "--durations=0",
        "-o",
        "addopts=-n auto --dist worksteal --reruns 1",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-4000:] + done.stderr)
    if command == WHOLE:
        note_slow(done.stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (passed,) = re.findall(r"(\d+) passed", done.stdout.splitlines()[-1])
    return {"command": command, "tests": int(passed), "wall_s": round(time.monotonic() - began), "cpu_s": round(cpu)}


def note_slow(durations: str) -> None:
    """Write down the tests that take long, by what pytest says of the durations of their cases."""
    taken = defaultdict[str, float](float)
    for seconds, test in re.findall(r"^([\d.]+)s (?:setup|call|teardown) +([^[\n]+)", durations, re.MULTILINE):
        taken[test.strip()] += float(seconds)
    SLOW.write_text("".join(f"{test}\n" for test in sorted(taken) if taken[test] >= SLOW_S), "utf-8")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as CONTRIBUTING.md shows them."""
    return HEAD + "".join(
        f"| `.venv/bin/{row['command']}` | {row['tests']:,} | {row['wall_s']} s | {row['cpu_s']} s |\n" for row in rows
    )


def main(chosen: list[int]) -> None:
    """Measure commands, keep their figures beside those of the others, and put all into the table."""
    old = json.loads(MEASURED.read_text("utf-8")) if MEASURED.exists() else []
    by_command = {row["command"]: row for row in old}
    by_command |= {COMMANDS[number]: measured(COMMANDS[number]) for number in chosen}
    rows = [by_command[command] for command in COMMANDS if command in by_command]
    MEASURED.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    CONTRIBUTING.write_text(CONTRIBUTING.read_text("utf-8").replace(table(old), table(rows)), "utf-8")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or list(range(len(COMMANDS))))
