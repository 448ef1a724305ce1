"""Runs made on one machine and opened on another: each machine is a folder of its own state."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from harness.core.settings_sources import load
from harness.formats.queries import query_from
from harness.pipeline.plan import prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import run_queries
from harness.rollouts.loading import load_agent
from tests.fake_endpoint import FakeEndpoint

KEYS = {"OPENAI_API_KEY": "sk-of-the-agent", "HARNESS_JUDGE_API_KEY": "sk-of-the-judge"}
AGENT = """
from agents import Agent
agent = Agent(name="mine", instructions="Answer.", model="m")
"""


def machine(folder: Path, name: str = "mine", **environ: str) -> dict[str, str]:
    """Return the environment of somebody's machine, which has its own record of runs."""
    return {"XDG_STATE_HOME": str(folder / name), "XDG_CACHE_HOME": str(folder / name), **environ}


def a_run_at(
    endpoint: FakeEndpoint,
    folder: Path,
    environ: Mapping[str, str],
    agent: str = "search",
    *,
    streamed: bool = False,
    **settings: Any,
) -> Path:
    """Make a run in folder/runs against a server, by an agent that is named from `folder`."""
    at = {"base_url": endpoint.base_url, "api": "chat", "model": "m", "n": 2, "runs_dir": folder / "runs"}

    async def go() -> Path:
        prepared = await prepare(load_agent(agent, folder), load(at | settings), environ)
        queries = [query_from("Why?")]
        asked = iter(queries) if streamed else queries
        return (await run_queries(prepared, asked, RunEnvironment(environ))).path

    return anyio.run(go)


def edited(run: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change a run's run.json as a stranger would."""
    path = run / "run.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))
    return run


def moved(run: Path, endpoint: FakeEndpoint) -> Path:
    """Let every address of a run's run.json be another server's."""

    def change(info: dict[str, Any]) -> None:
        info["settings"]["base_url"] = info["judge"]["base_url"] = info["endpoint"]["base_url"] = endpoint.base_url
        for juror in info["judge"]["jurors"]:
            juror["base_url"] = endpoint.base_url

    return edited(run, change)
