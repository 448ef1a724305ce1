"""What a ranking shows of its rollouts, in words: a figure, and what the figure says."""

from collections.abc import Iterable, Iterator

from harness.core.wording import counted
from harness.ranking.query_figures import QueryFigure
from harness.report.judge_quality import QualityFigure
from harness.report.summary.figures import AgentFigures, JudgeFigures
from harness.report.summary.ranking_figures import RankingFigures
from harness.report.text import count, dollars, enumeration, number_interval, percent, percent_interval

_HALF = 0.5


def ranking_words(figures: RankingFigures, agents: AgentFigures, judge: JudgeFigures) -> Iterator[QualityFigure]:
    """Yield the figures of a ranking's groups."""
    if figures.answers and figures.ended_well and figures.tools:
        of = f" of {number_interval(figures.ended_well, 1)}"
        yield QualityFigure("answers", "Different answers", number_interval(figures.answers, 1) + of, _answers(figures))
        yield QualityFigure("tools", "Different tool calls", number_interval(figures.tools, 1) + of, _tools())
    yield QualityFigure("flat", "Advantages all zero", _flat(figures), _why_flat(figures))
    if figures.above_anchor:
        above = figures.above_anchor
        yield QualityFigure("above_anchor", "Samples above anchor", percent_interval(above), _sampling(above))
    if figures.dimensions:
        yield QualityFigure("dimensions", "Dimension that decides", _strongest(figures), _parting(figures))
    for name, figure in figures.length.items():
        by = f", {name}" if len(figures.length) > 1 else ""
        yield QualityFigure("length", f"Score and length{by}", number_interval(figure), _length(figure))
    yield QualityFigure("rollouts", "Rollouts took", _took(agents.tokens, agents.usd), _failed(agents))
    bought = f"{counted(judge.calls, 'call')} {'was' if judge.calls == 1 else 'were'} bought for this ranking"
    yield QualityFigure("judging", "Judging took", _took(judge.tokens, judge.usd), bought)
    if judge.cached:
        share, cached = percent(judge.cached, max(judge.cached, judge.input)), counted(judge.cached, "token")
        yield QualityFigure("cached", "Judge's input cached", share, f"{cached} at a lower price")


def _answers(figures: RankingFigures) -> str:
    parts = ["a query, of those of its rollouts that ended well"]
    if figures.one_answer:
        parts.append(f"in {counted(figures.one_answer, 'query', 'queries')} all answers are the same")
    if figures.empty_answers:
        parts.append(counted(figures.empty_answers, "answer is empty", "answers are empty"))
    return "; ".join(parts if len(parts) > 1 else [*parts, "texts are compared as the judge sees them"])


def _tools() -> str:
    return "sequences of tools a query, whatever their inputs were"


def _flat(figures: RankingFigures) -> str:
    return f"{count(sum(figures.flat.values()))}, weak {count(figures.weak)}"


def _why_flat(figures: RankingFigures) -> str:
    if not figures.flat:
        return "queries: every group gives a trainer something to learn from"
    return "queries without a gradient: " + ", ".join(f"{why} {count(n)}" for why, n in figures.flat.items())


def _sampling(above: QueryFigure) -> str:
    if above.low is None or above.high is None:
        return "of one query alone, this says nothing of others"
    if above.low > _HALF:
        return "a sample is more often above the anchor than below it: sampling pays"
    if above.high < _HALF:
        return "most samples are level with the anchor or below it"
    return "whether most samples are above the anchor is not sure"


def _strongest(figures: RankingFigures) -> str:
    return _by_share(figures)[0] if _decided(figures) else "none"


def _parting(figures: RankingFigures) -> str:
    same = (f"{enumeration(alike)} never part: one would do" for alike in _alike(figures.never_part))
    if not (of := _decided(figures)):
        return "; ".join(["no verdict is decided: all are ties", *same])
    share = f"share of {counted(of, 'decided verdict')} in which this mark alone names the winner"
    others = f"then {', '.join(rest)}" if (rest := _by_share(figures)[1:]) else ""
    return "; ".join(filter(None, [share, others, *same]))


def _alike(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the dimensions of pairs that never part, those together that never part from each other."""
    sets: list[list[str]] = []
    for one, other in pairs:
        together = next((names for names in sets if one in names), None)
        if together is None:
            sets.append([one, other])
        elif other not in together:
            together.append(other)
    return sets


def _decided(figures: RankingFigures) -> int:
    """Return how many verdicts name a winner."""
    return max(dimension.decides.whole for dimension in figures.dimensions)


def _by_share(figures: RankingFigures) -> list[str]:
    ordered = sorted(figures.dimensions, key=lambda d: -(d.decides.value or 0.0))
    return [f"{d.name} {percent(d.decides.part, d.decides.whole)}" for d in ordered]


def _length(figure: QueryFigure) -> str:
    if figure.low is None or figure.high is None or figure.low <= 0 <= figure.high:
        return "no pull of length that is sure (Spearman, ranks within queries)"
    return f"{'longer' if figure.value > 0 else 'shorter'} answers get higher scores (Spearman, ranks within queries)"


def _took(tokens: int | None, usd: float | None) -> str:
    used = "unknown tokens" if tokens is None else counted(tokens, "token")
    return f"{used}, {'cost unknown' if usd is None else dollars(usd)}"


def _failed(agents: AgentFigures) -> str:
    ran, failed = counted(agents.runs, "rollout"), agents.failed.total()
    return f"{ran}, {count(failed)} of them failed" if failed else ran
