"""A curve in words: the one sentence, what it was measured by, and what has to be known of it."""

from collections.abc import Iterator

from harness.core.plurals import counted
from harness.ranking.curve import KEEP, CurveDesign, CurvePoint
from harness.report.summary.curve import JudgingCurve
from harness.report.text import percent_interval

MEASURE = "Kendall's tau over the pairs that the truth tells apart (Somers' d): 1 all right, 0 as by chance"


def curve_sentence(curve: JudgingCurve) -> str:
    """Return which share of the full round robin's agreement how many calls keep."""
    reference, chosen = curve.curve.reference, curve.curve.chosen
    full, one = counted_calls(reference), calls_words(reference) == "1"
    if chosen is None:
        agree = "agrees" if one else "agree"
        return f"{full} {agree} with the truth no better than chance, so the curve recommends nothing"
    if chosen.calls >= reference.calls - 1e-9 or chosen.keeps is None:
        give = "gives" if one else "give"
        return f"no design keeps {100 * KEEP:.0f} % of what {full} {give} with fewer{_caution(curve)}"
    keep = "keeps" if calls_words(chosen) == "1" else "keep"
    return (
        f"{counted_calls(chosen)} {keep} {percent_interval(chosen.keeps)} of what {calls_words(reference)} give: "
        f"{design_words(chosen.design)} by {chosen.estimator}, against {design_words(reference.design)} by "
        f"{reference.estimator}{_caution(curve)}"
    )


def _caution(curve: JudgingCurve) -> str:
    tau = curve.curve.reference.tau
    if tau.low is not None and tau.low > 0:
        return ""
    queries = "one query does" if curve.queries == 1 else f"{curve.queries:,} queries do"
    return f" (a rough guide: {queries} not show that even these agree with the truth better than chance)"


def truth_words(curve: JudgingCurve) -> str:
    """Return what the ranks are measured by."""
    match curve.truth:
        case "ranking":
            return f"truth: ranking {curve.against}"
        case "labels":
            return "truth: the labels"
        case "reward":
            return "truth: reward()"
        case "order":
            return "truth: the verdict of the other order, of each pair one that the design did not ask for"
        case "itself":
            return "SELF-AGREEMENT, no truth: the round robin's own scores, of the same verdicts, which flatters all"


def curve_notes(curve: JudgingCurve) -> Iterator[str]:
    """Yield what has to be known of a curve."""
    if curve.offline:
        yield "SELF-TEST on the embedded offline parts: it says nothing of any LLM"
    if curve.shared:
        yield "the ranking of --against rests on some of the same verdicts: part of this is self-agreement"
    if not curve.both_orders:
        yield "each pair was judged in one order: every design takes the verdict that is there"
    if curve.left_out:
        yield f"left out: {counted(curve.left_out, 'query', 'queries')} of which a pair has no verdict"
    if curve.silent:
        yield f"left out: {counted(curve.silent, 'query', 'queries')} of which the truth says nothing"
    if curve.truth in {"order", "ranking"}:
        yield "the truth is noisy itself: compare designs by what they keep, not by tau"


def design_words(design: CurveDesign) -> str:
    """Return a design in words: `arena both`."""
    return f"{design.topology} {order_words(design)}"


def order_words(design: CurveDesign) -> str:
    """Return the orders in which a design judges, or for one with a budget the calls as a share of the pairs."""
    if design.share is not None:
        return f"{100 * float(design.share):.0f} % of pairs"
    return str(design.order)


def calls_words(point: CurvePoint) -> str:
    """Return the calls of a point: a mean over queries of different sizes has a decimal."""
    return f"{point.calls:,.1f}".removesuffix(".0")


def counted_calls(point: CurvePoint) -> str:
    """Return the calls of a point with their noun: `1 call`, `12.5 calls`."""
    calls = calls_words(point)
    return f"{calls} {'call' if calls == '1' else 'calls'}"
