"""How far to believe the judge: honesty figures in plain words, for terminal, page and JSON."""

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.archive import RankingFile, RunReader
from harness.core.verdicts import Unjudged
from harness.ranking import Share, Tally
from harness.report.summary import Tallies, together
from harness.report.text import count, signed
from harness.report.totals import RankingSummary

_ALWAYS_FROM = 3
"""Pairs that have to flip, all of them, before it is said that position alone decides."""
_LINKED = 0.5
"""A rank correlation from here on is worth a warning."""
_CHANCE_CYCLES = 0.25
"""Share of cyclic triples that coin tosses give."""


@dataclass(frozen=True)
class Reading:
    """A figure, and what it says in one line."""

    name: str
    label: str
    figure: str
    says: str


@dataclass(frozen=True)
class JudgeQuality:
    """All that is told of one judge in one ranking."""

    judge: str
    rubric: str
    tally: Tally
    warnings: tuple[str, ...]
    readings: tuple[Reading, ...]
    bars: tuple[tuple[int, int, float], ...]
    """For marks 0 to 10: how many sides got it, and that as a share of the commonest."""


def judge_qualities(reader: RunReader, ranking: RankingFile, found: RankingSummary) -> list[JudgeQuality]:
    """Return what is to be told of every judge of a ranking that was surveyed."""
    sums = together([found.tallies, _failures(reader, found.failed_verdicts)])
    order = str(ranking.head.settings.get("order"))
    return [
        JudgeQuality(
            judge, ranking.head.rubric, one, tuple(warnings(one, order)), tuple(readings(one, order)), _bars(one)
        )
        for judge, one in sums.items()
    ]


def _failures(reader: RunReader, wanted: AbstractSet[str]) -> dict[str, Tally]:
    """Count the failed verdicts that groups wait for, by judge; the archive is read only if there are any."""
    if not wanted:
        return {}
    judges = {v.key: v.judge for v in reader.verdicts() if isinstance(v, Unjudged) and v.key in wanted}
    return {judge: Tally(failed=n) for judge, n in Counter(judges.values()).items()}


def warnings(t: Tally, order: str) -> list[str]:
    """Return what has to be known of a judge before its ranking is believed, the worst first."""
    told: list[str] = []
    if position_decides(t):
        side = "first" if 2 * t.first_wins.part >= t.first_wins.whole else "second"
        told.append(
            f"its ranking is noise: in {count(t.flips.part)} of {count(t.flips.whole)} pairs it named the side shown "
            f"{side}, whichever answer that was"
        )
    elif t.first_side is not None and t.first_side_is_real:
        told.append(_bias(t, order))
    if t.flat_mark:
        mark, share = t.flat_mark
        told.append(f"it gives {mark} to {100 * share:.0f} % of the answers, so it hardly tells any apart")
    return told


def position_decides(t: Tally) -> bool:
    """Tell whether pairs flip surely more often than coin tosses would make them."""
    return t.flips.part == t.flips.whole >= _ALWAYS_FROM or t.flips.interval[0] > 0.5


def readings(t: Tally, order: str) -> list[Reading]:
    """Return every figure with a line on what it says."""
    return [
        Reading("flips", "Flips", share_words(t.flips, "pairs"), _flips(t)),
        Reading("first_wins", "First shown wins", share_words(t.first_wins, "decided verdicts"), first_wins_meaning(t)),
        Reading("first_side", "First-side effect", _effect(t), _bias(t, order)),
        Reading("ties", "Ties", share_words(t.ties, "verdicts"), _ties(t)),
        Reading("cycles", "Cycles", share_words(t.cycles, "judged triples"), _cycles(t)),
        Reading("length", "Score and length", _length(t), _length_says(t)),
        Reading("marks", "Scores", _histogram(t), _marks(t)),
        Reading("claims", "Claims against its marks", share_words(t.claims, "verdicts"), _claims(t)),
        Reading("self_noise", "Own noise", _noise(t), _noise_says(t)),
        Reading("repaired", "Repaired replies", f"{count(t.repaired)} of {count(t.verdicts)}", _repaired(t)),
        Reading("failed", "Failed verdicts", count(t.failed), _failed(t)),
        Reading("one_order", "One order or two", _ratio(t), _advice(t)),
    ]


