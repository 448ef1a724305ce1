"""Waiting for batches of judge calls: a run is gone on with as often as batches are over."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from harness.archive.batch_log import futile_batches
from harness.archive.reader import RunReader
from harness.core.errors import UsageError, call, switch
from harness.judging.batch_desk import MOST_MISSES
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, resume_run
from harness.rollouts.loading import LoadedAgent

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


def refuse_idle_wait(*, by_batch: object) -> None:
    """Raise UsageError where the user asks to wait and no judge is asked `by_batch`."""
    if not by_batch:
        raise UsageError(f"{switch('wait')} is for a judging by batch: add {switch('judge_batch')}, or leave it out")


def refuse_idle_wait_for(folder: Path, changes: Mapping[str, Any], *, resuming: bool = False) -> None:
    """Raise UsageError where the user asks to wait, and neither an archived run nor `changes` judge by batch."""
    with RunReader(folder) as reader:
        heads = reader.heads() if resuming else []  # a ranking by batch counts where it may be gone on with
        of_run = [reader.info.settings.get("judge_batch"), *(head.settings.get("judge_batch") for head in heads)]
    asked = changes.get("judge_batch")
    refuse_idle_wait(by_batch=any(of_run) if asked is None else asked)


async def stay_until_judged(
    result: RunResult, loaded: LoadedAgent | Callable[[], LoadedAgent] | None, run_env: RunEnvironment
) -> RunResult:
    """Go on with a run as often as batches are over, until nothing waits for one; `loaded` as `resume_run` has it."""
    pause_s, began = _FIRST_PAUSE_S, run_env.clock()
    while result.waiting and not (result.stopped or run_env.stop.asked):
        run_env.progress.note(f"waiting: {result.waiting}")
        await anyio.sleep(pause_s)
        before = result
        result = await resume_run(before.path, loaded or _refuse_rollouts, run_env) or replace(before, waiting=None)
        same = result.ranking_id == before.ranking_id
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S) if same else _FIRST_PAUSE_S
        result = replace(result, spent=result.spent + before.spent)
        if futile_batches(before.path, began) >= MOST_MISSES:
            break  # what fails as a whole fails again: the notes have said why
    return result


def _refuse_rollouts() -> LoadedAgent:
    raise UsageError(f"rollouts of the run are missing; {call('resume')} runs them")
