"""What a further rollout costs in CPU with `--isolate process`, against one in the command's own process.

    python benchmarks/isolated_cpu.py [PAIRS] [fresh]
    python benchmarks/isolated_cpu.py instructions

Both sides are the command `harness run --topology none` with the packaged search agent, which searches three times and
answers, at a server in another process; as in marginal_cpu.py start-up falls out, and the sides take turns (shared,
isolated, isolated, shared). CPU is that of the command and of all its processes, user and system, on one core: two that
are threads of one make each other slower, and the shared process never has both. With `fresh` the agent is a copy of
the packaged one, so that no process makes a second rollout. `instructions` counts them as instructions.py does.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from instructions import HERE, further
from marginal_cpu import compare, marginal_ms
from overhead import CONCURRENCY, TURNS

from harness.rollouts.examples import examples_folder

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


def cost(side: str, base_url: str, folder: Path) -> float:
    """Return the CPU milliseconds of a further rollout."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    isolate = "process" if side == "isolated" else "none"
    agent = "search"
    if "fresh" in sys.argv:
        agent = str(shutil.copy(examples_folder() / "search.py", folder / "copied.py"))
    return marginal_ms("command", base_url, folder, agent=agent, model="m", isolate=isolate)


def main() -> None:
    """Print the ratio."""
    if "instructions" in sys.argv:
        with FakeEndpoint(agent=script).serving() as endpoint:
            shared, isolated = (
                further("command", HERE, endpoint.base_url, agent="search", model="m", concurrency="4", isolate=isolate)
                for isolate in ("none", "process")
            )
        print(f"millions of instructions: isolated {isolated:.1f}, shared {shared:.1f}, ratio {isolated / shared:.3f}")
        return
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    compare(serve, f"{TURNS} searches each, {CONCURRENCY} at a time", pairs, "isolated", "shared", cost)


if __name__ == "__main__":
    main()
