"""What a further rollout costs the command `harness run` in CPU, against a bare `Runner.run` loop, over HTTP.

    python benchmarks/marginal_cpu.py [PAIRS]

Each side is a process of its own: the command with `--topology none`, and a loop around the SDK with tracing off that
runs the same agent (three tool turns, then an answer) on the same queries, as many at a time. Each is run on 8 queries
and on 40, eight rollouts a query, and the difference is divided by the 256 further rollouts: start-up falls out, and
capture, records, index, progress and page stay in. The sides take turns (bare, command, command, bare), and the ratio
is taken pair by pair. CPU is the process's own, user and system; the server is another process.
"""

import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from overhead import CONCURRENCY, TURNS, bare, print_ratio, serve

from harness.core.progress import now

HERE = Path(__file__).parent
FEW, MANY = 8, 40
N = 8


def command(base_url: str, queries: Path, folder: Path, **more: str) -> list[str]:
    """Return the command that is measured, with `more` options."""
    flags = {
        "agent": f"{HERE / 'looking_agent.py'}:AGENT",
        "n": N,
        "concurrency": CONCURRENCY,
        "base-url": base_url,
        "api": "chat",
        "queries": queries,
    }
    flags |= {"topology": "none", "runs-dir": folder / "runs", **more}
    options = [f"--{name}={value}" if len(name) > 1 else f"-{name}{value}" for name, value in flags.items()]
    return [sys.executable, "-m", "harness", "run", *options]


def write_queries(folder: Path, count: int) -> Path:
    """Write so many queries, a line each."""
    path = folder / f"{count}.jsonl"
    path.write_text("".join(json.dumps({"query": f"Why {k}?"}) + "\n" for k in range(count)))
    return path


def arguments(side: str, base_url: str, queries: Path, folder: Path, **more: str) -> list[str]:
    """Return the process of a side, `bare` or the command with `more` options."""
    bare_loop = [sys.executable, __file__, "--bare", base_url, str(queries)]
    return bare_loop if side == "bare" else command(base_url, queries, folder, **more)


def used(arguments: list[str]) -> tuple[float, float, int]:
    """Return the CPU milliseconds, user and system, of a process and all that it starts, and page faults."""
    environ = os.environ | {"OPENAI_API_KEY": "none", "PYTHONPATH": str(HERE.parent)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, env=environ, capture_output=True, check=True, cwd=HERE.parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    times = [1000 * (getattr(after, name) - getattr(before, name)) for name in ("ru_utime", "ru_stime")]
    return times[0], times[1], after.ru_minflt - before.ru_minflt


def marginal_ms(side: str, base_url: str, folder: Path, **more: str) -> float:
    """Return the CPU milliseconds of a further rollout, and print them apart; `more` are options of the command."""
    few, many = (used(arguments(side, base_url, write_queries(folder, n), folder, **more)) for n in (FEW, MANY))
    user, system, faults = ((b - a) / ((MANY - FEW) * N) for a, b in zip(few, many, strict=True))
    print(f"    user {user:.1f} ms, system {system:.1f} ms, {faults:.0f} page faults", *more.values(), flush=True)
    return user + system


def compare(
    serve: Any, turns: str, pairs: int, ours: str, theirs: str, cost: Callable[[str, str, Path], float]
) -> None:
    """Print what a further rollout costs on two sides, which take turns; `cost(side, base_url, folder)` in ms."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    base_url = here.recv()
    print(
        f"{pairs} interleaved pairs, each side twice; {FEW} against {MANY} queries x {N}, {turns}, "
        f"started {now():%Y-%m-%d}"
    )
    costs: dict[str, list[float]] = {ours: [], theirs: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(pairs):
            of_pair = dict.fromkeys(costs, 0.0)
            for side in (theirs, ours, ours, theirs):
                of_pair[side] += cost(side, base_url, Path(folder)) / 2
            for side, ms in of_pair.items():
                costs[side].append(ms)
            print(f"  {ours} {of_pair[ours]:.1f} ms a rollout, {theirs} {of_pair[theirs]:.1f} ms", flush=True)
    here.send("done")
    server.join()
    ms = {side: statistics.median(values) for side, values in costs.items()}
    print(f"CPU of a further rollout: {ours} {ms[ours]:.1f} ms, {theirs} {ms[theirs]:.1f} ms")
    print_ratio([*zip(costs[ours], costs[theirs], strict=True)])


def main() -> None:
    """Print the ratio."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    compare(serve, f"{TURNS} tool turns each", pairs, "command", "bare", marginal_ms)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        lines = Path(sys.argv[3]).read_text().splitlines()
        anyio.run(bare, sys.argv[2], [json.loads(line)["query"] for line in lines for _ in range(N)])
    else:
        main()
