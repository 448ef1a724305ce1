"""How far to believe the judge: honesty figures and what each means, in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.archive.reader import FolderReader, RunReader
from harness.archive.result_files import RankingFile
from harness.core.errors import counted
from harness.core.rankings import GroupRanking, Match, Unjudged
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.orders import Information
from harness.ranking.judge_stats.tally import Tally, tally
from harness.report.summary.group import QualityFigure, Tallies, add_tallies, calls_by_judge
from harness.report.summary.ranking import RankingSummary
from harness.report.text import count, signed

if TYPE_CHECKING:  # `show` prints warnings of a judge, and has no labels and no comparison
    from harness.archive.comparison_reader import ComparisonFile, ComparisonReader
    from harness.core.comparisons import CrossMatch
    from harness.report.summary.labels import LabelAgreement

_LINKED = 0.5
"""A rank correlation from here on is worth a warning."""
_CHANCE_CYCLES = 0.25
"""Share of cyclic triples that coin tosses give."""
_NO_VERDICT = "there is no verdict on two different answers"


@dataclass(frozen=True)
class JudgeQuality:
    """All that is said of one judge in one ranking."""

    judge: str
    rubric: str
    tally: Tally
    warnings: tuple[str, ...]
    figures: tuple[QualityFigure, ...]
    bars: tuple[tuple[int, int, float], ...]
    """For marks 0 to 10: how many sides got the mark, and that number as a share of the commonest mark's."""


def judge_qualities(reader: RunReader, ranking: RankingFile, summary: RankingSummary) -> list[JudgeQuality]:
    """Return what is to be said of every judge of a ranking."""
    sums = add_tallies([summary.tallies, failures(reader, summary.failed_verdicts, summary.absent_verdicts)])
    order = str(ranking.head.settings.get("order"))
    return [judge_quality(judge, ranking.head.rubric, tally, order) for judge, tally in sums.items()]


def judge_quality(judge: str, rubric: str, tally: Tally, order: str) -> JudgeQuality:
    """Return what is to be said of a judge that was asked in `order` (both, balanced, single)."""
    most = max(tally.marks.values(), default=1)
    return JudgeQuality(
        judge=judge,
        rubric=rubric,
        tally=tally,
        warnings=tuple(warnings(tally, order)),
        figures=tuple(quality_figures(tally, order)),
        bars=tuple((mark, tally.marks.get(mark, 0), round(tally.marks.get(mark, 0) / most, 3)) for mark in range(11)),
    )


def failures(
    reader: FolderReader, open_keys: AbstractSet[str], absent: AbstractSet[str] = frozenset()
) -> dict[str, Tally]:
    """Count failed verdicts by judge: those that matches wait for, and `absent` ones for which other jurors' stand."""
    if not (asked := open_keys | absent):
        return {}
    judges = {v.key: v.judge for v in reader.verdicts() if isinstance(v, Unjudged) and v.key in asked}
    stood_in = Counter(judge for key, judge in judges.items() if key not in open_keys)
    return {judge: Tally(failed=times, stood_in=stood_in[judge]) for judge, times in Counter(judges.values()).items()}


def warnings(t: Tally, order: str) -> list[str]:
    """Return what has to be known of a judge before its ranking is believed, the worst first."""
    lines: list[str] = []
    if t.orders.position_decides:
        side = "first" if 2 * t.first_wins.part >= t.first_wins.whole else "second"
        lines.append(
            f"its ranking is noise: in {count(t.flips.part)} of {counted(t.flips.whole, 'pair')} it named the side "
            f"shown {side}, whichever answer that was"
        )
    elif t.first_side is not None and t.first_side_is_real:
        lines.append(_bias(t, order))
    if t.flat_mark:
        mark, share = t.flat_mark
        lines.append(f"it gives {mark} to {100 * share:.0f} % of the answers, so it hardly tells any apart")
    return lines


def judge_lines(tallies: Tallies, order: str) -> list[str]:
    """Return the warnings of all judges as lines to print; the judge is named where there are several."""
    return [
        f"judge{f' {judge}' if len(tallies) > 1 else ''}: {warning}"
        for judge, tally in tallies.items()
        for warning in warnings(tally, order)
    ]


