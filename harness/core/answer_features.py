"""What a judge may lean to in an answer beside its worth: its length, its formatting, its talk of itself."""

import math
import re
from dataclasses import astuple, dataclass

_HEADING_OR_ITEM = re.compile(r"\s*(?:#{1,6}\s|[-*+•]\s|\d{1,3}[.)]\s)")
_BOLD = re.compile(r"(\*\*|__)(?=\S).+?(?<=\S)\1")
_OF_ITSELF = re.compile(r"\b(?:i|me|my|mine|myself|sorry|apolog(?:y|ies|i[sz]e|i[sz]ing))\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?]+(?:\s+|$)|\n+")
_LEADING_MARK = re.compile(r"(?m)^[ \t]*(?:#{1,6}|[-*+•]|\d{1,3}[.)])[ \t]+")
_BOLD_MARK = re.compile(r"\*\*|__(?=\S|$)")


@dataclass(frozen=True)
class AnswerFeatures:
    """The features of an answer, in the order in which leanings have them."""

    length: float
    """The natural logarithm of its characters, white space aside, and one."""
    formatting: float
    """Share of its lines that are headings or items of a list, or hold bold text, 0 to 1."""
    of_itself: float
    """Share of its sentences with an English word in the first person, or of apology, 0 to 1."""

    @property
    def values(self) -> tuple[float, ...]:
        """The features in order, to six places."""
        return tuple(round(value, 6) for value in astuple(self))


def leaning_features(text: str) -> AnswerFeatures:
    """Return the features of an answer."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = sum(bool(_HEADING_OR_ITEM.match(line) or _BOLD.search(line)) for line in lines)
    sentences = [sentence for sentence in _SENTENCE_END.split(text) if sentence.strip()]
    of_itself = sum(bool(_OF_ITSELF.search(sentence)) for sentence in sentences)
    return AnswerFeatures(
        length=math.log(1 + sum(map(len, text.split()))),
        formatting=marked / max(1, len(lines)),
        of_itself=of_itself / max(1, len(sentences)),
    )


def without_markup(text: str) -> str:
    """Return an answer without the marks of its headings and lists, and without those of bold text."""
    return _BOLD_MARK.sub("", _LEADING_MARK.sub("", text))
