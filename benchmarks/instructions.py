"""How many machine instructions a further rollout takes `harness run`, in this checkout and in others.

    python benchmarks/instructions.py [CHECKOUT ...]

Valgrind counts them, and a busy machine does not change the count, as it does processor time; what the kernel does is
not counted. As in marginal_cpu.py the command runs with `--topology none` on few queries and on many, eight rollouts a
query (three tool turns, then an answer), the difference is divided by the further rollouts, and the server is another
process. `bare` is the loop around the SDK. The other checkouts run on this one's environment.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import marginal_cpu
from overhead import script

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import FakeEndpoint

HERE = Path(__file__).parents[1]
FEW, MANY = 3, 11
VALGRIND = "valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --trace-children=yes".split()


def instructions(checkout: Path, arguments: list[str]) -> list[int]:
    """Return how many instructions a process takes, and each that it starts; a fork has those before it, too."""
    environ = os.environ | {"OPENAI_API_KEY": "none", "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*VALGRIND, *arguments], env=environ, capture_output=True, text=True, check=True, cwd=checkout
    )
    counted = re.findall(r"I\s+refs:\s+([\d,]+)", done.stderr)
    assert counted, done.stderr
    return [int(count.replace(",", "")) for count in counted]


def further(side: str, checkout: Path, base_url: str, **more: str) -> float:
    """Return the millions of instructions of a further rollout; `more` are options of the command."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [marginal_cpu.write_queries(Path(folder), count) for count in (FEW, MANY)]
        commands = [marginal_cpu.arguments(side, base_url, path, Path(folder), **more) for path in paths]
        few, many = [instructions(checkout, command) for command in commands]
    assert len(few) == len(many), "as many processes, so that what forks have in common falls out"
    return (sum(many) - sum(few)) / ((MANY - FEW) * marginal_cpu.N) / 1e6


def main() -> None:
    """Print the counts, and each checkout's against this one's."""
    with FakeEndpoint(agent=script).serving() as endpoint:
        here = further("command", HERE, endpoint.base_url)
        print(f"this checkout {here:.2f} million instructions a rollout", flush=True)
        print(f"bare {further('bare', HERE, endpoint.base_url):.2f} million", flush=True)
        for other in map(Path, sys.argv[1:]):
            there = further("command", other.resolve(), endpoint.base_url)
            print(f"{other} {there:.2f} million; this checkout / {other}: {here / there:.4f}", flush=True)


if __name__ == "__main__":
    main()
