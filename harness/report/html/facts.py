"""Figures with their names: of the run, of one query, of many together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking
from harness.core.wording import counted
from harness.report.summary.group import AgentFigures, GroupSummary, JudgeFigures, ModelNames, TimeSpan
from harness.report.summary.ranking import RankingSummary
from harness.report.text import count, date, dollars, fixed, percent, readable_name, seconds, signed

SIGNAL = {
    "ok": "the judging distinguishes these rollouts",
    "weak": "the judging hardly distinguishes these rollouts",
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
    judges = ", ".join(sorted(summary.models.judges)) or str(head.judge.get("identity") or head.judge.get("model"))
    order = head.settings.get("order")
    return [
        Fact("Agent", info.agent, info.agent_file or ""),
        Fact("Model", _model(summary.models)),
        Fact("Judge", judges),
        Fact("Rubric", head.rubric),
        *(_design_fact(topology, estimator, str(order or "")) for topology, estimator in summary.designs),
        Fact("Run", info.id, date(info.created_at)),
        Fact("Ranking", head.id, date(head.created_at)),
        Fact("Made with", _versions(info.versions)),
    ]


def query_page_facts(reader: RunReader, ranking: RankingFile) -> list[Fact]:
    """Return the particulars on the page of one query: those that another ranking of the same verdicts shares."""
    info, head = reader.info, ranking.head
    return [
        Fact("Agent", info.agent, info.agent_file or ""),
        Fact("Judge", str(head.judge.get("identity") or head.judge.get("model"))),
        Fact("Rubric", head.rubric),
        Fact("Run", info.id, date(info.created_at)),
        Fact("Made with", _versions(info.versions)),
    ]


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _design_fact(topology: str, estimator: str, order: str) -> Fact:
    note = f"orders judged: {order}" if order and topology != "listwise" else ""
    return Fact("Tournament", f"{topology}, ranked by {estimator}", note)


def summary_facts(summary: RankingSummary, earlier: JudgeFigures) -> list[Fact]:
    """Return the figures of many queries together; `earlier` is what rounds of batches before this ranking paid."""
    queries, signals = len(summary.lines), summary.signals_in_full
    above, samples = summary.above_anchor
    ranked = f"{count(queries - summary.incomplete)} ranked in full, {count(summary.incomplete)} incomplete"
    others = f"{count(signals['weak'])} unclear, {count(signals['none'])} without a difference"
    failed = f", {count(summary.judge.failed)} failed" if summary.judge.failed else ""
    sources = f"{count(summary.judge.bought)} bought, {count(summary.judge.reused)} reused{failed}"
    return [
        Fact("Queries", count(queries), ranked),
        Fact("Clear signal", percent(signals["ok"], queries), others),
        Fact("Samples above the anchor", percent(above, samples), f"{above:,} of {counted(samples, 'ranked sample')}"),
        *_agent_facts(summary.agents),
        *(
            [
                Fact("Verdicts", count(summary.judge.bought + summary.judge.reused), sources),
                Fact(
                    "Judging cost",
                    dollars(summary.judge.usd),
                    f"{counted(summary.judge.calls, 'call')} for this ranking",
                ),
                *_rounds_facts(summary.judge + earlier if earlier.calls else None),
                *_order_facts(summary.judge),
            ]
        ),
        _wall_time(summary.spans),
    ]


def group_facts(group: GroupSummary, ranking: GroupRanking, verdicts_usd: float | None) -> list[Fact]:
    """Return the figures of one query: which verdicts were bought for this ranking changes none."""
    judge = group.judge
    failed = f"{count(judge.failed)} failed" if judge.failed else "none failed"
    return [
        *_noise_facts(ranking),
        Fact("Verdicts", count(judge.bought + judge.reused), failed),
        Fact("Judging cost", dollars(verdicts_usd), "of these verdicts, whenever they were bought"),
        *_order_facts(judge),
        *_agent_facts(group.agents),
        _wall_time(group.spans),
    ]


def _model(models: ModelNames) -> str:
    asked = ", ".join(sorted(models.asked)) or "the agent's own"
    if models.replied and models.replied != models.asked:
        return f"{asked} (replied as {', '.join(sorted(models.replied))})"
    return asked


def failed_words(agents: AgentFigures) -> str:
    """Return how many rollouts failed, by kind of failure."""
    kinds = ", ".join(f"{count(times)} {readable_name(kind)}" for kind, times in sorted(agents.failed.items()))
    return f"{count(agents.failed.total())} failed: {kinds}" if kinds else "none failed"


def _agent_facts(agents: AgentFigures) -> list[Fact]:
    return [
        Fact("Agent runs", count(agents.runs), failed_words(agents)),
        Fact("Agent cost", dollars(agents.usd), counted(agents.tokens, "token") if agents.tokens else ""),
    ]


def _rounds_facts(paid: JudgeFigures | None) -> list[Fact]:
    return [Fact("All rounds of batches", dollars(paid.usd), counted(paid.calls, "call"))] if paid else []


def _order_facts(judge: JudgeFigures) -> list[Fact]:
    facts: list[Fact] = []
    if judge.both_orders:
        flips = f"{count(judge.flips)} of {count(judge.both_orders)}"
        facts.append(Fact("Changed with order", flips, "matches where the order shown decided the winner"))
    if judge.decided:
        share, decided = percent(judge.first_wins, judge.decided), counted(judge.decided, "decided verdict")
        facts.append(Fact("First shown wins", share, f"of {decided}; 50 % is unbiased"))
    return facts


def _noise_facts(ranking: GroupRanking) -> list[Fact]:
    """Return what the fit shows of the judge."""
    if ranking.first_side is None or ranking.first_side_sd is None or ranking.sigma is None:
        return []
    side = f"{signed(ranking.first_side)} \N{PLUS-MINUS SIGN} {fixed(ranking.first_side_sd)}"
    return [
        Fact("Position bias", side, "score points that standing first is worth in a verdict's margin"),
        Fact("Noise of a verdict", fixed(ranking.sigma), "score points of its margin"),
        Fact("Reliability", fixed(ranking.reliability), "share of the estimates' spread that is not uncertainty"),
    ]


def _wall_time(spans: Iterable[TimeSpan]) -> Fact:
    """Return the time that spans cover: what people waited for, without the days before a rescoring."""
    covered = sum(end - start for start, end in spans)
    return Fact("Wall time", seconds(covered), "while a run or a verdict was under way")
