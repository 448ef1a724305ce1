"""The words, files and exit code of `gate`: the forecast first, the verdict last."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from harness.archive.comparison_reader import ComparisonReader
from harness.cli.compared_sides import AskedSides
from harness.cli.comparison_costs import quote_lines, quote_row
from harness.cli.comparison_result import deliver_incomplete, print_comparison, tally_line
from harness.cli.new_files import append_text, check_writable, write_new
from harness.cli.output import print_json, say
from harness.comparison.gate import forecast_sentences
from harness.core.comparisons import ComparedQuery
from harness.core.errors import CannotWrite, ExitCode, UsageError
from harness.core.gates import Forecast, GateResult
from harness.pipeline.comparing.compare import ComparisonResult
from harness.pipeline.comparing.outcome import GateRules, conclude_comparison
from harness.pipeline.comparing.quote import ComparisonQuote, RollOutQuote
from harness.report.html.comparison_page import write_comparison_page
from harness.report.junit import junit_refusal, junit_xml
from harness.report.markdown import gate_markdown, refusal_markdown

_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class GateFiles:
    """Where a gate's result is written beside stdout."""

    markdown: Path | None
    summary: Path | None
    """The page of a GitHub job, to which every step adds its part."""
    junit: Path | None

    @classmethod
    def of(cls, markdown: Path | None, junit: Path | None, environ: Mapping[str, str]) -> Self:
        """Return the files that the options name; without --markdown the page of the GitHub job, if there is one."""
        summary = environ.get(_SUMMARY)
        return cls(markdown, Path(summary) if summary and markdown is None else None, junit)

    @contextmanager
    def with_refusal(self) -> Generator[None]:
        """Write why a gate is refused, where that happens meanwhile. Raises CannotWrite before, if no file can be."""
        check_writable(self.markdown, self.summary, self.junit)
        try:
            yield
        except CannotWrite:
            raise
        except UsageError as refusal:
            self._put(refusal_markdown(str(refusal)), junit_refusal(str(refusal)))
            raise

    def write(self, gate: GateResult, looks: int, queries: list[ComparedQuery]) -> None:
        """Write them; `looks` are those that were asked for. Raises CannotWrite."""
        concluded = gate.finding != "cannot tell"
        text = gate_markdown(gate, forecast_sentences(gate.forecast, looks=looks, concluded=concluded), queries)
        self._put(text, junit_xml(gate, queries))

    def _put(self, markdown: str, junit: str) -> None:
        if self.markdown:
            write_new(self.markdown, markdown, force=True)
        if self.summary:
            append_text(self.summary, markdown)
        if self.junit:
            write_new(self.junit, junit, force=True)


def asked_gate(asked: AskedSides, given: Mapping[str, Any]) -> tuple[AskedSides, GateRules]:
    """Return the comparison that a gate rests on, and the gate's rules."""
    rules = GateRules(
        margin=given["margin"],
        looks=given["looks"],
        allow_unsure=given["allow_unsure"],
        buy_anew=given["buy_anew"],
    )
    return replace(asked, options=replace(asked.options, early_stop=rules.early_stop)), rules


def announce_gate(console: Console, foretold: Forecast, rules: GateRules) -> None:
    """Print how probably an equal agent passes, and what would do if that is improbable."""
    for line in forecast_sentences(foretold, looks=rules.looks):
        console.print(line, soft_wrap=True)


def print_gate_quote(
    quote: ComparisonQuote | RollOutQuote, foretold: Forecast, rules: GateRules, *, as_json: bool
) -> None:
    """Print what a gate would take and how probably an equal agent passes: the result of --dry-run."""
    if as_json:
        print_json({**quote_row(quote), "forecast": foretold.model_dump(mode="json")}, indent=None)
    else:
        say("\n".join([*quote_lines(quote), *forecast_sentences(foretold, looks=rules.looks)]))


def deliver_gate(
    result: ComparisonResult,
    asked: AskedSides,
    rules: GateRules,
    foretold: Forecast,
    files: GateFiles,
    *,
    as_json: bool,
    quiet: bool,
) -> ExitCode:
    """Write the page and the files, print what the gate says, its sentence last, and return the exit code.

    Raises UsageError where the judge's verdicts are noise.
    """
    if code := deliver_incomplete(result):
        return code
    gate = conclude_comparison(result.path, asked.sides, rules, foretold)
    if gate is None:
        say("the gate was stopped before its first look", err=True)
        return ExitCode.FAILURES
    with ComparisonReader(result.path) as reader:
        queries = list(reader.queries())
        write_comparison_page(reader, gate.comparison)
        if as_json:
            print_json(gate.model_dump(mode="json"))
        else:
            print_comparison(reader, gate.comparison, as_json=False)
            say(gate.sentence)
    files.write(gate, rules.looks, queries)
    if not (quiet or result.was_complete):  # the quote has said so
        say(tally_line(result), err=True)
    if as_json:
        say(gate.sentence, err=True)
    return ExitCode.DONE if gate.passed else ExitCode.FAILURES
