"""The work of `gate`: the forecast first, the verdict last, in words, files and an exit code."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.cli.announce import announce_comparison, comparison_quote_json, comparison_quote_lines
from harness.cli.compare import deliver_incomplete, play_found, print_comparison, quote_found, tally_line
from harness.cli.compare_options import GateAsked
from harness.cli.compared_sides import FoundSides
from harness.cli.console import stderr
from harness.cli.new_files import append_text, check_writable, write_new
from harness.cli.output import Caller, print_json, say
from harness.comparison.gate import forecast_sentences
from harness.core.errors import CannotWrite, ExitCode, UsageError
from harness.pipeline.comparing.outcome import GateRules, conclude_comparison, power_check
from harness.report.html.comparison_page import write_comparison_page
from harness.report.junit import junit_refusal, junit_xml
from harness.report.markdown import gate_markdown, refusal_markdown

_SUMMARY = "GITHUB_STEP_SUMMARY"


def gate_found(caller: Caller, found: FoundSides, asked: GateAsked) -> ExitCode:
    """Compare the sides, say whether B passes, write the files. Raises UsageError if the gate could say nothing."""
    rules = GateRules(margin=asked.margin, looks=asked.looks, allow_unsure=asked.allow_unsure, buy_anew=asked.buy_anew)
    found = replace(found, options=replace(found.options, early_stop=rules.early_stop))
    if caller.dry_run:
        forecast = power_check(found.sides, found.queries, caller.environ, found.options, rules)
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
    with files.with_refusal():
        forecast = power_check(found.sides, found.queries, caller.environ, found.options, rules)
        announce_comparison(console, quote_found(caller, found))
        for line in forecast_sentences(forecast, looks=rules.looks):  # how probably an equal agent passes
            console.print(line, soft_wrap=True)
        result = play_found(caller, found)
        if code := deliver_incomplete(result):
            return code
        gate = conclude_comparison(result.path, found.sides, rules, forecast)
        if gate is None:
            say("the gate was stopped before its first look", err=True)
            return ExitCode.FAILURES
        with ComparisonReader(result.path) as reader:
            queries = list(reader.queries())
            write_comparison_page(reader, gate.comparison)
            if caller.as_json:
                print_json(gate.model_dump(mode="json"))
            else:
                print_comparison(reader, gate.comparison, caller)
                say(gate.sentence)
        words = forecast_sentences(gate.forecast, looks=rules.looks, concluded=gate.finding != "cannot tell")
        files.write(gate_markdown(gate, words, queries), junit_xml(gate, queries))
        if not (caller.quiet or result.was_complete):  # the quote has said so
            say(tally_line(result), err=True)
        if caller.as_json:
            say(gate.sentence, err=True)
        return ExitCode.DONE if gate.passed else ExitCode.FAILURES


@dataclass(frozen=True)
class _Files:
    """Where a gate's result is written beside stdout."""

    markdown: Path | None
    summary: Path | None
    """The page of a GitHub job, to which every step adds its part."""
    junit: Path | None

    @contextmanager
    def with_refusal(self) -> Generator[None]:
        """Write why a gate is refused, where that happens meanwhile. Raises CannotWrite before, if no file can be."""
        check_writable(self.markdown, self.summary, self.junit)
        try:
            yield
        except CannotWrite:
            raise
        except UsageError as refusal:
            self.write(refusal_markdown(str(refusal)), junit_refusal(str(refusal)))
            raise

    def write(self, markdown: str, junit: str) -> None:
        """Write them. Raises CannotWrite."""
        if self.markdown:
            write_new(self.markdown, markdown, force=True)
        if self.summary:
            append_text(self.summary, markdown)
        if self.junit:
            write_new(self.junit, junit, force=True)
