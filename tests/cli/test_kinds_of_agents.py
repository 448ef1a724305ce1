"""The table of the kinds of agents and variation × the commands: each works for each, and the kind stays what it is.

The model's answer tells of the request that it got, so that every answer says whether what the kind adds was there.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.cli.app import app
from harness.core.errors import HarnessError
from harness.core.records import Rollout
from tests.cli.test_resume import QUOTA, failing
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge

AGENT = """
import uuid
from pathlib import Path
from agents import Agent, ModelSettings, RunConfig, RunHooks, Runner, SQLiteSession, function_tool
from agents.run_config import ModelInputData
from pydantic import BaseModel

EXAMPLES = ["Why?"]

@function_tool
def look(word: str) -> str:
    "Look a word up."
    return f"the meaning of {word}"

agent = Agent(name="kind", instructions="Plain.", tools=[look])
"""


@dataclass(frozen=True)
class Kind:
    """A kind of agent, or of variation."""

    source: str
    """What its file holds beside the agent."""
    answers: str
    """What each answer is."""
    attr: str = "agent"
    vary: str | None = None
    query: Any = "Why?"


ROLES = ("user", "assistant", "user")
SAID = r"Plain\. m - 3 items - #\d+"
KINDS = {
    "run_config": Kind(
        """
def filtered(data):
    return ModelInputData(input=data.model_data.input, instructions="Filtered.")

def run_config(query):
    settings = ModelSettings(max_tokens=9, temperature=0.3)
    return RunConfig(call_model_input_filter=filtered, model_settings=settings, tracing_disabled=True)
""",
        r"Filtered\. m - 3 items 9 #\d+",
    ),
    "hooks": Kind(
        """
class Marking(RunHooks):
    async def on_agent_start(self, context, agent):
        agent.instructions = "Marked."

hooks = Marking
""",
        r"Marked\. m - 3 items - #\d+",
    ),
    "session": Kind(
        """
async def session(query):
    made = SQLiteSession(uuid.uuid4().hex, Path(__file__).with_name("chat.db"))
    await made.add_items([{"role": "user", "content": "Before."}, {"role": "assistant", "content": "Yes?"}])
    return made
""",
        r"Plain\. m - 5 items - #\d+",
    ),
    "session of several turns": Kind(
        """
async def answer(query):
    session = SQLiteSession("own")
    for text in ("First.", "Second."):
        await Runner.run(agent, text, session=session)
    return await Runner.run(agent, "Third.", session=session)
""",
        r"Plain\. m - 11 items - #\d+",
        "answer",
    ),
    "a session asked several messages": Kind(
        """
def session(query):
    return SQLiteSession("own")
""",
        r"Plain\. m - 5 items - #\d+",
        query=[{"role": role, "content": text} for role, text in zip(ROLES, ("Who?", "I.", "Why?"), strict=True)],
    ),
    "context": Kind(
        """
def instructions(context, agent):
    return context.context["told"]

def context(query):
    return {"told": f"Told of {query.text}"}

agent.instructions = instructions
""",
        r"Told of Why\? m - 3 items - #\d+",
    ),
    "function giving a text": Kind(
        """
async def answer(query: str) -> str:
    return "Text: " + (await Runner.run(agent, query)).final_output
""",
        f"Text: {SAID}",
        "answer",
    ),
    "function giving a model": Kind(
        """
class Answer(BaseModel):
    text: str

async def answer(query: str) -> Answer:
    return Answer(text=(await Runner.run(agent, query)).final_output)
""",
        rf'\{{"text":"{SAID}"\}}',
        "answer",
    ),
    "sandbox": Kind(
        SANDBOX := """
from agents.sandbox import Manifest, SandboxAgent
from agents.sandbox.capabilities import Shell
from agents.sandbox.entries import File

entries = {"in.txt": File(content=b"x")}
agent = SandboxAgent(name="kind", base_instructions="Plain.", tools=[look], capabilities=[Shell()],
                     default_manifest=Manifest(entries=entries))
""",
        WITH_FILES := r"(?s)Plain\..*in\.txt.* m - 3 items - #\d+",
    ),
    "function that makes its sandbox": Kind(
        f"""{SANDBOX}
