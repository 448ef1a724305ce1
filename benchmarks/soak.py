"""Does anything grow, and is anything lost, in a long run at a server that fails now and then?

    python benchmarks/soak.py [ROLLOUTS] [AT A TIME]

Makes ROLLOUTS (100,000) rollouts, two a query and one turn each, 64 at a time, and judges each pair once. One request
in twenty fails: error 500, 429, a connection that is cut, a reply that cannot be used, error 400. The server is another
process, which counts what it sold.

Compared are the second and the last quarter of the run: memory, open files, sockets, asyncio's tasks and timers, and
threads, each at its most. Memory may grow by a fifth, the others by what happens to be in flight. At the end every
reply that was sold must be in the archive, every rollout must have ended well or failed with its cause, every query
must have its group, and `validate` must find nothing. The exit code is 1 if any of this is not so.

One core is busy all the time here, and groups wait for their judge: as many as --max-unjudged lets. It is 2 MB, so that
this number is reached early.
"""

import asyncio
import gc
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
from agents import Agent

from harness.archive.reader import RunReader
from harness.core.progress import Silent, Stage, now
from harness.core.records import Query, Usage
from harness.core.settings_sources import load
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import run_queries
from harness.pipeline.validation import validate_folder
from harness.rollouts.loading import from_object

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import Cut, Reaction, Refuse, Say, Seen, fair_judge
from tests.virtual_endpoint import VirtualEndpoint

ENVIRON = {"OPENAI_API_KEY": "sk-x"}
FAULTS = 0.05
SOUND_FIRST = 20
"""So many requests are answered first: a fault of the very first call is an error of the whole run."""
SAMPLES = 40
MEMORY_GROWTH = 1.2
SPARE = 16
"""Tasks, timers and files that happen to be there at one moment more than at another."""


@dataclass(frozen=True)
class Held:
    """What the process holds at one moment."""

    memory_mb: float
    files: int
    sockets: int
    tasks: int
    timers: int
    threads: int

    @classmethod
    def now(cls) -> "Held":
        """Count, garbage aside."""
        gc.collect()
        loop: Any = asyncio.get_running_loop()
        links = [_link(file) for file in Path("/proc/self/fd").iterdir()]
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            memory_mb=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            files=len(links),
            sockets=sum(link.startswith("socket:") for link in links),
            tasks=len(asyncio.all_tasks()),
            # The loop keeps a cancelled timer until half of them are cancelled: only live ones are held by us.
            timers=sum(not timer.cancelled() for timer in loop._scheduled),  # noqa: SLF001 - asyncio counts them nowhere else
            threads=threading.active_count(),
        )


