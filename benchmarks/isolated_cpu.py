"""What a further rollout costs in CPU with `--isolate process`, against one in the command's own process.

    python benchmarks/isolated_cpu.py [PAIRS]

Both sides are the command `harness run --topology none` with the packaged search agent, which searches three times and
answers, at a server in another process; as in marginal_cpu.py start-up falls out, and the sides take turns (shared,
isolated, isolated, shared). CPU is that of the command and of all its processes, user and system.
"""

import multiprocessing
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from marginal_cpu import FEW, MANY, N, marginal_ms
from overhead import CONCURRENCY, TURNS, print_ratio

from harness.core.progress import now

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import FakeEndpoint, Say, Seen

WORDS = ("programming languages", "compilers", "history of computing")


def script(seen: Seen) -> Say:
    """Search three times, then answer."""
    done = len(seen.tool_outputs)
    return Say("The answer. " * 50) if done == TURNS else Say(calls=(("search", {"query": WORDS[done]}),))


def serve(pipe: Any) -> None:
    """Run the server until the other side hangs up."""
    with FakeEndpoint(agent=script).serving() as endpoint:
        pipe.send(endpoint.base_url)
        pipe.recv()


def main() -> None:
    """Print the ratio."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    base_url = ours.recv()
    print(
        f"{pairs} interleaved pairs, each side twice; {FEW} against {MANY} queries x {N}, {TURNS} searches each, "
        f"{CONCURRENCY} at a time, started {now():%Y-%m-%d}"
    )
    costs = dict[str, list[float]](none=[], process=[])
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(pairs):
            of_pair = dict[str, float](none=0.0, process=0.0)
            for isolate in ("none", "process", "process", "none"):
                more = {"agent": "search", "model": "m", "isolate": isolate}
                of_pair[isolate] += marginal_ms("command", base_url, Path(folder), **more) / 2
            for isolate, ms in of_pair.items():
                costs[isolate].append(ms)
            print(f"  isolated {of_pair['process']:.1f} ms a rollout, shared {of_pair['none']:.1f} ms", flush=True)
    ours.send("done")
    server.join()
    ms = {isolate: statistics.median(values) for isolate, values in costs.items()}
    print(f"CPU of a further rollout: isolated {ms['process']:.1f} ms, shared {ms['none']:.1f} ms")
    print_ratio([*zip(costs["process"], costs["none"], strict=True)])


if __name__ == "__main__":
    main()
