"""The pages' templates and filters, and figures with their names: of the run, of one query, of many together."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.cost import Cost
from harness.core.errors import counted
from harness.core.rankings import GroupRanking
from harness.core.unicode import visible
from harness.report import text
from harness.report.summary.credit import tree_ways
from harness.report.summary.group import AgentFigures, GroupSummary, JudgeFigures, TimeSpan
from harness.report.summary.match_details import MarkRow
from harness.report.summary.ranking import RankingSummary
from harness.report.summary.rankings import judge_of
from harness.report.text import count, date, dollars, fixed, percent, readable_name, seconds, signed

SIGNAL = {
    "ok": "the judging, or a failure, distinguishes these rollouts; p is how often equals would look so",
    "weak": "the judging hardly distinguishes these rollouts; p is how often equals would look so",
    "none": "the judging distinguishes nothing",
}
"""What each signal means."""
UNFINISHED = "the group is not judged in full"


@dataclass(frozen=True)
class Fact:
    """A figure with its name, and what it means or is made of."""

    label: str
    value: str
    note: str = ""


def run_facts(reader: RunReader, ranking: RankingFile, summary: RankingSummary) -> list[Fact]:
    """Return what ran, what judged it and how: the particulars at the head of a page."""
    info, head = reader.info, ranking.head
    judges = ", ".join(sorted(summary.models.judges)) or judge_of(head)
    order = head.settings.get("order")
    note = f"orders judged: {order}" if order else ""
    asked, replied = (", ".join(sorted(names)) for names in (summary.models.asked, summary.models.replied))
    model = asked or "the agent's own"
    return [
        Fact("Agent", info.agent, info.agent_file or ""),
        Fact("Model", f"{model} (replied as {replied})" if replied not in ("", asked) else model),
        *([Fact("Samples vary by", way.asked, f"{way.words}, {dollars(way.cost)}")] if (way := info.way_found) else []),
        Fact("Judge", judges),
        Fact("Rubric", head.rubric),
        *(
            Fact("Tournament", f"{topology}, ranked by {estimator}", note if topology != "listwise" else "")
            for topology, estimator in summary.designs
        ),
        Fact("Run", info.id, date(info.created_at)),
        Fact("Ranking", head.id, date(head.created_at)),
        versions_fact(info.versions),
    ]


def query_page_facts(reader: RunReader, ranking: RankingFile) -> list[Fact]:
    """Return the particulars on the page of one query: those that another ranking of the same verdicts shares."""
    info, head = reader.info, ranking.head
    return [
        Fact("Agent", info.agent, info.agent_file or ""),
        Fact("Judge", judge_of(head)),
        Fact("Rubric", head.rubric),
        Fact("Run", info.id, date(info.created_at)),
        versions_fact(info.versions),
    ]


def versions_fact(versions: Mapping[str, str]) -> Fact:
    """Return which versions made a page's archive."""
    return Fact("Made with", ", ".join(f"{name} {version}" for name, version in versions.items()))


def summary_facts(summary: RankingSummary, earlier: JudgeFigures) -> list[Fact]:
    """Return the figures of many queries together; `earlier` is what rounds of batches before this ranking paid."""
    queries, signals = len(summary.lines), summary.signals_in_full
    above, samples = summary.above_anchor
    ranked = f"{count(queries - summary.incomplete)} ranked in full, {count(summary.incomplete)} incomplete"
    others = f"{count(signals['weak'])} unclear, {count(signals['none'])} without a difference"
    judge, paid = summary.judge, summary.judge + earlier
    failed = f", {count(judge.failed)} failed" if judge.failed else ""
    sources = f"{count(judge.bought)} bought, {count(judge.reused)} reused{failed}"
    return [
        Fact("Queries", count(queries), ranked),
        Fact("Clear signal", percent(signals["ok"], queries), others),
        Fact("Samples above the anchor", percent(above, samples), f"{above:,} of {counted(samples, 'ranked sample')}"),
        *_agent_facts(summary.agents),
        Fact("Verdicts", count(judge.bought + judge.reused), sources),
        Fact("Judging cost", dollars(judge.cost), f"{counted(judge.calls, 'call')} for this ranking"),
        *([Fact("All rounds of batches", dollars(paid.cost), counted(paid.calls, "call"))] if earlier.calls else []),
        *_order_facts(judge),
        _wall_time(summary.spans),
    ]


