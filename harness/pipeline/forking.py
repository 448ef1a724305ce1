"""A fork: a run with the rollouts of another one, and branches that take some of them up again.

The records are copied, so that a branch is ranked among its siblings, and no verdict is bought twice. Then the branches
are missing rollouts of the new run, and `resume_run` makes them.
"""

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.archive.attestations import AgentOrigin, Attestation, attest, attests_queries, read_attestation, withdraw
from harness.archive.folder_store import make_folder, segment_names
from harness.archive.merging import at_rest, copy_records
from harness.archive.reader import RunReader
from harness.archive.run_files import files_in, write_file
from harness.archive.run_info import LABELS, RUN_FILE, RunInfo, new_run_id, read_labels
from harness.archive.run_state import find_missing_work
from harness.core.branch_point import BranchPoint
from harness.core.errors import CannotWrite, HarnessError, UsageError, call
from harness.core.fork_rules import ForkRules
from harness.pipeline.fork_plan import ForkPlan, plan_fork
from harness.pipeline.plan import NamedAddresses, as_begun, call_bounds, recorded_judge
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, resume_run
from harness.pipeline.trust import agent_of_run, trust_in
from harness.pipeline.validation import replay_run
from harness.rollouts.app_parts import GivenPart
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.recorder import CannotBranch


@dataclass(frozen=True)
class Fork:
    """A fork that is checked, and has cost nothing yet."""

    parent: Path
    rules: ForkRules
    plan: ForkPlan
    loaded: LoadedAgent
    trust_archive: bool
    judge_calls: int
    """The most that ranking the branches takes; verdicts that the run holds are not bought again."""
    changes: Mapping[str, Any]
    """Settings in place of the run's own, as for `resume_run`."""
    named: NamedAddresses


async def prepare_fork(
    folder: Path,
    rules: ForkRules,
    loaded: LoadedAgent | None,
    run_env: RunEnvironment,
    *,
    trust_archive: bool = False,
    changes: Mapping[str, Any] | None = None,
    named: NamedAddresses | None = None,
) -> Fork:
    """Plan a fork, and check by a replay that the agent still is the one of its first rollout. Nothing is bought.

    `loaded` None: the run's own agent; `changes` and `named` are as for `resume_run`. Raises UsageError,
    NothingRankable, ArchiveDamaged.
    """
    changes, named = changes or {}, named or NamedAddresses()
    with RunReader(folder) as reader:
        if find_missing_work(reader).rollouts:
            raise UsageError(f"rollouts of run {reader.info.id} are missing: {call('resume', folder)} runs them first")
        plan = plan_fork(reader, rules, restores=not (loaded and loaded.restore is None))
        loaded = loaded or agent_of_run(reader, run_env.environ, "fork")
        urls = named.base_url, named.judge_base_url
        trust = trust_in(reader, run_env.environ, *urls, trust_archive=trust_archive)
        await as_begun(reader, None, changes, trust, named)  # which refuses what the branches would be refused for
        trust.check_branches(plan.by_query, loaded)
        judge = recorded_judge(reader.info.judge, folder / RUN_FILE)
        sizes = [(reader.info.wanted(query), len(new)) for query, new in plan.by_query.items()]
        calls = (call_bounds(reader.settings, n + new, judge)[1] for n, new in sizes)
        judge_calls = sum(calls) if reader.settings.topology != "none" else 0
    if isinstance(loaded.session, GivenPart):
        raise UsageError(
            f"agent {loaded.name!r} has one session object, which holds what was said already: give a function "
            "session(query) that makes a new one"
        )
    first = plan.branches[0]
    of_first = partial(replay_run, query=first.query, rollout=first.branch.rollout, trust_archive=trust_archive)
    async for replayed in of_first(folder, loaded, run_env.environ):
        change = replayed.divergence
        if change and change.call is not None and change.call <= first.branch.call + 1:
            what = f"at model call {change.call} {change.words}"
            raise UsageError(f"the agent is no longer the one of rollout {replayed.index}: {what}")
    return Fork(folder, rules, plan, loaded, trust_archive, judge_calls, changes, named)


