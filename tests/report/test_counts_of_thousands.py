"""Counts of a thousand and more have the thousands separator wherever people read them; signals have one order."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli.announce import quote_line
from harness.comparison.conclusions import sentence
from harness.core.cost import Cost
from harness.pipeline.rescoring import Quote
from harness.report.html.facts import summary_facts
from harness.report.summary.group import AgentFigures, JudgeFigures
from harness.report.summary.ranking import RankingSummary, by_signal, summarize
from harness.report.terminal.runs import run_line, runs_table
from harness.report.terminal.show import overview
from tests.comparisons_by_hand import a_result
from tests.report.archives_by_hand import BuiltArchive, build, crowd

BARE = re.compile(r"(?<![\w.,:-])\d{4,}(?![\w-])")
SIGNALS = Counter(none=1204, weak=1055, ok=1300)


@pytest.fixture
def built(tmp_path: Path) -> BuiltArchive:
    return build(tmp_path, crowd(3))


def large(built: BuiltArchive) -> RankingSummary:
    """Return the summary of a ranking as if it had thousands of queries."""
    summary = summarize(built.reader, built.ranking)
    for _ in range(3600):
        summary.lines.append(summary.lines[0])
    summary.signals, summary.signals_in_full = SIGNALS + Counter(none=1001), SIGNALS
    summary.above_anchor = 3000, 7000
    failed = Counter(timeout=1100, api=1003)
    summary.agents = AgentFigures(runs=10680, failed=failed, partial=1002, tokens=123456, cost=Cost(1.0))
    counts = {"matches": 5000, "both_orders": 4000, "flips": 1020, "decided": 8000, "first_wins": 4000}
    summary.judge = JudgeFigures(
        **counts, failed=1001, bought=9000, reused=2000, calls=9001, tokens=99999, cost=Cost(1.0)
    )
    return summary


def printed(built: BuiltArchive) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(overview(built.reader, built.ranking, large(built), 200))
    return capture.get()


def test_what_a_large_run_prints_has_separators(built: BuiltArchive) -> None:
    text = printed(built)
    assert "3,601 queries, 10,680 rollouts: 8,577 ok, 2,103 failed (1,003 api, 1,100 timeout)" in text
    assert BARE.findall(text) == []


def test_signals_are_listed_in_one_order(built: BuiltArchive) -> None:
    assert "signal clear 1,300, unclear 1,055, no difference 1,204" in printed(built)
    assert list(by_signal(Counter(none=1, ok=2)).items()) == [("ok", 2), ("none", 1)]


def test_the_facts_of_the_page_have_separators(built: BuiltArchive) -> None:
    facts = summary_facts(large(built), JudgeFigures(calls=4000, cost=Cost(1.0)))
    assert BARE.findall("\n".join(f"{fact.value} {fact.note}" for fact in facts)) == []


def test_a_list_of_runs_has_separators(built: BuiltArchive) -> None:
    line = replace(run_line(built.reader), queries=1500, rollouts=12000, failed=1001)
    (*_, row) = (line.plain for line in runs_table([line], 200))
    assert " 1,500 " in row
    assert " 12,000 " in row
    assert " 1,001 " in row


def test_what_a_rescoring_costs_has_separators() -> None:
    quote = Quote(reused=1200, bought=(3000, 4000), cost=None, judge="m", judge_places="m@h")
    assert quote_line(quote).startswith("reused 1,200, would buy 3,000 to 4,000 (judge")


def test_what_a_comparison_shows_has_separators() -> None:
    counts = {"queries": 4000, "clusters": 1500, "better": 1600, "worse": 1300, "tied": 1100, "unjudged": 1234}
    words = sentence(a_result([]).model_copy(update=counts))
    assert "B beats A on 1,600 of 4,000 queries (1,500 clusters), loses on 1,300, ties on 1,100" in words
    assert "1,234 open pairs" in words