from agents.sandbox import SandboxRunConfig
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

async def answer(query: str) -> str:
    async with await UnixLocalSandboxClient().create(manifest=agent.default_manifest) as session:
        config = RunConfig(sandbox=SandboxRunConfig(session=session))
        return (await Runner.run(agent, query, run_config=config)).final_output
""",
        WITH_FILES,
        "answer",
    ),
    "effort": Kind("", r"Plain\. m (low|high|-) 3 items - #\d+", vary="effort=low,high"),
    "instructions": Kind("", r"(V1\n\n|V2\n\n|)Plain\. m - 3 items - #\d+", vary='instructions=["V1","V2"]'),
    "models": Kind("", r"Plain\. (a|b|m) - 3 items - #\d+", vary="models=a,b"),
}
SANDBOXES = ("sandbox", "function that makes its sandbox")
"""Kinds that start processes, and of which a rollout that was cut off begins anew: its files are gone."""
MARKED = [pytest.param(name, marks=pytest.mark.process) if name in SANDBOXES else name for name in KINDS]
NUMBERS = count(1)


def telling(seen: Seen) -> Say:
    """Call the tool after each user message; then tell of the request."""
    if seen.items[-1].get("role") == "user":
        return Say(calls=(("look", {"word": "why"}),))
    body = seen.body
    tokens = body.get("max_tokens") or body.get("max_output_tokens") or "-"
    effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort", "-")
    return Say(f"{seen.system} {body['model']} {effort} {len(seen.items)} items {tokens} #{next(NUMBERS)}")


AT = "-n 3 --model m --api chat --judge-model j -q".split()


def the_run(runs: Path) -> Path:
    (run,) = (path.parent for path in runs.glob("*/run.json"))
    return run


class Desk:
    """The files of all kinds beside a server; one run of each kind, made when a test first asks for it."""

    def __init__(self, folder: Path, endpoint: FakeEndpoint) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.run_of = cache(self.new_run)
        for name, kind in KINDS.items():
            self.file(name, ".py").write_text(AGENT + kind.source)
            self.file(name, ".jsonl").write_text(json.dumps({"id": "q", "query": kind.query}) + "\n")
            varied = {"vary": kind.vary} if kind.vary else {}
            self.file(name, ".yaml").write_text(json.dumps({"model": "m", "api": "chat"} | varied))

    def file(self, name: str, suffix: str) -> Path:
        return self.folder / f"{name.replace(' ', '_')}{suffix}"

    def agent(self, name: str) -> str:
        return f"{self.file(name, '.py')}:{KINDS[name].attr}"

    def vary(self, name: str) -> tuple[str, ...]:
        return ("--vary", vary) if (vary := KINDS[name].vary) else ()

    def __call__(self, *argv: str | Path) -> None:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": self.endpoint.base_url}
        assert not app.main([*map(str, argv)], standalone_mode=False, obj=environ)

    def new_run(self, name: str, to: Path | None = None, *more: str) -> Path:
        """Roll a kind out in a folder; return the run's."""
        runs, queries = to or self.folder / "runs" / name, self.file(name, ".jsonl")
        where = ("--agent", self.agent(name), "--queries", queries, "--runs-dir", runs)
        self("run", *where, *AT, *self.vary(name), *more)
        return the_run(runs)

    def copy_of_run(self, name: str, to: Path) -> Path:
        return Path(shutil.copytree(self.run_of(name), to / self.run_of(name).name))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    by_number = fair_judge(lambda text: int(text.rpartition("#")[2].rstrip('"}\n')) % 11)
    with FakeEndpoint(telling, by_number).serving() as endpoint:
        yield Desk(tmp_path_factory.mktemp("kinds"), endpoint)


def rollouts_of(run: Path) -> list[Rollout]:
    with RunReader(run) as reader:
        (query,) = reader.queries()
        return list(reader.group(query).rollouts)