def share_words(s: Share, of: str) -> str:
    """Return a share in per cent with its 95 % interval, `of` what it is one."""
    if s.value is None:
        return f"no {of}"
    low, high = s.interval
    return f"{100 * s.value:.0f} % of {count(s.whole)} {of} (95 %: {100 * low:.0f} to {100 * high:.0f} %)"


def _flips(t: Tally) -> str:
    if t.flips.value is None:
        return "no pair was judged in both orders, so this cannot be told"
    if position_decides(t):
        return "more often than coin tosses: the position decides, and the ranking is noise"
    if t.flips.holds(0.5):
        return "coin tosses give 50 %: these pairs do not show that the judge is better"
    return (
        "rarely: the order shown hardly matters"
        if t.flips.value <= 0.1
        else "at times: it takes both orders, or many pairs"
    )


def first_wins_meaning(t: Tally) -> str:
    """Return what the first-position win rate says."""
    share = t.first_wins
    if share.value is None:
        return "no verdict named a winner"
    if share.holds(0.5):
        return "50 % is unbiased, and within the interval"
    return f"it favours the side shown {'first' if share.value > 0.5 else 'second'}"


def _effect(t: Tally) -> str:
    if t.first_side is None:
        return "no verdicts"
    value, sd = t.first_side
    return f"{signed(value)} points (sd {sd:.2f})"


def _bias(t: Tally, order: str) -> str:
    if t.first_side is None:
        return "there is nothing to tell it by"
    value, _ = t.first_side
    if not t.first_side_is_real:
        return "none that these verdicts show"
    side = "first" if value > 0 else "second"
    if position_decides(t):
        return f"standing {side} is worth {abs(value):.1f} points to this judge, and decides"
    cure = {
        "both": "judging both orders cancels it",
        "balanced": "sides balanced over the matches cancel most of it, --order both all",
    }.get(order, "nothing cancels it with one order: take --order both or balanced")
    return f"standing {side} is worth {abs(value):.1f} points to this judge; {cure}"


def _ties(t: Tally) -> str:
    if not t.ties.whole:
        return "there is no verdict on two different answers"
    return "most: it cannot tell these answers apart" if 2 * t.ties.part > t.ties.whole else "the others name a winner"


def _cycles(t: Tally) -> str:
    if t.cycles.value is None:
        return "no three rollouts all met each other"
    if t.cycles.interval[1] < _CHANCE_CYCLES:
        return "fewer than the 25 % of coin tosses: the preferences make a ranking, or nearly"
    if t.cycles.value <= _CHANCE_CYCLES:
        return "coin tosses give 25 %: too few triples to show that the preferences make a ranking"
    return "coin tosses give 25 %: the preferences hardly make a ranking"


def _length(t: Tally) -> str:
    value, answers = t.length_correlation, t.length[3]
    return "cannot be told" if value is None else f"{signed(value)} (Spearman, {count(answers)} answers)"


def _length_says(t: Tally) -> str:
    value = t.length_correlation
    if value is None:
        return "all answers are as long, or all scores are equal"
    if abs(value) < _LINKED:
        return "no strong link between an answer's length and its score"
    return f"{'longer' if value > 0 else 'shorter'} answers score higher: see whether they are better, or just that"


def _histogram(t: Tally) -> str:
    return ", ".join(f"{mark}: {count(times)}" for mark, times in t.marks.items()) or "none"


def _marks(t: Tally) -> str:
    if not t.marks:
        return "there is no verdict on two different answers"
    if t.flat_mark:
        mark, share = t.flat_mark
        return f"it gives {mark} to {100 * share:.0f} % of the answers: it hardly uses the scale"
    return f"combined scores in whole marks, from {min(t.marks)} to {max(t.marks)}"


