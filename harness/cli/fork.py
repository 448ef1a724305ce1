"""The work of `harness fork`, and what it prints before anything is bought."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cli.console import stderr
from harness.cli.output import Caller, print_json, say
from harness.cli.progress_bars import run_silently, run_under_bars, silence_logs, stdout_for_results
from harness.cli.run import deliver
from harness.core.errors import ExitCode, UsageError, counted, option
from harness.core.fork_rules import ForkRules
from harness.core.user_files import read_text
from harness.pipeline.forking import Fork, fork_run, prepare_fork
from harness.pipeline.plan import NamedAddresses
from harness.pipeline.run_environment import RunEnvironment
from harness.report.text import dollars
from harness.rollouts.loading import load_agent

_REASONS = 5


def with_edit(rules: ForkRules, file: Path | None) -> ForkRules:
    """Return the rules with the edit that a file holds, if one is named. Raises UsageError."""
    if file is None:
        return rules
    try:
        edit: Any = json.loads(read_text(file, option("edit", file)))
    except ValueError as exc:
        raise UsageError(f"{option('edit', file)}: it is not JSON: {exc}") from None
    if not isinstance(edit, dict):
        raise UsageError(f"{option('edit', file)}: expected one JSON object with `call` and `output` or `message`")
    return replace(rules, edit=edit)


def fork_found(
    caller: Caller, folder: Path, runs_dir: Path, rules: ForkRules, agent: str | None, flags: Mapping[str, Any]
) -> ExitCode:
    """Say what a fork takes, then make it and print it; return the exit code."""
    silence_logs(verbose=caller.verbose)
    console = stderr(quiet=caller.quiet)
    named, changes = NamedAddresses.split(flags)

    async def prepared(run_env: RunEnvironment) -> Fork:
        loaded = load_agent(agent, Path.cwd()) if agent else None
        given: Any = {"trust_archive": caller.trust_archive, "changes": changes, "named": named}
        return await prepare_fork(folder, rules, loaded, run_env, **given)

    with stdout_for_results():  # what an agent's file prints is not the result
        fork = run_silently(prepared, caller)
    if caller.dry_run:
        if caller.as_json:
            print_json(plan_json(fork))
        else:
            say("\n".join(_lines(fork)))
        return ExitCode.DONE
    for line in _lines(fork, brief=True):
        console.print(line, soft_wrap=True, markup=False, highlight=False)

    result = run_under_bars(lambda env: fork_run(fork, env, runs_dir), caller, grace_s=30.0, rolls_out=True)
    return deliver(result, caller, max_failures=0)


def plan_json(fork: Fork) -> dict[str, Any]:
    """Return what `harness fork --dry-run --json` has."""
    plan = fork.plan
    return {
        "branches": [{"query": each.query, **each.branch.model_dump(mode="json")} for each in plan.branches],
        "calls": plan.calls,
        "judge_calls": fork.judge_calls,
        "prefix_tokens": plan.prefix.input,
        "cached_tokens": plan.prefix.cached,
        "cost_usd": plan.cost.usd,
        "left_out": dict(plan.left_out),
    }


def _lines(fork: Fork, *, brief: bool = False) -> list[str]:
    plan, prefix, cost = fork.plan, fork.plan.prefix, fork.plan.cost
    tokens = "" if prefix.input is None else f"; their first requests have {prefix.input:,} tokens"
    cached = "" if prefix.cached is None else f" ({prefix.cached:,} were cached)"
    judged = f"and at most {counted(fork.judge_calls, 'judge call')}, less the verdicts that the run holds"
    price = "unknown" if cost.usd is None else f"about {dollars(cost.usd)}"
    head = f"{counted(len(plan.branches), 'branch', 'branches')}: about {counted(plan.calls, 'new model call')}"
    lines = [f"{head}{tokens}{cached}; cost: {price}; {judged}"]
    several = len({each.query for each in plan.branches}) > 1
    for each in () if brief else plan.branches:
        of = f"query {each.query}, " if several else ""
        at, calls = each.branch.call, counted(each.calls, "new call")
        lines.append(f"{of}rollout {each.branch.rollout} after model call {at}: about {calls}")
    reasons = list(plan.left_out)
    lines += [f"left out: {reason}" for reason in reasons[:_REASONS]]
    return lines + ([f"left out: {len(reasons) - _REASONS} more"] if len(reasons) > _REASONS else [])