def group_facts(group: GroupSummary, ranking: GroupRanking, verdicts_cost: Cost) -> list[Fact]:
    """Return the figures of one query: which verdicts were bought for this ranking changes none."""
    judge = group.judge
    failed = f"{count(judge.failed)} failed" if judge.failed else "none failed"
    noise: list[Fact] = []
    if ranking.first_side is not None and ranking.first_side_sd is not None and ranking.sigma is not None:
        side = f"{signed(ranking.first_side)} \N{PLUS-MINUS SIGN} {fixed(ranking.first_side_sd)}"
        reliability = fixed(ranking.reliability)
        noise = [
            Fact("Position bias", side, "score points that standing first is worth in a verdict's margin"),
            Fact("Noise of a verdict", fixed(ranking.sigma), "score points of its margin"),
            Fact("Reliability", reliability, "share of the estimates' spread that is not uncertainty"),
        ]
    return [
        *noise,
        Fact("Verdicts", count(judge.bought + judge.reused), failed),
        Fact("Judging cost", dollars(verdicts_cost), "of these verdicts, whenever they were bought"),
        *_order_facts(judge),
        *_agent_facts(group.agents),
        _wall_time(group.spans),
    ]


def failed_words(agents: AgentFigures) -> str:
    """Return how many rollouts failed, by kind of failure."""
    kinds = ", ".join(f"{count(times)} {readable_name(kind)}" for kind, times in sorted(agents.failed.items()))
    return f"{count(agents.failed.total())} failed: {kinds}" if kinds else "none failed"


def _agent_facts(agents: AgentFigures) -> list[Fact]:
    return [
        Fact("Agent runs", count(agents.runs), failed_words(agents)),
        Fact("Agent cost", dollars(agents.cost), counted(agents.tokens, "token") if agents.tokens else ""),
    ]


def _order_facts(judge: JudgeFigures) -> list[Fact]:
    facts: list[Fact] = []
    if judge.both_orders:
        flips = f"{count(judge.flips)} of {count(judge.both_orders)}"
        facts.append(Fact("Changed with order", flips, "matches where the order shown decided the winner"))
    if judge.decided:
        share, decided = percent(judge.first_wins, judge.decided), counted(judge.decided, "decided verdict")
        facts.append(Fact("First shown wins", share, f"of {decided}; 50 % is unbiased"))
    return facts


def _wall_time(spans: Iterable[TimeSpan]) -> Fact:
    """Return the time that spans cover: what people waited for, without the days before a rescoring."""
    covered = sum(end - start for start, end in spans)
    return Fact("Wall time", seconds(covered), "while a run or a verdict was under way")


_SPECIAL = re.compile("[&<>'\"]")
"""The characters that are escaped in HTML."""


def page_template(name: str) -> Template:
    """Return the template of a whole page."""
    return _environment().get_template(name)


@cache
def sources_digest() -> str:
    """Name these templates and this version of the harness."""
    environment, digest = _environment(), hashlib.sha256(version("arena-harness").encode())
    for name in environment.list_templates(extensions=["j2", "css", "js"]):
        source, _, _ = environment.loader.get_source(environment, name) if environment.loader else ("", None, None)
        digest.update(f"{name}\n{source}".encode())
    return digest.hexdigest()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_marked,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("beginning", "count", "date", "dollars", "fixed", "probability", "seconds", "signed")
    filters: dict[str, Any] = {name: getattr(text, name) for name in names} | {"readable": text.readable_name}
    filters |= {"counted": counted, "signal_words": text.SIGNAL_WORDS.get, "ways": tree_ways}
    environment.filters.update(filters)
    functions: dict[str, Any] = {"mark_cells": _cells}
    environment.globals.update(functions)
    return environment


def _cells(row: MarkRow, with_mean: bool) -> Markup:
    """Return the cells of a row of marks: one text a row is drawn in a third of the time of one a cell."""
    shown = [(x, y, text.mark(x), text.mark(y)) for x, y in row.pairs]
    if with_mean:
        x, y = row.mean or (None, None)
        shown.append((x, y, text.fixed(x) or "\N{EN DASH}", text.fixed(y) or "\N{EN DASH}"))
    cells = (
        f'<td class="num left{_more(x, y)}">{first}</td><td class="num{_more(y, x)}">{second}</td>'
        for x, y, first, second in shown
    )
    return Markup("".join(cells))  # noqa: S704 - numbers


def _more(ours: float | None, theirs: float | None) -> str:
    return " more" if ours is not None and theirs is not None and ours > theirs else ""


def _marked(value: object) -> object:
    """Mark what is hidden, as on a terminal. In Markup it was marked when that was made, and is not escaped twice."""
    if type(value) is int:
        return Markup(str(value))  # noqa: S704 - digits
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if value.isascii() and value.isprintable():  # nearly all that a page prints: nothing in it to mark
        return value if _SPECIAL.search(value) else Markup(value)  # noqa: S704 - nothing in it to escape
    return visible(value)