def _claims(t: Tally) -> str:
    if not t.claims.part:
        return "what it claims is what its marks come to"
    winners = f", {count(t.claimed_winners)} of them another winner" if t.claimed_winners else ""
    return f"its sums are not those of its marks{winners}; the marks count"


def _noise(t: Tally) -> str:
    return "not measured" if t.self_noise is None else f"sd {t.self_noise:.2f} points"


def _noise_says(t: Tally) -> str:
    if t.self_noise is None:
        return "--judge-repeats 2 asks everything twice and measures it"
    again = t.disagreements
    return f"asked the very same again, it named another winner {count(again.part)} of {count(again.whole)} times"


def _repaired(t: Tally) -> str:
    return "replies that could be used only when asked again" if t.repaired else "every reply could be used as it came"


def _failed(t: Tally) -> str:
    return "their matches are open; `harness rescore` asks again" if t.failed else "none is missing"


def _ratio(t: Tally) -> str:
    advice, pairs = t.orders.advice, t.orders.pairs
    if advice.verdict == "too few":
        return f"{count(pairs)} pairs in both orders"
    ratio = "no residual" if advice.ratio is None else f"ratio {advice.ratio:.2f}"
    return f"{ratio} from {count(pairs)} pairs in both orders"


def _advice(t: Tally) -> str:
    advice = t.orders.advice
    if position_decides(t):
        return "neither would do: the position decides; take another judge"
    if advice.verdict == "too few":
        return "too few pairs to tell whether one order would do: more queries tell"
    rough = " (a rough guide: few pairs)" if advice.rough else ""
    if advice.verdict == "one order":
        return (
            f"one order would do{rough}: the position's effect is much the same for all pairs; --order balanced "
            f"saves {count(advice.saves)} of {count(advice.of)} calls"
        )
    return f"keep both orders{rough}: the position's effect differs from pair to pair (ratio 1.3 or more)"


def _bars(t: Tally) -> tuple[tuple[int, int, float], ...]:
    most = max(t.marks.values(), default=1)
    return tuple((mark, t.marks.get(mark, 0), round(t.marks.get(mark, 0) / most, 3)) for mark in range(11))


def quality_json(trust: JudgeQuality) -> dict[str, object]:
    """Return one judge's figures for machines. Shares come with their count, their whole and their 95 % interval."""
    t = trust.tally
    value, sd = t.first_side or (None, None)
    advice = t.orders.advice
    told = {r.name: r.says for r in trust.readings}
    return {
        "judge": trust.judge,
        "rubric": trust.rubric,
        "verdicts": t.verdicts,
        "warnings": list(trust.warnings),
        "flips": share_json(t.flips),
        "first_wins": share_json(t.first_wins),
        "first_side": {"points": value, "sd": sd, "real": t.first_side_is_real},
        "ties": share_json(t.ties),
        "cycles": share_json(t.cycles),
        "length_correlation": t.length_correlation,
        "marks": {str(k): n for k, n in t.marks.items()},
        "flat_mark": t.flat_mark[0] if t.flat_mark else None,
        "claims": share_json(t.claims) | {"other_winner": t.claimed_winners},
        "self_noise": {"sd": t.self_noise, "other_winner": share_json(t.disagreements)},
        "repaired": t.repaired,
        "failed": t.failed,
        "one_order": {
            "verdict": advice.verdict,
            "ratio": advice.ratio,
            "var_position": t.orders.var_position,
            "var_residual": t.orders.var_residual,
            "pairs": t.orders.pairs,
            "rough": advice.rough,
            "saves_calls": advice.saves,
            "of_calls": advice.of,
        },
        "readings": told,
    }


def share_json(s: Share) -> dict[str, object]:
    """Return a share with its count, its whole and its 95 % interval."""
    return {"count": s.part, "of": s.whole, "share": s.value, "interval": list(s.interval) if s.whole else None}


def judge_lines(sums: Tallies, order: str) -> list[str]:
    """Return the warnings of all judges as lines to print; the judge is named where there are several."""
    return [
        f"judge{f' {judge}' if len(sums) > 1 else ''}: {warning}"
        for judge, one in sums.items()
        for warning in warnings(one, order)
    ]
