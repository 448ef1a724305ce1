"""What a million rollouts take, from the CPU time, the calls and the bytes of a small run.

    python benchmarks/million.py [QUERIES]

Runs an agent of three tool turns and an answer, eight rollouts a query (40 queries), at a server in another process:
once without judging, once judged by the default design, and once without judging on Ray. CPU is user and system time of
this process: on Ray it only gives out, writes and counts. Replies take no time at the server, so that CPU is all that
counts. Tokens are those of the requests that were sent and of their replies, estimated as four bytes a token; money is
their list price for MODELS. The judge's replies are those of a rubric's marks without words. The last lines scale the
figures to a million rollouts.
"""

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import ray
from looking_agent import AGENT

from harness.archive.reader import RunReader
from harness.core.records import Bill, Query, Usage
from harness.core.settings_sources import load
from harness.endpoints.costs import Priced
from harness.endpoints.credentials import OPENAI_URL
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import run_queries
from harness.rollouts.loading import from_object

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge

ENVIRON = dict[str, str]()
ROLLOUTS, TURNS = 8, 3
MILLION = 1_000_000
MODELS = ("gpt-5-nano", "gpt-5-mini", "gpt-5")


def script(seen: Seen) -> Say:
    """Call the tool three times, then answer."""
    done = len(seen.tool_outputs)
    if done == TURNS:
        return Say(f"The answer to {seen.user} at {seen.body['seed']}. " * 20)
    return Say(calls=(("look_up", {"word": f"word {done}"}),))


def estimated(text: str) -> int:
    """Return how many tokens a text has, at four bytes a token."""
    return -(-len(text.encode()) // 4)


def metered(reply: Callable[[Seen], Any]) -> Callable[[Seen], Say]:
    """Let replies tell the tokens of what was asked and of what they say."""

    def measured(seen: Seen) -> Say:
        said: Say = reply(seen)
        written = (said.text or "") + "".join(name + json.dumps(arguments) for name, arguments in said.calls)
        return replace(said, usage=(estimated(json.dumps(seen.body)), estimated(written)))

    return measured


def serve(pipe: Any) -> None:
    """Run the server until the other side hangs up."""
    with FakeEndpoint(agent=metered(script), judge=metered(fair_judge())).serving() as endpoint:
        pipe.send(endpoint.base_url)
        pipe.recv()


@dataclass(frozen=True)
class Taken:
    """What a run took."""

    cpu_s: float
    bytes: int
    verdicts: int
    rollouts: int
    agent: Usage
    """Of all rollouts."""
    judge: Usage
    """Of all verdicts."""


def taken(base_url: str, queries: int, **more: Any) -> Taken:
    """Make a run and return what it took in this process."""
    asked = [Query(id=f"q{k}", text=f"Why {k}?") for k in range(queries)]

    async def run(folder: str) -> tuple[Path, float]:
        settings = load({"base_url": base_url, "runs_dir": Path(folder), "n": ROLLOUTS, "model": "m", **more})
        prepared = await prepare(from_object(AGENT), settings, ENVIRON)
        began_s = time.process_time()
        result = await run_queries(prepared, asked, RunEnvironment(ENVIRON))
        return result.path, time.process_time() - began_s

    with tempfile.TemporaryDirectory() as folder:
        path, cpu_s = anyio.run(run, folder)
        size = sum(file.stat().st_size for file in path.rglob("*.jsonl"))
        with RunReader(path) as reader:
            made = [rollout for query in reader.queries() for rollout in reader.group(query).rollouts]
            verdicts = list(reader.verdicts())
            agent, judge = (sum((each.usage for each in of), Usage()) for of in (made, verdicts))
            return Taken(cpu_s, size, len(verdicts), len(made), agent, judge)


def words_of(usage: Usage, pieces: int) -> str:
    """Return the tokens of one piece of so many, in words."""
    return f"{(usage.input or 0) / pieces:,.0f} in, {(usage.output or 0) / pieces:,.0f} out"


def main() -> None:
    """Print the figures."""
    queries = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url = ours.recv()
    taken(url, 2)  # what is loaded once
    plain, judged = taken(url, queries, topology="none"), taken(url, queries)
    start_of: Any = ray
    start_of.init(
        "local", include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )  # its start is not counted
    on_ray = taken(url, queries, topology="none", engine="ray")
    rollout_ms = 1000 * plain.cpu_s / plain.rollouts
    call_ms = 1000 * (judged.cpu_s - plain.cpu_s) / judged.verdicts
    driver_ms = 1000 * on_ray.cpu_s / on_ray.rollouts
    calls, rollout_kb = judged.verdicts / judged.rollouts, plain.bytes / plain.rollouts / 1024
    call_kb = (judged.bytes - plain.bytes) / judged.verdicts / 1024
    hours, gigabytes = MILLION / 1000 / 3600, MILLION / 2**20
    judging_h = calls * call_ms * hours
    print(f"{queries} queries x {ROLLOUTS}, {TURNS} tool turns and an answer, {calls:.2f} judge calls a rollout")
    print(f"a rollout: {rollout_ms:.1f} ms of CPU, {rollout_kb:.1f} kB; on Ray {driver_ms:.1f} ms of the driver's CPU")
    print(f"a judge call: {call_ms:.1f} ms of CPU, {call_kb:.1f} kB, with what a group's ranking takes")
    print(f"a million rollouts: {rollout_ms * hours:.1f} core hours, {rollout_kb * gigabytes:.0f} GB")
    print(f"their {calls:.2f} million judge calls: {judging_h:.1f} core hours, {calls * call_kb * gigabytes:.0f} GB")
    print(f"the driver on Ray: {driver_ms * hours:.1f} h of CPU for the rollouts, {judging_h:.1f} h for judging")
    print(f"tokens of a rollout: {words_of(judged.agent, judged.rollouts)}")
    print(f"tokens of a judge call: {words_of(judged.judge, judged.verdicts)}")
    for model in MODELS:
        price = Priced(model, OPENAI_URL).cost
        agent, judge, batch = (
            price(Bill(usage, tier)).known * MILLION / judged.rollouts
            for usage, tier in ((judged.agent, None), (judged.judge, None), (judged.judge, "batch"))
        )
        print(f"{model}: ${agent:,.0f} for a million rollouts, ${judge:,.0f} for judging, ${batch:,.0f} by batch")
    ours.send("done")
    server.join()


if __name__ == "__main__":
    main()
