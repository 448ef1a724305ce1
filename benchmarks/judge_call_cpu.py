"""What a judge call costs in CPU, against a bare client that sends the very same bodies.

    python benchmarks/judge_call_cpu.py [PAIRS]

One side judges a run of 40 groups of 8 with `arena` through the pipeline: it reads the rollouts, builds the prompts,
asks, reads the replies, keeps every verdict on disk before it counts, ranks the groups and writes the ranking. The
other side sends the bodies that the first one sent by `chat.completions.create` of an `openai.AsyncOpenAI`, and
forgets the replies. Both ask the same server in another process, with the same concurrency. They take turns (bare,
judged, judged, bare), and the ratio is taken pair by pair. CPU is this process's own, user and system.
"""

import json
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from archive_scale import AT, WORDS, N
from overhead import CONCURRENCY, bare_client, cpu, interleaved, print_ratio

from harness.archive.run_info import RunInfo
from harness.archive.store import RunStore
from harness.core.progress import now
from harness.core.records import Effective, Query, Rollout, Sampling, Step, Trajectory
from harness.core.settings import Settings, as_written
from harness.pipeline.plan import RescoreOptions
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import rescore_run

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, fair_judge

GROUPS = 40
STEP_WORDS, ANSWER_WORDS, REMARK_WORDS = 130, 200, 30
NUMBERS = count()


def prose(rng: random.Random, words: int) -> str:
    """Return so many words, in lines."""
    lines = (" ".join(rng.choices(WORDS, k=12)) for _ in range(words // 12))
    return "\n".join(lines)


def serve(pipe: Any, sent: Path) -> None:
    """Run the judge until the other side hangs up; the bodies of the requests go into the file `sent`, once."""
    marks, rng = fair_judge(), random.Random(0)
    remarks = [prose(rng, REMARK_WORDS) for _ in range(100)]

    def judge(seen: Seen) -> Reaction:
        if seen.body["model"] == "first":
            with sent.open("a") as file:
                file.write(json.dumps(seen.body) + "\n")
        reply = marks(seen)
        if not isinstance(reply, Say) or reply.text is None:
            return reply
        verdict = json.loads(reply.text)
        verdict["analysis"] = {name: rng.choice(remarks) for name in verdict["analysis"]}
        return Say(json.dumps(verdict), usage=(4000, 200))

    with FakeEndpoint(judge=judge).serving() as endpoint:
        pipe.send(endpoint.base_url)
        pipe.recv()


def write_run(folder: Path) -> Path:
    """Write a run that nobody has judged."""
    info = RunInfo(
        schema_version=1,
        id="unjudged",
        created_at=AT,
        agent="bench",
        settings=as_written(Settings(judge_concurrency=CONCURRENCY)),
        judge={"model": "m"},
        offline=False,
        versions={},
    )
    rng = random.Random(0)
    with RunStore.create(folder, info) as store:
        for number in range(GROUPS):
            query = Query(id=f"q{number}", text=f"What of {number}?")
            store.add_query(query)
            for index in range(N):
                store.add_rollout(rollout(query, index, rng))
        return store.folder


def rollout(query: Query, index: int, rng: random.Random) -> Rollout:
    """Return a rollout with three tool calls and an answer."""
    texts = [prose(rng, STEP_WORDS) for _ in range(3)]
    steps = (Step(kind="tool", tool_name="search", tool_input=t[:40], tool_output=t, reasoning=t[:80]) for t in texts)
    return Rollout(
        run="unjudged",
        query=query.id,
        index=index,
        role="sample" if index else "anchor",
        status="ok",
        requested=Sampling(temperature=0.8 if index else 0.0),
        effective=Effective(uniform=True),
        price_usd=0.0,
        trajectory=Trajectory(query=query.text, path=tuple(steps), answer=prose(rng, ANSWER_WORDS)),
        started_at=AT,
        duration_s=1.0,
        instructions="Look things up, then answer in full sentences.",
        tool_names=("search",),
    )


def copied(run: Path) -> Path:
    """Return a copy of the run, in which no verdict is at hand."""
    copy = run.with_name(f"copy-{next(NUMBERS)}")
    shutil.copytree(run, copy)
    return copy


async def judged(base_url: str, run: Path, model: str = "m") -> None:
    """Judge and rank the run's groups."""
    changes = {"judge_base_url": base_url, "judge_model": model}
    await rescore_run(run, changes, RunEnvironment({"OPENAI_API_KEY": "sk-benchmark"}), RescoreOptions())


async def bare(base_url: str, bodies: Sequence[dict[str, Any]]) -> None:
    """Send the bodies, with nothing around them."""
    limiter = anyio.CapacityLimiter(CONCURRENCY)
    async with bare_client(base_url) as client:

        async def send(body: dict[str, Any]) -> None:
            async with limiter:
                await client.chat.completions.create(**body)

        async with anyio.create_task_group() as tasks:
            for body in bodies:
                tasks.start_soon(send, body)


class Sides:
    """The run, and the bodies that judging it sends."""

    def __init__(self, folder: Path) -> None:
        """Write the run."""
        self.run, self.sent, self.bodies = write_run(folder), folder / "bodies.jsonl", list[dict[str, Any]]()

    def pair(self, base_url: str, _: Path) -> tuple[float, float]:
        """Return the CPU seconds of both sides, judged and bare, each run twice, A B B A: the pace drifts."""
        if not self.bodies:
            anyio.run(judged, base_url, copied(self.run), "first")
            self.bodies = [json.loads(line) | {"model": "m"} for line in self.sent.read_text().splitlines()]
        copies = copied(self.run), copied(self.run)
        theirs = cpu(bare, base_url, self.bodies)
        ours = sum(cpu(judged, base_url, copy) for copy in copies)
        return ours, theirs + cpu(bare, base_url, self.bodies)


def main() -> None:
    """Print the ratio."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    with tempfile.TemporaryDirectory() as folder:
        both = Sides(Path(folder))
        sides = interleaved(serve, (both.sent,), both.pair, pairs)
        kept = sum(path.read_text().count('"kind":"verdict"') for path in Path(folder).glob("copy-1/verdicts/*"))
    calls = len(both.bodies)
    if kept != calls:
        raise SystemExit(f"{calls} calls were to be made, and {kept} verdicts were kept")
    size = statistics.mean(len(json.dumps(body)) for body in both.bodies) / 1000
    each = [1000 * statistics.median(side) / (2 * calls) for side in zip(*sides, strict=True)]
    print(f"{pairs} interleaved pairs of twice {calls} judge calls of {size:.1f} KB, started {now():%Y-%m-%d}")
    print(f"CPU a call: judged, archived and ranked {each[0]:.2f} ms, bare {each[1]:.2f} ms")
    print_ratio(sides)


if __name__ == "__main__":
    main()
