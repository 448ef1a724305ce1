"""Texts that the archive keeps name the command line's options; what Python gets names arguments."""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Agent

import harness
from tests.fake_endpoint import Hang, Reaction, Say, Seen
from tests.virtual_endpoint import VirtualEndpoint
from tests.virtual_time import run_virtually

AGENT = Agent(name="plain", model="m")
IMPATIENT: dict[str, Any] = {"retries": 0, "judge_timeout": 5.0, "give_up": 5.0}


async def slow(seen: Seen) -> Reaction:
    """Answer within a second; never judge."""
    if seen.is_judge or "hang" in str(seen.items):
        return Hang(1e6)
    await anyio.sleep(1)
    return Say(f"an answer from seed {seen.body['seed']}")


def at_endpoint(work: Callable[[str], Awaitable[Any]]) -> Any:
    async def served() -> Any:
        async with VirtualEndpoint(slow).serving() as endpoint:
            return await work(endpoint.base_url)

    return run_virtually(served)


async def best(url: str) -> Any:
    return await harness.best_of(AGENT, "Which?", 3, "j", base_url=url, **IMPATIENT)


async def best_or_error(url: str) -> Any:
    try:
        await harness.best_of(AGENT, "Which?", 3, "j", base_url=url, on_judge_failure="raise", **IMPATIENT)
    except harness.JudgeFailed as error:
        return error


async def late_rollouts(url: str) -> Any:
    return await harness.rollout(AGENT, "hang", 2, base_url=url, timeout=3.0, request_timeout=900.0)


async def unjudged(url: str) -> Any:
    group = await harness.rollout(AGENT, "Which?", 3, base_url=url)
    return await harness.rank(group, topology="none", base_url=url)


@pytest.mark.parametrize(
    ("work", "argument"),
    [
        (best, "judge_timeout="),
        (best_or_error, "judge_timeout="),
        (late_rollouts, "(timeout=)"),
        (unjudged, "topology='none'"),
    ],
)
def test_what_python_gets_names_arguments(work: Callable[[str], Awaitable[Any]], argument: str):
    result = at_endpoint(work)
    texts = repr(result) + repr(getattr(result, "rollouts", ""))
    assert argument in texts
    assert not re.search(r"\s\(?--[a-z]", texts)


def test_a_run_is_worded_for_python_when_it_is_read_and_its_files_for_the_command_line(tmp_path: Path):
    run = harness.run_sync("search", "Which?", n=2, offline=True, topology="none", runs_dir=tmp_path)
    (ranking,) = run.rankings
    for groups in (run.ranking().groups, ranking.groups, ranking.groups[:1]):
        assert "as topology='none' asks" in groups[0].notes[0]
        assert "`harness.rescore(topology='arena')`" in groups[0].notes[0]
    (kept,) = (run.path / "rankings").iterdir()
    assert "as --topology none asks; `harness rescore --topology arena`" in kept.read_text("utf-8")
    assert "as --topology none asks" in json.dumps(run.to_json())
