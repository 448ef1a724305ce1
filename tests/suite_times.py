"""Measures how long the suite takes, and renews the table of CONTRIBUTING.md: `python -m tests.suite_times`."""

import json
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "tests" / "data" / "suite_times.json"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
COMMANDS = ('python -m pytest -m "not process"', "python -m pytest", "python -m pytest -m nightly")
HEAD = "| command, on two cores | tests | wall | CPU time of both cores |\n|---|---|---|---|\n"


def measured(command: str) -> dict[str, Any]:
    """Run a command of pytest; return how many tests passed and the seconds that they took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [sys.executable, *shlex.split(command)[1:], "-o", "addopts=--strict-markers -n auto --dist worksteal"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-4000:] + done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (passed,) = re.findall(r"(\d+) passed", done.stdout.splitlines()[-1])
    return {"command": command, "tests": int(passed), "wall_s": round(time.monotonic() - began), "cpu_s": round(cpu)}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as CONTRIBUTING.md shows them."""
    return HEAD + "".join(
        f"| `.venv/bin/{row['command']}` | {row['tests']:,} | {row['wall_s']} s | {row['cpu_s']} s |\n" for row in rows
    )


def main() -> None:
    """Measure each command, keep the figures, and put them into the table."""
    old = table(json.loads(MEASURED.read_text("utf-8")) if MEASURED.exists() else [])
    rows = [measured(command) for command in COMMANDS]
    MEASURED.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    page = CONTRIBUTING.read_text("utf-8")
    CONTRIBUTING.write_text(page.replace(old, table(rows)), "utf-8")


if __name__ == "__main__":
    main()
