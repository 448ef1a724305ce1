"""The sides of a comparison as a user names them: runs of the archive, and agents to roll out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import anyio

from harness.api.comparing import run_or_agent
from harness.archive.run_info import find_run
from harness.cli.archived_run import runs_folder
from harness.cli.compare_options import VARIED_OPTIONS, SidesAsked
from harness.cli.output import Caller
from harness.cli.progress_bars import silence_logs, stdout_for_results
from harness.core.errors import UsageError, counted, option
from harness.core.records import Query
from harness.core.settings import OF_JUDGING, Settings
from harness.core.settings_sources import load, merge_sources
from harness.core.user_files import read_text
from harness.formats.queries import PackedQueries, read_queries
from harness.pipeline.comparing.compare import AnySide
from harness.pipeline.comparing.labels import PeoplesWord
from harness.pipeline.comparing.planning import CompareOptions
from harness.pipeline.comparing.resuming import queries_asked, settings_of_side
from harness.pipeline.comparing.sides import SIDE_LABELS
from harness.pipeline.plan import prepare
from harness.rollouts.loading import LoadedAgent

_LONGEST_TASK = 1_000_000


@dataclass(frozen=True)
class FoundSides:
    """A comparison as it was asked for, checked as far as that is free."""

    sides: Sequence[AnySide]
    queries: Sequence[Query]
    """What agents are asked; none where all sides are runs."""
    options: CompareOptions
    settings: Settings
    """Of the command: what it says of failures and of an interruption."""
    people: PeoplesWord


def find_sides(caller: Caller, asked: SidesAsked) -> FoundSides:
    """Find the sides that a user names, and check their agents. Raises UsageError."""
    runs_dir = runs_folder(caller)
    silence_logs(verbose=caller.verbose)
    with stdout_for_results():  # what an agent's file prints must not stand among the results
        named = [run_or_agent(word, runs_dir) for word in asked.sides]
    runs = [side for side in named if isinstance(side, Path)]
    if len(runs) == len(named):
        idle = [*(name for name in asked.varied if name != "config"), *(n for n in asked.flags if n not in OF_JUDGING)]
        if asked.queries is not None:
            idle.append("queries")
        if idle:
            raise UsageError(
                f"{option(idle[0])} says how agents are rolled out, but every side is an archived run; leave it out, "
                "or name an agent"
            )
    configs = asked.varied.get("config", ())
    of_judging = {name: value for name, value in asked.flags.items() if name in OF_JUDGING}
    set_now = merge_sources(of_judging, {}, configs[0] if len(configs) == 1 else None)
    changes = {name: value for name, value in set_now.items() if name in OF_JUDGING}
    file = asked.task
    task = None if file is None else read_text(file, option("task", file), most=_LONGEST_TASK)
    if task is not None and not task.strip():
        raise UsageError(f"{option('task', file)}: it is empty")
    options = CompareOptions(
        runs_dir,
        changes,
        pairs=asked.pairs,
        task=task,
        cluster=asked.cluster,
        reuse=[find_run(word, runs_dir) for word in caller.reuse],
        allow_offline=asked.allow_offline or bool(asked.flags.get("offline")),
        trust_archive=caller.trust_archive,
    )
    settings, people = load({**changes, "runs_dir": runs_dir}), PeoplesWord.read(asked.labels, asked.min_agreement)
    if len(runs) == len(named):
        return FoundSides(runs, (), options, settings, people)
    sides = _prepared(asked, named, runs_dir, caller.environ)
    if len(sides) < 2:  # before anything is said of the first one's queries
        ways = ", ".join(option(name) for name in VARIED_OPTIONS)
        raise UsageError(f"a second side is missing: name another run or agent, or two values of one of {ways}")
    given = asked.queries
    queries = PackedQueries(read_queries(given)) if given is not None else queries_asked(sides)
    return FoundSides(sides, queries, options, settings, people)


def _prepared(
    asked: SidesAsked, named: Sequence[Path | LoadedAgent], runs_dir: Path, environ: Mapping[str, str]
) -> list[AnySide]:
    """Return the sides with their agents checked: a side for each word, or for each value that one agent is given."""
    several = {name: values for name, values in asked.varied.items() if len(values) > 1}
    flags = " and ".join(map(option, several))
    if several and len(named) > 1:
        raise UsageError(f"{flags}: several values make the sides of one agent; name one agent")
    if len(several) > 1 and not asked.grid:
        raise UsageError(f"{flags}: several values of one option make the sides; --grid crosses those of several")
    if asked.grid and len(several) < 2:
        ways = ", ".join(map(option, VARIED_OPTIONS))
        raise UsageError(f"--grid crosses several values of two options: give two of {ways} more than one value each")
    varied: list[dict[str, Any]] = [dict(zip(several, each, strict=True)) for each in product(*several.values())]
    if len(varied) > len(SIDE_LABELS):
        raise UsageError(f"--grid: {counted(len(varied), 'side')}; at most {len(SIDE_LABELS)} can be compared")
    agents = [(named[0], own) for own in varied] if several else [(side, varied[0]) for side in named]
    once = {name: values[0] for name, values in asked.varied.items() if len(values) == 1}
    sides: list[AnySide] = []
    for side, own in agents:
        if isinstance(side, Path):
            sides.append(side)
            continue
        of_side = dict(asked.flags) | once | own
        config = of_side.pop("config", None)
        settings = settings_of_side(merge_sources(of_side, environ, config), asked.pairs, runs_dir)
        with stdout_for_results():
            sides.append(anyio.run(partial(prepare, alone=False), side, settings, environ))
    return sides
