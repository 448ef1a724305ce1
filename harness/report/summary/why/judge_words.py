"""What the judge said of one side of a match, in one sentence."""

import re
from collections.abc import Iterator

from harness.core.rankings import Match
from harness.core.verdicts import Judged
from harness.report.summary.match_verdicts import VerdictLookup, judged_orders, opponent_of
from harness.report.summary.why.pair_records import JudgeSentence

_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])")
_LONGEST = 300
"""Characters of a sentence that are kept."""
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|Dr|Mr|Ms|St|No|Fig)|\b[A-Za-z]|\d)\.$")


def judge_sentence(match: Match, number: int, side: int, verdicts: VerdictLookup) -> JudgeSentence | None:
    """Return a sentence of the judge on `side`; None where no verdict of the match says anything on it.

    The verdict is the first that names the match's winner, else the first; the sentence is the first on that block,
    answer or path, in which the two are further apart.
    """
    judged = [(first, verdict) for first, verdict in judged_orders(match, verdicts) if verdict]
    for first, verdict in sorted(judged, key=lambda order: not _agrees(match, *order)):
        for text in _remarks(verdict, side_was_first=first == side):
            return JudgeSentence(text, number, first, opponent_of(match, side))
    return None


def _agrees(match: Match, first: int, verdict: Judged) -> bool:
    named = {"A": first, "B": opponent_of(match, first)}.get(verdict.winner)
    return named == match.winner


def _remarks(verdict: Judged, *, side_was_first: bool) -> Iterator[str]:
    gap = {block: _gap(verdict, block) for block in ("answer", "path")}
    for block in sorted(gap, key=lambda name: -gap[name]):
        if text := first_sentence(verdict.analysis.get(f"{block}_{'A' if side_was_first else 'B'}", "")):
            yield text


def _gap(verdict: Judged, block: str) -> float:
    a, b = getattr(verdict.a, block), getattr(verdict.b, block)
    return -1.0 if a is None or b is None else abs(a - b)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text on one line, cut where it is very long."""
    flat = " ".join(text[: 20 * _LONGEST].split())
    ends = (match.start() for match in _END.finditer(flat))
    end = next((at for at in ends if not _ABBREVIATION.search(flat[:at][-12:])), len(flat))
    sentence = flat[:end]
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1].rstrip() + "…"