def quality_figures(t: Tally, order: str) -> Iterator[QualityFigure]:
    """Yield every figure with a line on what it means: of the order shown, of the marks, and of the replies."""
    effect = f"{signed(t.first_side[0])} points (sd {t.first_side[1]:.2f})" if t.first_side else "no verdicts"
    ties = "most: it cannot tell these answers apart" if 2 * t.ties.part > t.ties.whole else "the others name a winner"
    first_wins = share_words(t.first_wins, "decided verdict")
    yield QualityFigure("flips", "Changed with order", share_words(t.flips, "pair"), _flips(t))
    seen = t.orders.information
    shown = "more than a coin, which has 0" if seen.interval[0] > 0 else "a coin has 0: not shown to be better"
    yield QualityFigure("information", "Information of the judge", information_words(seen), shown)
    yield QualityFigure("first_wins", "First shown wins", first_wins, first_wins_meaning(t))
    yield QualityFigure("first_side", "Position bias", effect, _bias(t, order))
    yield QualityFigure("ties", "Ties", share_words(t.ties, "verdict"), ties if t.ties.whole else _NO_VERDICT)
    yield QualityFigure("cycles", "Cycles", share_words(t.cycles, "judged triple"), _cycles(t))

    value, answers = t.length_correlation, t.length.answers
    length = "cannot be told" if value is None else f"{signed(value)} (Spearman, {counted(answers, 'answer')})"
    histogram = ", ".join(f"{mark}: {count(times)}" for mark, times in sorted(t.marks.items()))
    winners = f", {count(t.claimed_winners)} of them another winner" if t.claimed_winners else ""
    claims = f"its sums are not those of its scores{winners}; the scores count"
    claims = claims if t.claims.part else "what it claims is what its scores come to"
    yield QualityFigure("length", "Score and length", length, _length_meaning(t))
    marks = f"combined scores, rounded, from {min(t.marks)} to {max(t.marks)}" if t.marks else _NO_VERDICT
    if t.marks and t.flat_mark:
        mark, share = t.flat_mark
        marks = f"it gives {mark} to {100 * share:.0f} % of the answers: it hardly uses the scale"
    yield QualityFigure("marks", "Scores", histogram or "none", marks)
    yield QualityFigure("claims", "Claims against its scores", share_words(t.claims, "verdict"), claims)

    noise, noisy = "not measured", "--judge-repeats 2 asks everything twice and measures it"
    if t.self_noise is not None:
        again = f"{count(t.disagreements.part)} of {counted(t.disagreements.whole, 'time')}"
        noise, noisy = f"sd {t.self_noise:.2f} points", f"asked the very same again, it named another winner {again}"
    of_no_use = "replies that could be used only when asked again"
    repaired = of_no_use if t.repaired else "every reply could be used as it came"
    advice, pairs = t.orders.advice, f"{counted(t.orders.pairs, 'pair')} in both orders"
    ratio = "no residual" if advice.ratio is None else f"ratio {advice.ratio:.2f}"
    orders = pairs if advice.verdict == "too few" else f"{ratio} from {pairs}"
    yield QualityFigure("self_noise", "Own noise", noise, noisy)
    yield QualityFigure("repaired", "Repaired replies", f"{count(t.repaired)} of {count(t.verdicts)}", repaired)
    yield QualityFigure("failed", "Failed verdicts", count(t.failed), _failed(t))
    yield QualityFigure("one_order", "One order or two", orders, _advice(t))


def share_words(s: Share, of: str) -> str:
    """Return a share in per cent with its 95 % interval; `of` names one of what it is a share of."""
    if s.value is None:
        return f"no {of}s"
    low, high = s.interval
    return f"{100 * s.value:.0f} % of {counted(s.whole, of)} (95 %: {100 * low:.0f} to {100 * high:.0f} %)"


def information_words(seen: Information) -> str:
    """Return how far the leads of the two orders correlate, with its 95 % interval."""
    low, high = map(signed, seen.interval)
    of = f"of {counted(seen.pairs, 'pair')}"
    return f"not known {of}" if seen.value is None else f"{signed(seen.value)} {of} (95 %: {low} to {high})"


def agreement_words(agreement: LabelAgreement) -> Iterator[str]:
    """Yield how often the judge agrees with people's labels, and how often with itself."""
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
    yield f"people's labels: the judge says the same on {share_words(agreement.labelled, 'pair')}{kappa}"
    if agreement.control.whole:
        yield f"  of these, drawn at random: {share_words(agreement.control, 'pair')}"
    if agreement.orders.whole:
        yield f"  the judge's own two orders say the same on {share_words(agreement.orders, 'pair')}"


def _flips(t: Tally) -> str:
    if t.flips.value is None:
        return "no pair was judged in both orders, so this cannot be told"
    if t.orders.position_decides:
        return "the position decides, and the ranking is noise"
    if t.flips.holds(0.5):
        return "coin tosses give 50 %: these pairs do not show that the judge is better"
    seldom = t.flips.value <= 0.1
    return "rarely: the order shown hardly matters" if seldom else "at times: it takes both orders, or many pairs"