def _link(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # closed meanwhile
        return ""


@dataclass
class Watcher(Silent):
    """Takes samples while rollouts are kept."""

    rollouts: int
    kept_so_far: int = 0
    samples: list[Held] = field(default_factory=list[Held])
    shown: Callable[[str], None] = print

    def kept(self, stage: Stage, usage: Usage, usd: float | None, *, failed: bool) -> None:  # noqa: ARG002 - as Progress
        """Take a sample each time that a part of the rollouts is there."""
        if stage != "rollouts":
            return
        self.kept_so_far += 1
        if self.kept_so_far % max(1, self.rollouts // SAMPLES) == 0:
            self.samples.append(Held.now())
            self.shown(f"{self.kept_so_far:>7} rollouts: {self.samples[-1]}")

    def grown(self) -> dict[str, tuple[float, float]]:
        """Return the median of each figure in the second quarter and in the last."""
        quarter = len(self.samples) // 4
        early, late = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        return {name: (_median(early, name), _median(late, name)) for name in asdict(self.samples[0])}


def _median(samples: list[Held], name: str) -> float:
    return statistics.median(getattr(held, name) for held in samples)


def serve(pipe: Any, seed: int) -> None:
    """Run the server until the other side says so; then tell what was sold, and which faults there were."""
    judge, rng, counts = fair_judge(), random.Random(seed), Counter[str]()
    faults: Mapping[str, Callable[[Seen], Reaction]] = {
        "error 500": lambda _: Refuse(500, "overloaded"),
        "error 429": lambda _: Refuse(429, "slow down", headers={"retry-after": "0.05"}),
        "cut": lambda _: Cut(),
        "of no use": lambda seen: Say("I cannot say.") if seen.is_judge else Say("The ans", finish="length"),
        "error 400": lambda _: Refuse(400, "something is wrong with this request"),
    }

    async def script(seen: Seen) -> Reaction:
        endpoint.requests.clear()  # what is logged would be the server's own growth
        endpoint.replied.clear()
        counts["requests"] += 1
        if counts["requests"] > SOUND_FIRST and rng.random() < FAULTS:
            fault = rng.choice(list(faults))
            counts[fault] += 1
            return faults[fault](seen)
        counts["verdicts" if seen.is_judge else "answers"] += 1
        return judge(seen) if seen.is_judge else Say(f"The answer, number {counts['answers']}.")

    endpoint = VirtualEndpoint(script)

    async def until_told() -> None:
        async with endpoint.serving():
            pipe.send(endpoint.base_url)
            await anyio.to_thread.run_sync(pipe.recv)
        pipe.send(counts)

    anyio.run(until_told)


@contextmanager
def server(sold: Counter[str]) -> Generator[str]:
    """Give the address of a server; what it sold is in `sold` at the end."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, 0), daemon=True)
    process.start()
    try:
        yield ours.recv()
        ours.send("done")
        sold.update(ours.recv())
    finally:
        process.join(10)
        process.kill()
        ours.close()
        theirs.close()


def soaked(rollouts: int, at_once: int, folder: Path, shown: Callable[[str], None] = print) -> list[str]:
    """Make a run of so many rollouts; return what is wrong with it, in words."""
    queries = [Query(id=f"q{k}", text=f"Why {k}?") for k in range(rollouts // 2)]
    sold, watcher = Counter[str](), Watcher(rollouts, shown=shown)

    async def run(base_url: str) -> tuple[Path, Held, Held]:
        at = {"base_url": base_url, "runs_dir": folder, "n": 2, "topology": "anchor", "order": "balanced"}
        settings = load({**at, "concurrency": at_once, "judge_concurrency": at_once, "max_unjudged": 2})
        agent = from_object(Agent(name="soaked", instructions="Answer.", model="m"))
        prepared = await prepare(agent, settings, ENVIRON)
        before = Held.now()
        result = await run_queries(prepared, queries, RunEnvironment(ENVIRON, progress=watcher))
        await anyio.sleep(0.1)  # connections that were closed are gone
        return result.path, before, Held.now()

    began_s, cpu_s = time.monotonic(), time.process_time()
    with server(sold) as base_url:
        path, before, after = anyio.run(run, base_url)
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    shown(f"{rollouts} rollouts in {took_s:.0f} s, CPU {cpu_s:.0f} s: {1000 * cpu_s / rollouts:.1f} ms each, judged")
    size_mb = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 2**20
    shown(f"the run is {size_mb:.0f} MB large: {1024 * size_mb / rollouts:.1f} kB a rollout; the server: {dict(sold)}")
    return _growth(watcher, before, after, 2 * at_once, shown) + _losses(path, queries, sold, shown)


def _growth(watcher: Watcher, before: Held, after: Held, in_flight: int, shown: Callable[[str], None]) -> list[str]:
    """Return what grew; `in_flight` rollouts and judge calls may be at the server at a time, each with a connection."""
    wrong: list[str] = []
    allowed = {"sockets": in_flight, "files": before.files + in_flight}
    for name, (early, late) in watcher.grown().items():
        shown(f"{name}: {early:g} in the second quarter, {late:g} in the last; {getattr(after, name):g} at the end")
        usual = max(early, allowed.get(name, 0))
        if late > (MEMORY_GROWTH * early if name == "memory_mb" else usual + SPARE):
            wrong.append(f"{name} grew from {early:g} to {late:g}")
        if name in {"sockets", "tasks"} and getattr(after, name) > getattr(before, name):
            wrong.append(f"{name}: {getattr(before, name)} before the run, {getattr(after, name)} after it")
    return wrong


def _losses(path: Path, queries: list[Query], sold: Counter[str], shown: Callable[[str], None]) -> list[str]:
    states, answers, verdicts = Counter[str](), set[str](), 0
    with RunReader(path) as reader:
        for query in reader.queries():
            for rollout in reader.group(query).rollouts:
                states[rollout.failure.kind if rollout.failure else "ok"] += 1
                if rollout.failure is None:
                    answers.add(rollout.trajectory.answer)
        verdicts = len(reader.index.verdicts)
        groups = Counter(group.status for group in reader.ranking(reader.heads()[-1].id).groups)
    damaged = validate_folder(path, now).damaged
    shown(f"rollouts: {dict(states)}; verdicts: {verdicts}; groups: {dict(groups)}; damaged: {damaged}")
    checks = {
        "rollouts are missing": states.total() == 2 * len(queries),
        "answers that were sold are not in the archive": len(answers) == states["ok"] == sold["answers"],
        "verdicts that were sold are not in the archive": verdicts == sold["verdicts"],
        "groups are missing": groups.total() == len(queries),
        "the archive is damaged": not damaged,
    }
    return [what for what, holds in checks.items() if not holds]


def main() -> int:
    """Soak; return the exit code."""
    rollouts = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    at_once = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    with tempfile.TemporaryDirectory() as folder:
        wrong = soaked(rollouts, at_once, Path(folder))
    print("nothing grew, and nothing is lost" if not wrong else "\n".join(f"WRONG: {what}" for what in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
