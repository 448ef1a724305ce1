"""`harness replay`: drive the agent again on what a run recorded."""

from collections.abc import Iterator
from pathlib import Path

import anyio
from rich.text import Text

from harness.archive.run_info import find_run
from harness.cli.archived_run import runs_folder
from harness.cli.console import stdout
from harness.cli.output import Caller, print_json, say
from harness.cli.progress_bars import silence_logs, stdout_for_results
from harness.core.errors import ExitCode, Interrupted, counted
from harness.pipeline.validation import replay_run
from harness.report.terminal.table import visible_text
from harness.rollouts.loading import load_agent
from harness.rollouts.replay import Replayed

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def replay(
    caller: Caller, run: str, rollout: int | None, query: str | None, agent: str | None, *, live_tools: bool
) -> ExitCode:
    """Replay rollouts and print which are identical; return the exit code."""
    silence_logs(verbose=caller.verbose)
    folder = find_run(run, runs_folder(caller))
    replayed: list[Replayed] = []
    with stdout_for_results():  # what an agent's file and tools print is not the result
        loaded = load_agent(agent, Path.cwd()) if agent else None

        async def replay_all() -> None:
            rollouts = replay_run(
                folder,
                loaded,
                caller.environ,
                query=query,
                rollout=rollout,
                live_tools=live_tools,
                trust_archive=caller.trust_archive,
            )
            replayed.extend([each async for each in rollouts])

        try:
            anyio.run(replay_all)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
    diverged = [each for each in replayed if each.divergence]
    if caller.as_json:
        rollouts = [each.model_dump(mode="json") for each in replayed]
        print_json({"run": folder.name, "identical": not diverged, "rollouts": rollouts})
    else:
        several = len({each.query for each in replayed}) > 1
        for each in replayed:
            name = f"{each.query} rollout {each.index}" if several else f"rollout {each.index}"
            for line in _lines(each, name):
                stdout().print(line, soft_wrap=True)
        outcome = f"{len(diverged)} diverged" if diverged else "all identical"
        say(f"{folder}: {counted(len(replayed), 'rollout')} replayed, {outcome}")
    return ExitCode.FAILURES if diverged else ExitCode.DONE


def _lines(replayed: Replayed, name: str) -> Iterator[Text]:
    """Yield whether a rollout is identical, else where it diverged (model call, step, agent, tool), and the diff."""
    divergence = replayed.divergence
    if divergence is None:
        yield visible_text(f"{name}: ", ("identical", "green"), f" ({counted(replayed.calls, 'model call')})")
    else:
        places = {
            f"model call {divergence.call} of {replayed.calls}": divergence.call,
            f"step {divergence.step}": divergence.step,
            f"agent {divergence.agent}": divergence.agent,
            f"tool {divergence.tool}": divergence.tool,
        }
        place = ", ".join(text for text, value in places.items() if value)
        detail = f": {divergence.detail}" if divergence.detail else ""
        yield visible_text(f"{name}: ", (divergence.what, "bold red"), f" at {place}" if place else "", detail)
        for line in divergence.diff.splitlines():
            yield visible_text((f"  {line}", _DIFF_STYLES.get(line[:1], "")))
    for note in replayed.notes:
        yield visible_text(f"  note: {note}")
