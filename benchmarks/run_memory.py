"""Does the memory of `harness run` grow with the number of queries?

    python benchmarks/run_memory.py [QUERIES] [QUERIES MORE]

Runs the packaged agent on the embedded offline model, two rollouts a query, judged once a pair, without a page: once on
100 queries and once on QUERIES (10,000), each command in a process of its own. Prints seconds, CPU time and the most
memory that the process held (resident), beside that of the small run. Of further numbers the same is printed.

On one busy core rollouts get ahead of the judge as far as --max-unjudged lets. It is 2 MB, so that the small
run gets there, too.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from merge_scale import Used

FEW = 100
OPTIONS = ("-n", "2", "--topology", "anchor", "--order", "balanced", "--no-report", "-q", "--max-failures", "1000000")
WAITING = ("--max-unjudged", "2")


def measured(folder: Path, count: int) -> Used:
    """Run so many queries, and return what the command took."""
    queries = folder / f"{count}.jsonl"
    queries.write_text("".join(json.dumps({"id": f"q{k}", "query": f"What is {k}?"}) + "\n" for k in range(count)))
    runs = str(folder / f"runs-{count}")
    return Used.by("run", "--agent", "search", "--queries", str(queries), "--runs-dir", runs, *OPTIONS, *WAITING)


def main() -> None:
    """Measure and print."""
    counts = [int(word) for word in sys.argv[1:]] or [10_000]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_CACHE_HOME": f"{folder}/cache", "XDG_STATE_HOME": f"{folder}/state"}
        for name in ("OPENAI_API_KEY", "HARNESS_JUDGE_API_KEY", "OPENAI_BASE_URL"):
            os.environ.pop(name, None)  # without a key the embedded model answers
        small = measured(Path(folder), FEW).memory_mb
        for count in counts:
            large = measured(Path(folder), count)
            print(
                f"run of {count:,} queries: {large.seconds:.0f} s, {large.cpu_s:.0f} s of CPU, {large.memory_mb:.0f} "
                f"MB resident, {large.memory_mb / small:.2f} x the {small:.0f} MB of {FEW}",
                flush=True,
            )


if __name__ == "__main__":
    main()
