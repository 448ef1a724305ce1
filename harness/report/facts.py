"""Figures with their names: of the run, of one query, of many together."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from harness.archive import RankingFile, RunReader
from harness.core.rankings import GroupRanking
from harness.report.summary import AgentFigures, JudgeFigures
from harness.report.text import count, date, dollars, fixed, percent, seconds, signed, words
from harness.report.totals import Look, Models, RankingSummary, Span

_SIGNAL = {
    "ok": "the judging tells these rollouts apart",
    "weak": "the judging hardly tells these rollouts apart",
    "none": "the judging tells nothing apart",
}


@dataclass(frozen=True)
class Fact:
    """A figure with its name, and what it means or is made of."""

    label: str
    value: str
    note: str = ""


def run_facts(reader: RunReader, ranking: RankingFile, found: RankingSummary) -> list[Fact]:
    """Return what ran, what judged it and how: the particulars at the head of a page."""
    info, head = reader.info, ranking.head
    models = found.models
    order = head.settings.get("order")
    return [
        Fact("Agent", info.agent, info.agent_file or ""),
        Fact("Model", _model(models)),
        Fact("Judge", ", ".join(sorted(models.judges)) or str(head.judge.get("identity") or head.judge.get("model"))),
        Fact("Rubric", head.rubric),
        *(
            Fact("Tournament", f"{t}, ranked by {e}", f"orders judged: {order}" if order and t != "listwise" else "")
            for t, e in found.designs
        ),
        Fact("Run", info.id, date(info.created_at)),
        Fact("Ranking", head.id, date(head.created_at)),
        Fact("Made with", ", ".join(f"{name} {version}" for name, version in info.versions.items())),
    ]


def summary_facts(found: RankingSummary) -> list[Fact]:
    """Return the figures of many queries together."""
    queries, signals = len(found.glances), found.signals
    unclear = f"{signals['weak']} weak, {signals['none']} without"
    beat, samples = found.beaten
    ranked = f"{queries - found.incomplete} ranked in full, {found.incomplete} incomplete"
    return [
        Fact("Queries", count(queries), ranked),
        Fact("With signal", percent(signals["ok"], queries), unclear),
        Fact("Samples above the anchor", percent(beat, samples), f"{beat} of {samples} ranked samples"),
        *_agent_facts(found.agents),
        *_judge_facts(found.judge),
        _wall_time(found.spans),
    ]


def group_facts(one: Look, ranking: GroupRanking) -> list[Fact]:
    """Return the figures of one query."""
    return [
        Fact("Signal", ranking.signal, _SIGNAL[ranking.signal]),
        *_noise_facts(ranking),
        *_judge_facts(one.judge),
        *_agent_facts(one.agents),
        _wall_time(one.spans),
    ]


def _model(models: Models) -> str:
    asked = ", ".join(sorted(models.asked)) or "the agent's own"
    if models.replied and models.replied != models.asked:
        return f"{asked} (replied as {', '.join(sorted(models.replied))})"
    return asked


def _agent_facts(agents: AgentFigures) -> list[Fact]:
    kinds = ", ".join(f"{n} {words(kind)}" for kind, n in sorted(agents.failed.items()))
    failed = f"{agents.failed.total()} failed: {kinds}" if kinds else "none failed"
    return [
        Fact("Agent runs", count(agents.runs), failed),
        Fact("Agent cost", dollars(agents.usd), f"{count(agents.tokens)} tokens" if agents.tokens else ""),
    ]


def _judge_facts(judge: JudgeFigures) -> list[Fact]:
    failed = f", {count(judge.failed)} failed" if judge.failed else ""
    told = f"{count(judge.bought)} bought, {count(judge.reused)} reused{failed}"
    facts = [
        Fact("Verdicts", count(judge.bought + judge.reused), told),
        Fact("Judging cost", dollars(judge.usd), f"{count(judge.calls)} calls for this ranking"),
    ]
    if judge.both_orders:
        flips = f"{count(judge.flips)} of {count(judge.both_orders)}"
        facts.append(Fact("Flips", flips, "matches where the order shown decided the winner"))
    if judge.decided:
        share = percent(judge.first_wins, judge.decided)
        facts.append(Fact("First shown wins", share, f"of {count(judge.decided)} decided verdicts; 50 % is unbiased"))
    return facts


def _noise_facts(ranking: GroupRanking) -> list[Fact]:
    """Return what the margins tell of the judge."""
    if ranking.first_side is None or ranking.first_side_sd is None or ranking.sigma is None:
        return []
    side = f"{signed(ranking.first_side)} \N{PLUS-MINUS SIGN} {fixed(ranking.first_side_sd)}"
    return [
        Fact("Standing first is worth", side, "score points of a verdict's margin"),
        Fact("Noise of a verdict", fixed(ranking.sigma), "score points of its margin"),
        Fact("Reliability", fixed(ranking.reliability), "share of the margins' spread that is not uncertainty"),
    ]


def _wall_time(apart: Iterable[Span]) -> Fact:
    """Return the time covered by spans: what was waited for, without the days before a rescoring."""
    covered = sum((end - start for start, end in apart), timedelta())
    return Fact("Wall time", seconds(covered.total_seconds()), "while a run or a verdict was under way")