def checked(run: Path, name: str) -> list[Rollout]:
    """Return a run's three rollouts, each of which had what its kind adds."""
    rollouts = rollouts_of(run)
    assert [(r.status, r.capture, r.effective.uniform) for r in rollouts] == [("ok", "full", True)] * 3, rollouts
    for rollout in rollouts:
        assert re.fullmatch(KINDS[name].answers, rollout.trajectory.answer), rollout.trajectory.answer
    assert all(bool(r.recipe) == bool(KINDS[name].vary) for r in rollouts[1:])
    return rollouts


def resume(desk: Desk, name: str, folder: Path) -> None:
    """A run that was cut off within its second rollout; the reply that this had is not bought again."""
    whole = rollouts_of(desk.run_of(name))
    calls, asked = len(whole[0].calls), len(desk.endpoint.of_agent)
    desk.endpoint.agent = failing(1, QUOTA, telling, start=calls + 1)
    with pytest.raises(HarnessError, match="quota"):
        desk.new_run(name, folder, "--concurrency", "1")
    run = the_run(folder)
    desk("resume", run, "-q")
    assert [r.recipe for r in checked(run, name)] == [r.recipe for r in whole]
    assert len(desk.endpoint.of_agent) - asked == 3 * calls + 1 + (name in SANDBOXES)


def replay(desk: Desk, name: str, folder: Path) -> None:
    run, asked = checked_run(desk, name), len(desk.endpoint.requests)
    desk("replay", run)
    desk("replay", run, "--live-tools")
    assert len(desk.endpoint.requests) == asked


def rescore(desk: Desk, name: str, folder: Path) -> None:
    run = desk.copy_of_run(name, folder)
    asked = len(desk.endpoint.of_agent)
    desk("rescore", run, "--judge-model", "other", "-q")
    with RunReader(run) as reader:
        assert [ranking.finished for ranking in reader.rankings()] == [True, True]
    assert len(desk.endpoint.of_agent) == asked


def compare(desk: Desk, name: str, folder: Path) -> None:
    run = desk.copy_of_run(name, folder)
    desk("compare", run, desk.agent(name), "--config", desk.file(name, ".yaml"), "--runs-dir", run.parent, "-q")
    (new,) = (path.parent for path in run.parent.glob("*/run.json") if path.parent != run)
    checked(new, name)


def best(desk: Desk, name: str, folder: Path) -> None:
    desk("best", "Why?", "--agent", desk.agent(name), "--runs-dir", folder, *AT, *desk.vary(name))
    if isinstance(KINDS[name].query, str):  # `best` takes a text
        checked(the_run(folder), name)


def export(desk: Desk, name: str, folder: Path) -> None:
    run = checked_run(desk, name)
    varied = ["--include-varied", "--mixed"] if KINDS[name].vary else []
    desk("export", run, "--format", "groups", "--include-anchor", *varied, "-o", folder / "out", "-q")
    (line,) = (folder / "out" / "train.jsonl").read_text().splitlines()
    said = [rollout["sequences"][-1]["messages"][-1]["content"] for rollout in json.loads(line)["rollouts"]]
    assert all(text in r.trajectory.answer for text, r in zip(said, rollouts_of(run), strict=True))


def checked_run(desk: Desk, name: str) -> Path:
    run = desk.run_of(name)
    checked(run, name)
    return run


COMMANDS: list[Callable[[Desk, str, Path], None]] = [resume, replay, rescore, compare, best, export]


@pytest.mark.few(8)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", MARKED)
def test_each_command_works_for_each_kind(
    desk: Desk, name: str, command: Callable[[Desk, str, Path], None], tmp_path: Path
):
    command(desk, name, tmp_path)


@pytest.mark.nightly
@pytest.mark.process
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_runs_in_processes_of_its_own(desk: Desk, name: str, tmp_path: Path):
    checked(desk.new_run(name, tmp_path, "--isolate", "process"), name)


@pytest.mark.nightly
@pytest.mark.process
def test_kinds_run_on_ray(desk: Desk, tmp_path: Path):
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False)
    try:
        for name in ("run_config", "session", "function giving a model", "models"):
            checked(desk.new_run(name, tmp_path / name, "--engine", "ray"), name)
    finally:
        ray.shutdown()
