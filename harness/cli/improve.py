"""The work of `improve`, of `resume` and of `show` on an improvement, and what they print."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.archive.improve_folder import RESULT, ImproveFolder
from harness.archive.run_info import PAGE
from harness.cli.announce import cost_range, warn
from harness.cli.compare_options import ImproveAsked
from harness.cli.console import stderr
from harness.cli.new_files import check_writable, write_new
from harness.cli.output import Caller, print_json, say
from harness.cli.progress_bars import run_silently, run_under_bars, silence_logs, stdout_for_results
from harness.core.cost import Cost
from harness.core.errors import ExitCode, UsageError, call, counted, on_a_line, option
from harness.core.improvements import Improvement, ImproveQuote, ImproveRules
from harness.core.records import whole_percent
from harness.core.settings_sources import load
from harness.endpoints.costs import CostBounds
from harness.formats.queries import read_queries
from harness.improving.ending import begin, improve_agent
from harness.improving.loop import Unfinished
from harness.improving.plan import TRAIN_PAIRS, ImprovePlan, plan_as_begun, plan_improvement, quote_improvement
from harness.pipeline.comparing.resuming import settings_of_side
from harness.pipeline.run_environment import RunEnvironment
from harness.report.html.improvement_page import write_result
from harness.report.summary.comparison import rate
from harness.report.text import SELF_TEST, as_sentence, dollars, probability
from harness.rollouts.loading import load_agent


def improve_found(caller: Caller, asked: ImproveAsked, values: Mapping[str, Any]) -> ExitCode:
    """Say what an improvement takes, do it, print what came of it. Raises UsageError, Refused, Interrupted."""
    silence_logs(verbose=caller.verbose)
    inputs = {Path(path).resolve() for path in (asked.queries, asked.gate) if path}
    if asked.apply and (asked.apply.suffix == ".py" or asked.apply.resolve() in inputs):
        raise UsageError(f"{option('apply', asked.apply)}: that would write over your code or queries; name a new file")
    check_writable(asked.apply)
    runs_dir = load({"runs_dir": caller.runs_dir or values.get("runs_dir") or "runs"}).runs_dir
    parts = tuple(dict.fromkeys(filter(None, (part.strip() for part in asked.parts.split(",")))))
    rules = ImproveRules(
        rounds=asked.rounds,
        children=asked.children,
        batch=asked.batch,
        parts=parts,
        looks=asked.looks,
        proposer_model=asked.proposer_model,
        gate_judge_model=asked.gate_judge_model,
    )
    with stdout_for_results():
        loaded = load_agent(asked.agent, Path.cwd())
    train = list(read_queries(asked.queries))
    held_out = None if asked.gate is None else list(read_queries(asked.gate))
    settings = settings_of_side(values, TRAIN_PAIRS, runs_dir)
    plan = run_silently(lambda env: plan_improvement(loaded, settings, train, held_out, rules, env), caller)
    quote, console = quote_improvement(plan), stderr(quiet=caller.quiet)
    lines = _quote_lines(quote, rules, split=plan.split)
    warn(console, plan.prepared, caller.environ)
    if caller.dry_run:
        if caller.as_json:
            print_json(quote.model_dump(mode="json"))
        else:
            say("\n".join(lines))
        return ExitCode.DONE
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    return _deliver(caller, plan, lambda run_env: begin(plan, runs_dir, run_env), asked.apply)


def resume_improvement(caller: Caller, folder: Path, agent: str | None, flags: Mapping[str, Any]) -> ExitCode:
    """Do what is missing of an improvement. Raises UsageError, Refused, Interrupted."""
    silence_logs(verbose=caller.verbose)
    if idle := next((name for name in flags if name != "max_cost"), None):
        raise UsageError(f"{option(idle)}: an improvement goes on as it began; leave it out")
    loaded = load_agent(agent, Path.cwd()) if agent else None
    resumed = partial(
        plan_as_begun,
        ImproveFolder(folder),
        loaded=loaded,
        max_cost=flags.get("max_cost"),
        trust_archive=caller.trust_archive,
    )
    with stdout_for_results():
        plan = run_silently(resumed, caller)
    return _deliver(caller, plan, lambda _: ImproveFolder(folder), None)


def _deliver(
    caller: Caller, plan: ImprovePlan, opened: Callable[[RunEnvironment], ImproveFolder], apply: Path | None
) -> ExitCode:
    async def work(run_env: RunEnvironment) -> Improvement | Unfinished:
        try:
            return await improve_agent(plan, opened(run_env), run_env)
        except Unfinished as exc:  # after Ctrl-C the caller says what is kept
            return exc

    result = run_under_bars(work, caller, grace_s=plan.settings.grace, rolls_out=True)
    if isinstance(result, Unfinished):
        say(f"stopped before its end, which says nothing of the candidates: {result}", err=True)
        return ExitCode.OUTAGE
    print_improvement(result, caller)
    if apply and result.accepted:
        write_new(apply, result.instructions, force=True)
        say(f"written: {apply}", err=True)
    elif apply:
        say(f"{apply} is not written: nothing was accepted", err=True)
    if result.outcome == "undecided":
        say(f"{call('resume', result.path, max_cost='USD')} goes on", err=True)
        return ExitCode.BUDGET
    return ExitCode.DONE if result.accepted else ExitCode.FAILURES


def show_improvement(folder: Path, caller: Caller) -> None:
    """Print what an improvement came to, or how far it is."""
    kept = ImproveFolder(folder)
    if result := kept.result():
        print_improvement(result, caller)
        return
    begun = len(kept.proposals())
    if caller.as_json:
        print_json({"improvement": kept.info().id, "path": str(folder), "outcome": None, "rounds_begun": begun})
    else:
        say(f"{kept.info().id}: {counted(begun, 'round')} begun, not finished; {call('resume', folder)} goes on")


def report_improvement(folder: Path) -> None:
    """Write the page of an improvement anew, and print where it is. Raises UsageError before its end, CannotWrite."""
    result = ImproveFolder(folder).result()
    if result is None:
        raise UsageError(f"{on_a_line(folder.name)} has no page before its end: {call('resume', folder)} goes on")
    write_result(folder, result)
    say(str(folder / RESULT / PAGE))


def print_improvement(result: Improvement, caller: Caller) -> None:
    """Print an improvement, for people or as JSON."""
    if caller.as_json:
        print_json(result.model_dump(mode="json"))
        return
    lines = [as_sentence(SELF_TEST)] * result.offline
    lines += [result.sentence, ""]
    for one in result.standings:
        who = f"candidate {one.number}, from {' and '.join(map(str, one.parents))}" if one.number else "the original"
        marks = ["best on some queries"] * one.front + ["dropped"] * one.dropped
        chance = f"best with probability {probability(one.p_best)}"
        lines.append(f"{who}: wins {rate(one.worth)} in training, {', '.join([chance, *marks])}")
    for each in result.rounds:
        if each.refused:
            reasons = "; ".join(dict.fromkeys(each.refused))
            lines.append(f"round {each.round} refused {counted(len(each.refused), 'text')}: {reasons}")
    took = f"{result.rollouts:,} rollouts, {result.verdicts:,} verdicts, {counted(result.proposals, 'proposal')}"
    lines += ["", f"{result.stopped}; {took}, cost {dollars(Cost(result.spent, result.exact))}"]
    lines += ["lost on held-out queries:", *(f"  {text}" for text in result.losses)] if result.losses else []
    lines += ["", result.diff.rstrip("\n")] if result.diff else []
    say("\n".join(lines))
    say(f"improvement: {result.path}")
    say(f"page: {Path(result.path) / RESULT / PAGE}")
    if result.accepted:
        info, better = ImproveFolder(Path(result.path)).info(), str(Path(result.path) / RESULT / "instructions.md")
        say(f"\nnext: {call('run', agent=info.agent_word or info.agent, instructions=better).strip('`')} 'QUERY'")


def _quote_lines(quote: ImproveQuote, rules: ImproveRules, *, split: bool) -> list[str]:
    half = " (half of the queries)" if split else ""
    what = f"{counted(rules.rounds, 'round')} at most on {counted(quote.train, 'training query', 'training queries')}"
    what += f", then the gate on {quote.held_out:,} held out{half}: up to"
    counts = f"{counted(quote.agent_runs, 'agent run')}, {counted(quote.judge_calls, 'judge call')}"
    return [
        f"{what} {counts}, {counted(quote.proposals, 'proposal')} (agent: {quote.agent_at}, judge: {quote.judge})",
        f"estimated cost: {cost_range(quote.cost_usd and CostBounds(*quote.cost_usd))}, and the proposals",
        f"the gate shows a win rate of {whole_percent(quote.seen_gain)} % half of the time",
    ]