def first_wins_meaning(t: Tally) -> str:
    """Return what the share of verdicts won by the side shown first means."""
    share = t.first_wins
    if share.value is None:
        return "no verdict named a winner"
    if share.holds(0.5):
        return "50 % is unbiased, and within the interval"
    return f"it favours the side shown {'first' if share.value > 0.5 else 'second'}"


def _bias(t: Tally, order: str) -> str:
    if t.first_side is None:
        return "there is nothing to tell it by"
    value, _ = t.first_side
    if not t.first_side_is_real:
        return "none that these verdicts show"
    side = "first" if value > 0 else "second"
    if t.orders.position_decides:
        return f"standing {side} is worth {abs(value):.2f} points to this judge, and decides"
    cure = {
        "both": "judging both orders cancels it",
        "balanced": "sides balanced over the matches cancel most of it, --order both all",
    }.get(order, "nothing cancels it with one order: take --order both or balanced")
    return f"standing {side} is worth {abs(value):.2f} points to this judge; {cure}"


def _cycles(t: Tally) -> str:
    if t.cycles.value is None:
        return "no three rollouts all met each other"
    if t.cycles.interval[1] < _CHANCE_CYCLES:
        return "fewer than the 25 % of coin tosses: the preferences make a ranking, or nearly"
    if t.cycles.value <= _CHANCE_CYCLES:
        return "coin tosses give 25 %: too few triples to show that the preferences make a ranking"
    return "coin tosses give 25 %: the preferences hardly make a ranking"


def _length_meaning(t: Tally) -> str:
    value = t.length_correlation
    if value is None:
        return "all answers are as long, or all scores are equal"
    if abs(value) < _LINKED:
        return "no strong link between an answer's length and its score"
    return f"{'longer' if value > 0 else 'shorter'} answers score higher: see whether they are better, or just that"


def _failed(t: Tally) -> str:
    if not t.failed:
        return "none is missing"
    if not t.stood_in:
        return "their matches are open; `harness rescore` asks again"
    stand = "the other jurors' verdicts stand"
    if t.stood_in < t.failed:
        return f"{stand} for {count(t.stood_in)}, the matches of the others are open; `harness rescore` asks again"
    return f"{stand}; `harness rescore` asks again"


def _advice(t: Tally) -> str:
    advice = t.orders.advice
    if t.orders.position_decides:
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


def compared_qualities(reader: ComparisonReader, file: ComparisonFile) -> list[JudgeQuality]:
    """Return what is to be said of every judge of a comparison. Raises ArchiveDamaged."""
    parts: list[Tallies] = []
    for query in file.queries:  # as a group whose rollouts are numbered side after side
        placed = [(side, rollout) for side, listed in enumerate(query.rollouts) for rollout in listed]
        numbers = {(side, rollout.index): number for number, (side, rollout) in enumerate(placed)}
        matches = tuple(_as_match(match, numbers) for match in query.matches if match.score_first is not None)
        words = {
            number: len(reader.blobs.get(rollout.answer_blob).split())
            for number, (_, rollout) in enumerate(placed)
            if rollout.answer_blob
        }
        group = GroupRanking(
            query=query.query, topology="", estimator="", status="complete", signal="ok", matches=matches
        )
        calls = calls_by_judge(group, reader.verdict, words)
        parts.append({judge: tally(made) for judge, made in calls.items()})
    open_keys = {key for query in file.queries for key in query.failed_verdicts}
    sums = add_tallies([*parts, failures(reader, open_keys)])
    return [judge_quality(judge, reader.info.rubric, tally, "both") for judge, tally in sums.items()]


def _as_match(match: CrossMatch, numbers: dict[tuple[int, int], int]) -> Match:
    first, second = numbers[match.sides[0], match.first], numbers[match.sides[1], match.second]
    shown = [side == "first" for side in match.shown_first]
    return Match(
        round=0,
        a=first,
        b=second,
        verdicts=match.verdicts,
        shown_first=tuple(first if is_first else second for is_first in shown),
        score_a=match.score_first or 0.0,
        score_b=match.score_second or 0.0,
        winner={"first": first, "second": second}.get(match.winner or ""),
        flipped=match.flipped,
        inconsistent=match.inconsistent,
        scores=tuple((a, b) if is_first else (b, a) for is_first, (a, b) in zip(shown, match.scores, strict=True)),
    )
