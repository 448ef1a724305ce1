"""How many groups `harness rescore --free --no-report` ranks in a CPU second, start-up apart.

    python benchmarks/rescore_speed.py [PAIRS] [GROUPS]

Generates a run of GROUPS (800) groups of 8 with `arena` verdicts, and one of a quarter of them; the judge's marks
differ, as a model's do, so that all that a ranking holds is computed. Then runs the command on both, in turns, PAIRS
(10) times, each in a process of its own, with a warm index and one earlier ranking: what the larger run takes more,
user and system, is the marginal time of its further groups. Prints the median and the spread.
"""

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from archive_scale import N, generate, used_by

from harness.core.records import Bill, Usage
from harness.endpoints.retries import NO_LIMIT, TimeLimit
from harness.judging.judge_model import ModelReply, Question
from harness.judging.prompt import ListPrompt
from harness.transcripts.transcript import Transcript


class MarkingAsk:
    """A judge who marks each transcript around a quality of its own, with noise that differs from call to call."""

    given_up = None

    async def __call__(self, prompt: Question, clock: TimeLimit = NO_LIMIT) -> ModelReply:
        """Return the reply."""
        del clock  # it never waits
        assert not isinstance(prompt, ListPrompt)
        noise, reply = random.Random(prompt.key), dict[str, Any]({"analysis": {}})
        for block in ("path", "answer"):
            sides = {"LLM_A": _quality(prompt.first), "LLM_B": _quality(prompt.second)}
            reply[f"{block}_scores"] = {
                name: {d.key: _mark(quality + noise.gauss(0, 1)) for d in prompt.rubric.block(block)}
                for name, quality in sides.items()
            }
        text = json.dumps(reply)
        return ModelReply(text, Bill(Usage(requests=1, input=4000, output=300)), "text", text)


def _quality(transcript: Transcript) -> float:
    return random.Random(transcript.hash).uniform(3, 8)


def _mark(value: float) -> int:
    return min(10, max(0, round(value)))


def cpu_seconds(run: Path) -> float:
    """Rescore a run, take the new ranking away unless it is the first, and return the CPU time of the command."""
    before = set(run.glob("rankings/*"))
    os.environ["XDG_CACHE_HOME"] = str(run.parent / "cache")  # both runs have one id, so one index would be the other's
    used = used_by("rescore", str(run), "--free", "-q", "--no-report")
    for path in set(run.glob("rankings/*")) - before if before else ():
        path.unlink()
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Generate, time, print."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    groups = int(sys.argv[2]) if len(sys.argv) > 2 else 800
    few = groups // 4
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            asyncio.run(generate(Path(folder) / str(count), count, ask=MarkingAsk())) for count in (few, groups)
        )
        print(f"{pairs} interleaved pairs of {few:,} and {groups:,} groups of {N}", flush=True)
        both = [(cpu_seconds(small), cpu_seconds(large)) for _ in range(pairs + 2)][2:]  # the first two warm up
        rates = sorted((groups - few) / (whole - start) for start, whole in both)
        print(f"{statistics.median(rates):,.0f} groups a CPU second (from {rates[0]:,.0f} to {rates[-1]:,.0f})")


if __name__ == "__main__":
    main()
