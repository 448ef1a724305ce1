"""The work of `compare` and `gate`, and of `resume` on a comparison: what it takes, then page, result and exit code."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from harness.archive.comparison_reader import ComparisonReader
from harness.cli.announce import announce_comparison, comparison_quote_json, comparison_quote_lines
from harness.cli.compare_options import GateAsked
from harness.cli.compared_sides import FoundSides
from harness.cli.console import print_lines, stderr, stdout
from harness.cli.look_options import ComparisonFiles
from harness.cli.new_files import append_text, check_writable, write_new
from harness.cli.output import Caller, print_json, say
from harness.cli.progress_bars import run_silently, run_under_bars, silence_logs
from harness.comparison.gate import forecast_sentences, lacks_verdicts
from harness.core.comparisons import Comparison
from harness.core.errors import CannotWrite, ExitCode, HarnessError, UsageError, call, counted
from harness.core.gates import GateStop, UndecidedGate
from harness.pipeline.comparing.compare import ComparisonQuote, ComparisonResult, RollOutQuote
from harness.pipeline.comparing.labels import PeoplesWord
from harness.pipeline.comparing.outcome import GateRules, comparison_of, conclude_comparison, power_check
from harness.pipeline.comparing.resuming import compare_sides, describe_resuming, quote_sides, resume_comparison
from harness.pipeline.plan import NamedAddresses
from harness.pipeline.trust import what_is_kept
from harness.report.csv import matches_csv
from harness.report.html.comparison_page import write_comparison_page
from harness.report.junit import junit_refusal, junit_xml
from harness.report.markdown import comparison_markdown, gate_markdown, refusal_markdown
from harness.report.terminal.comparison import comparison_lines
from harness.rollouts.loading import load_agent

_NO_PAIR = (
    "nothing to compare: on no query have both sides a sample that ended well or failed by the agent's own making "
    "(rollout 0 is the anchor; runs of -n 1 have no sample)"
)


def deliver_comparison(
    result: ComparisonResult,
    caller: Caller,
    files: ComparisonFiles | None = None,
    *,
    max_failures: int,
    people: PeoplesWord | None = None,
) -> ExitCode:
    """Write the page and the files, print the comparison, say on stderr what was bought, and return the exit code."""
    why = _why(result)
    with ComparisonReader(result.path) as reader:
        if reader.newest() is None:
            say(f"stopped before the first query was compared: {why}", err=True)
            return ExitCode.BUDGET if result.stopped or result.out_of_quota else ExitCode.NOTHING_RANKABLE
        comparison = comparison_of(reader, people)
        write_comparison_page(reader, comparison)
        if files:
            write_files(files, reader, comparison)
        print_comparison(reader, comparison, caller)
    if not caller.quiet and not result.was_complete:  # the quote has said so
        say(tally_line(result), err=True)
    if result.stopped or result.given_up:
        say(f"stopped: {why}", err=True)
    if result.stopped or result.out_of_quota:
        return ExitCode.BUDGET
    unjudged = sum(pair.unjudged for pair in comparison.results)
    nothing = not any(pair.queries for pair in comparison.results)
    if nothing and not unjudged:
        say(_NO_PAIR, err=True)
    if result.given_up or (nothing and not unjudged):
        return ExitCode.NOTHING_RANKABLE if nothing else ExitCode.FAILURES
    left_out = sum(side.left_out for side in comparison.figures)
    failures = unjudged + left_out + (1 if comparison.status == "incomplete" and not unjudged else 0)
    if unjudged:
        pairs, them = counted(unjudged, "pair was", "pairs were"), "it" if unjudged == 1 else "them"
        say(f"{pairs} not judged; {call('resume', result.path)} asks for {them} again", err=True)
    if nothing:
        return ExitCode.NOTHING_RANKABLE
    return ExitCode.FAILURES if failures > max_failures else ExitCode.DONE


def write_files(files: ComparisonFiles, reader: ComparisonReader, comparison: Comparison) -> None:
    """Write the files that a user asked for, over what is there. Raises CannotWrite."""
    if files.markdown:
        write_new(files.markdown, comparison_markdown(comparison, reader.queries()), force=True)
    if files.csv:
        write_new(files.csv, "".join(matches_csv(comparison, reader.queries())), force=True)


def tally_line(result: ComparisonResult) -> str:
    """Return how many verdicts were there, how many were bought now, and how many calls failed."""
    failed = f", {result.failed:,} failed" if result.failed else ""
    return f"reused {result.reused:,}, bought {result.bought:,}{failed}"


def print_comparison(reader: ComparisonReader, comparison: Comparison, caller: Caller) -> None:
    """Print a comparison, for people or as JSON."""
    if caller.as_json:
        print_json(comparison.model_dump(mode="json"))
        return
    print_lines(lambda width: comparison_lines(comparison, reader.queries(), width))
    console = stdout()
    console.print(f"comparison: {reader.folder}", soft_wrap=True)
    console.print(f"page: {reader.folder / 'report.html'}", soft_wrap=True)


def _why(result: ComparisonResult, otherwise: str = "the work was interrupted") -> str:
    quota = "the judge's quota is used up" if result.out_of_quota else None
    return f"{result.stopped or result.given_up or quota or otherwise}. {what_is_kept(result.path)}"


def compare_found(caller: Caller, found: FoundSides, files: ComparisonFiles) -> ExitCode:
    """Compare sides and print the comparison; return the exit code. Raises UsageError, Refused, Interrupted."""
    quote = quote_found(caller, found)
    if caller.dry_run:
        if caller.as_json:
            print_json(comparison_quote_json(quote), indent=None)
        else:
            say("\n".join(comparison_quote_lines(quote)))
        return ExitCode.DONE
    check_writable(files.markdown, files.csv)
    announce_comparison(stderr(quiet=caller.quiet), quote)
    most = found.settings.max_failures
    return deliver_comparison(play_found(caller, found), caller, files, max_failures=most, people=found.people)


def quote_found(caller: Caller, found: FoundSides) -> ComparisonQuote | RollOutQuote:
    """Return what a comparison would reuse, run and buy. Raises UsageError for what cannot be compared."""
    return run_silently(lambda run_env: quote_sides(found.sides, found.queries, run_env, found.options), caller)


def play_found(caller: Caller, found: FoundSides) -> ComparisonResult:
    """Roll out what is to be rolled out, and compare; Ctrl-C lets what is under way end. Raises Interrupted."""
    return run_under_bars(
        lambda run_env: compare_sides(found.sides, found.queries, run_env, found.options),
        caller,
        grace_s=found.settings.grace,
        rolls_out=True,
    )


def resume_compared(
    caller: Caller,
    reader: ComparisonReader,
    runs_dir: Path,
    flags: Mapping[str, Any],
    agent: str | None,
    rubric: str | None,
) -> ExitCode:
    """Do what is missing of a comparison of runs in `runs_dir`. Raises UsageError, Refused, Interrupted."""
    silence_logs(verbose=caller.verbose)
    console, settings = stderr(quiet=caller.quiet), reader.settings
    missing = describe_resuming(reader, runs_dir)
    if missing is None:
        return _say_finished(reader, caller)
    console.print(f"resuming {reader.info.id}: {missing}", soft_wrap=True)
    to_run = [side for side in reader.info.sides if side.to_run]
    if agent is not None and len({side.agent for side in to_run}) > 1:
        runs = " and ".join(side.run for side in to_run)
        raise UsageError(f"--agent {agent} names one agent, and the sides have several: resume first {runs}")
    # without an agent the runs tell theirs
    agents = {side.run: load_agent(agent, Path.cwd()) for side in to_run} if agent is not None else None
    named, changes = NamedAddresses.split(flags)
    work = partial(
        resume_comparison,
        reader.folder,
        runs_dir=runs_dir,
        agents=agents,
        changes=changes,
        named=named,
        rubric_word=rubric,
        trust_archive=caller.trust_archive,
    )
    result = run_under_bars(work, caller, grace_s=settings.grace)
    if result is None:  # another process has just finished the comparison
        return _say_finished(reader, caller)
    return deliver_comparison(result, caller, max_failures=settings.max_failures)


def _say_finished(reader: ComparisonReader, caller: Caller) -> ExitCode:
    say(f"nothing to do: comparison {reader.info.id} is finished", err=caller.as_json)
    if caller.as_json:
        print_comparison(reader, comparison_of(reader), caller)
    return ExitCode.DONE


_SUMMARY = "GITHUB_STEP_SUMMARY"


def gate_found(caller: Caller, found: FoundSides, asked: GateAsked) -> ExitCode:
    """Compare the sides, say whether B passes, write the files. Raises UsageError if the gate could say nothing."""
    rules = GateRules(margin=asked.margin, looks=asked.looks, allow_unsure=asked.allow_unsure, buy_anew=asked.buy_anew)
    found = replace(found, options=replace(found.options, early_stop=rules.early_stop))
    if caller.dry_run:
        forecast = anyio.run(power_check, found.sides, found.queries, caller.environ, found.options, rules)
        quote = quote_found(caller, found)
        if caller.as_json:
            print_json({**comparison_quote_json(quote), "forecast": forecast.model_dump(mode="json")}, indent=None)
        else:
            say("\n".join([*comparison_quote_lines(quote), *forecast_sentences(forecast, looks=rules.looks)]))
        return ExitCode.DONE
    console = stderr(quiet=caller.quiet)
    # A Markdown file that is named stands in place of the job's page.
    summary = caller.environ.get(_SUMMARY) if asked.markdown is None else None
    files = _Files(asked.markdown, Path(summary) if summary else None, asked.junit)
    with files.with_refusal(as_json=caller.as_json):
        forecast = anyio.run(power_check, found.sides, found.queries, caller.environ, found.options, rules)
        announce_comparison(console, quote_found(caller, found))
        for line in forecast_sentences(forecast, looks=rules.looks):  # how probably an equal agent passes
            console.print(line, soft_wrap=True)
        result = play_found(caller, found)
        cut_short = result.stopped or result.given_up or result.out_of_quota
        gate = None if cut_short else conclude_comparison(result.path, found.sides, rules, forecast, found.people)
        if gate is None or lacks_verdicts(gate):
            return _end_undecided(result, caller, files)
        with ComparisonReader(result.path) as reader:
            queries = list(reader.queries())
            write_comparison_page(reader, gate.comparison.model_copy(update={"sentence": gate.sentence}))
            if caller.as_json:
                print_json(gate.model_dump(mode="json"))
            else:
                print_comparison(reader, gate.comparison.model_copy(update={"sentence": ""}), caller)
                say(gate.sentence)
        _, *words = forecast_sentences(gate.forecast, looks=rules.looks, concluded=gate.finding != "cannot tell")
        files.write(gate_markdown(gate, words, queries), junit_xml(gate, queries))
        if not (caller.quiet or result.was_complete):  # the quote has said so
            say(tally_line(result), err=True)
        if caller.as_json:
            say(gate.sentence, err=True)
        return ExitCode.DONE if gate.passed else ExitCode.FAILURES


_EXIT_CODES: Mapping[GateStop, ExitCode] = {
    "nothing judged": ExitCode.NOTHING_RANKABLE,
    "judge failed": ExitCode.OUTAGE,
    "quota": ExitCode.BUDGET,
    "max cost": ExitCode.BUDGET,
}


def _end_undecided(result: ComparisonResult, caller: Caller, files: "_Files") -> ExitCode:
    """Say why a gate without a finding has none, on all that the user reads; return the exit code."""
    with ComparisonReader(result.path) as reader:
        comparison = comparison_of(reader) if reader.newest() else None
    of_sides = comparison.results[0] if comparison else None
    reason: GateStop = "judge failed" if of_sides and of_sides.queries else "nothing judged"
    if result.stopped or result.out_of_quota:
        reason = "max cost" if result.stopped else "quota"
    unjudged = counted(of_sides.unjudged if of_sides else 0, "pair was", "pairs were")
    sentence = f"No gate: {_why(result, f'{unjudged} not judged')}"
    files.write(refusal_markdown(sentence), junit_refusal(sentence))
    if caller.as_json:
        print_json(UndecidedGate(stopped=reason, sentence=sentence, comparison=comparison).model_dump(mode="json"))
    say(f"stopped: {sentence[0].lower()}{sentence[1:]}", err=True)
    return _EXIT_CODES[reason]


@dataclass(frozen=True)
class _Files:
    """Where a gate's result is written beside stdout."""

    markdown: Path | None
    summary: Path | None
    """The page of a GitHub job, to which every step adds its part."""
    junit: Path | None

    @contextmanager
    def with_refusal(self, *, as_json: bool) -> Generator[None]:
        """Write why a gate is refused, where that happens meanwhile. Raises CannotWrite before, if no file can be."""
        check_writable(self.markdown, self.summary, self.junit)
        try:
            yield
        except HarnessError as error:
            if isinstance(error, UsageError) and not isinstance(error, CannotWrite):
                self.write(refusal_markdown(str(error)), junit_refusal(str(error)))
            if as_json:
                reasons: Mapping[ExitCode, GateStop] = {
                    ExitCode.BUDGET: "quota",
                    ExitCode.INTERRUPTED: "interrupted",
                }
                reason: GateStop = reasons.get(error.exit_code, "refused")
                print_json(UndecidedGate(stopped=reason, sentence=str(error)).model_dump(mode="json"))
            raise

    def write(self, markdown: str, junit: str) -> None:
        """Write them. Raises CannotWrite."""
        if self.markdown:
            write_new(self.markdown, markdown, force=True)
        if self.summary:
            append_text(self.summary, markdown)
        if self.junit:
            write_new(self.junit, junit, force=True)