async def fork_run(fork: Fork, run_env: RunEnvironment, runs_dir: Path) -> RunResult:
    """Make the run of a fork in `runs_dir`, with its branches, and rank it.

    Raises as `resume_run`, and UsageError where no branch is what was recorded: then there is no run.
    """
    target = _make(fork, run_env, runs_dir)
    copied = _records(target)
    try:
        result = await resume_run(
            target,
            fork.loaded,
            run_env,
            changes=fork.changes,
            named=fork.named,
            trust_archive=fork.trust_archive,
            new=True,
        )
        assert result, "the branches were missing"  # noqa: S101 - for the type checker
        if not result.spent and (refused := _refused(target, fork.plan.by_query)):
            shutil.rmtree(target)
            raise UsageError(f"no branch could be taken up, and nothing was bought: {refused}")
    except HarnessError:
        if target.is_dir() and _records(target) == copied:
            shutil.rmtree(target)
        if not target.is_dir():
            withdraw(target.name, run_env.environ)
        raise
    return result


def _records(folder: Path) -> set[Path]:
    """Return the files of a run that hold what was paid for."""
    return {path for segment in ("rollouts", "verdicts", "checkpoints") for path in files_in(folder / segment)}


def _make(fork: Fork, run_env: RunEnvironment, runs_dir: Path) -> Path:
    """Make the folder of a fork, whole or not at all, and return it."""
    at, environ = run_env.clock(), run_env.environ
    with at_rest(fork.parent), RunReader(fork.parent) as reader:
        of_parent = read_attestation(reader, environ)
        made_here = of_parent if of_parent and attests_queries(of_parent, reader) else None
        info = _info(fork, reader, at, runs_dir)
        target = runs_dir / info.id

        def fill(folder: Path) -> None:
            copy_records(fork.parent, folder, segment_names(at))
            if labels := read_labels(fork.parent):
                write_file(folder / LABELS, labels)

        make_folder(target, RUN_FILE, info.model_dump_json(indent=1), fill)
    if made_here:
        _attest(target, made_here, fork.loaded, run_env)
    return target


def _info(fork: Fork, reader: RunReader, at: Any, runs_dir: Path) -> RunInfo:
    parent, new, begun = reader.info, fork.plan.by_query, dict(reader.info.branches)
    for query, those in begun.items():  # but for those for which a budget had no room
        begun[query] = those[: max(reader.index.rollouts[query]) + 1 - (parent.wanted(query) - len(those))]
    branches = {query: (*begun.get(query, ()), *new.get(query, ())) for query in {**begun, **new}}
    settings = {
        **parent.settings,
        "runs_dir": str(runs_dir),
        "max_cost": fork.changes.get("max_cost"),
        "engine": "local",
    }
    most = max(map(len, branches.values())) + int(str(parent.settings.get("n", 1)))
    if isinstance(budget := settings.get("budget"), int):  # else the branches would not be judged
        settings["budget"] = max(budget, (most - 1) * (2 if settings.get("order") == "both" else 1))
    return parent.model_copy(
        update={
            "id": new_run_id(parent.agent, at, secrets.token_hex(8)),
            "created_at": at,
            "settings": settings,
            "branches": branches,
            "branch_calls": fork.plan.most,
            "agent_word": fork.loaded.word or parent.agent_word,
            "way_found": None,
        }
    )


def _attest(target: Path, of_parent: Attestation, agent: LoadedAgent, run_env: RunEnvironment) -> None:
    given = AgentOrigin(agent.word, agent.file, agent.here or of_parent.here)
    origin = given if agent.word else of_parent.origin
    key = secrets.token_hex(16)
    with RunReader(target) as reader:
        try:
            attest(reader, run_env.environ, of_parent.addresses, origin, checkpoint_key=key)
        except CannotWrite as exc:
            run_env.progress.note(f"{exc}; `resume` and `rescore` of this run will ask where keys may go")


def _refused(folder: Path, branches: Mapping[str, tuple[BranchPoint, ...]]) -> str | None:
    """Return why no branch could be taken up; None where one could."""
    with RunReader(folder) as reader:
        reasons = list[str]()
        for query in reader.queries():
            new = reader.info.wanted(query.id) - len(branches.get(query.id, ()))
            for rollout in reader.group(query).rollouts:
                if rollout.index < new:
                    continue
                if not rollout.failure or rollout.failure.type != CannotBranch.__name__:
                    return None
                reasons.append(rollout.failure.message)
    return reasons[0] if reasons else None
