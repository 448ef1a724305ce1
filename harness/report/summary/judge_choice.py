"""Which judge to take, in one sentence, and what a reader of judges side by side has to know."""

from collections.abc import Iterator

from harness.core.wording import counted
from harness.ranking.judge_stats.side_by_side import WITHIN, Choice
from harness.ranking.query_figures import QueryFigure
from harness.report.summary.judges import JudgesSideBySide
from harness.report.text import dollars, percent_interval, signed

_TRUTHS = {"labels": "the labels", "reward": "reward()"}


def choice_sentence(side: JudgesSideBySide) -> str:
    """Return which judge is the best, and the cheapest within 2 points of it; or why nobody can tell."""
    choice = side.choice
    if choice is None:
        return _nothing_tells(side)
    best = f"best by agreement with {_TRUTHS[choice.by]}: {_judge(side, choice, choice.best)}"
    points = f"{100 * WITHIN:.0f} points"
    if choice.cheapest is None:
        return f"{best}; which judge within {points} is the cheapest cannot be told: not all prices are known"
    if choice.cheapest == choice.best:
        return f"{best}; no judge within {points} of it is cheaper"
    cheapest = _judge(side, choice, choice.cheapest)
    return f"{best}; the cheapest judge within {points} of it: {cheapest}{_difference(choice.difference)}"


def side_notes(side: JudgesSideBySide) -> Iterator[str]:
    """Yield what has to be known of the figures."""
    if any(ranking.offline for ranking in side.rankings):
        yield "SELF-TEST on the embedded offline parts: it says nothing of any LLM"
    if side.labels:
        used = f"{side.used_labels} of {counted(side.labels, 'label')}"
        yield f"{used} name a query and two answers of the run; two rollouts of one rank are half right"
    if cut_short := [str(at) for at, ranking in enumerate(side.rankings, 1) if not ranking.finished]:
        yield f"not finished, and so not compared in price: {', '.join(cut_short)}"
    if by_reward := [str(at) for at, ranking in enumerate(side.rankings, 1) if ranking.by_reward]:
        yield f"ranked by reward() itself (--judge-when tied): {', '.join(by_reward)}"
    if side.older:
        yield f"left out: {counted(side.older, 'ranking')} made in the same way as one shown"


def _nothing_tells(side: JudgesSideBySide) -> str:
    if any(ranking.figures.right for ranking in side.rankings):
        return (
            "nothing tells which judge is right: labels or reward() do not tell answers apart on queries that two "
            "finished rankings share, so the figures say only how far the judges agree"
        )
    return (
        "nothing tells which judge is right: the run has no labels that fit (labels.jsonl, or --labels FILE) and no "
        "reward() that tells answers apart, so the figures say only how far the judges agree"
    )


def _judge(side: JudgesSideBySide, choice: Choice, at: int) -> str:
    ranking, right = side.rankings[at], choice.right[at]
    cost = ranking.figures.usd
    price = f" at {dollars(cost.value)} a query" if cost else ""
    return f"{at + 1} ({ranking.name}), {percent_interval(right)} of the pairs right{price}"


def _difference(difference: QueryFigure | None) -> str:
    if difference is None:
        return ""
    value = f"{signed(100 * difference.value, 1)} points"
    if difference.low is None or difference.high is None:
        return f"; difference {value}"
    return f"; difference {value} [{signed(100 * difference.low, 1)}, {signed(100 * difference.high, 1)}]"
