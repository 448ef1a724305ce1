"""Two answers word by word: which words stand in one of them only."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import groupby

Pieces = tuple[tuple[str, bool], ...]
"""A text in pieces; True: its words stand in this text only."""

_WORDS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]\\s*|[^\\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+\\s*")
"""Words with the blanks behind them, and signs of writings that put no blanks between words."""
_POINTS = ".,;:!?"
"""Behind a word they make no other word of it."""
_MOST_STEPS = 8_000_000
"""Looks at a word's places in the other text, some seconds: without a bound, texts made for it take difflib hours."""
_POPULAR_FROM = 200
"""Words of a text from which difflib begins no match at a word that is more than a hundredth of the text."""
_SENTENCES = re.compile("[^.!?\n]+[.!?\n]*|[.!?\n]+")
_LEAST_MOVED = 5
"""Words of a sentence that is looked for in the other text: shorter ones are there by chance."""
_SHORTEST = 3
"""Words: fewer that two texts have in common between words of their own are chance."""


def word_diff(first: str, second: str) -> tuple[Pieces, Pieces] | None:
    """Return both texts in pieces; None where to compare them would take too long."""
    before, after = list(_words(first)), list(_words(second))
    matcher = _BoundedMatcher([_bare(word) for word in before], [_bare(word) for word in after])
    blocks = matcher.get_matching_blocks()
    if matcher.steps_left < 0:
        return None
    kept = [block for block in blocks if _counts(block, len(before), len(after))]
    ours = _pieces(before, [(i, i + size) for i, _, size in kept])
    theirs = _pieces(after, [(j, j + size) for _, j, size in kept])
    return tuple(_without_moved(ours, second)), tuple(_without_moved(theirs, first))


class _BoundedMatcher(SequenceMatcher[str]):
    """Finds nothing more once its steps are used up."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        most = len(after) // 100 + 1 if len(after) >= _POPULAR_FROM else len(after)  # as difflib's own autojunk
        self._before = before
        self._places = Counter({word: times for word, times in Counter(after).items() if times <= most})
        self.steps_left = _MOST_STEPS
        super().__init__(None, before, after)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        self.steps_left -= sum(1 + self._places[word] for word in self._before[alo:ahi])
        return super().find_longest_match(alo, ahi, blo, bhi) if self.steps_left >= 0 else Match(alo, blo, 0)


def _without_moved(pieces: Iterable[tuple[str, bool]], other: str) -> Iterator[tuple[str, bool]]:
    """Yield pieces in which a sentence that stands in the other text too, at another place, is not marked."""
    for text, marked in pieces:
        sentences = _SENTENCES.findall(text) if marked else [text]
        own = [
            marked and not (sentence.isspace() or (len(sentence.split()) >= _LEAST_MOVED and sentence.strip() in other))
            for sentence in sentences
        ]
        for is_own, several in groupby(zip(own, sentences, strict=True), key=lambda pair: pair[0]):
            yield "".join(sentence for _, sentence in several), is_own


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, each with the blanks behind it; first the blanks before all."""
    bare = text.lstrip()
    yield from filter(None, [text[: len(text) - len(bare)]])
    yield from _WORDS.findall(bare)


def _bare(word: str) -> str:
    return word.strip().rstrip(_POINTS) or word.strip()


def _counts(block: Match, before: int, after: int) -> bool:
    """Tell whether what two texts have in common is more than chance: long enough, or where both begin or end."""
    i, j, size = block
    at_an_end = i == j == 0 or (i + size == before and j + size == after)
    return size > 0 and (at_an_end or size >= _SHORTEST)


def _pieces(words: Sequence[str], kept: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    end = 0
    for low, high in [*kept, (len(words), len(words))]:
        if low > end:
            yield "".join(words[end:low]), True
        if high > low:
            yield "".join(words[low:high]), False
        end = high
