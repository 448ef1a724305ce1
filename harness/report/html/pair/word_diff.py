"""Two answers word by word: which words stand in one of them only."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby

Pieces = tuple[tuple[str, bool], ...]
"""A text in pieces; True: its words stand in this text only."""

_WORDS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\\s+|[^\\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
"""Words with what stands at them, blanks, and signs of writings that put no blanks between words."""
_POINTS = ".,;:!?"
_MOST_PAIRS = 30_000_000
"""Pairs of words that are compared at most: difflib may look at each of them."""
_SENTENCES = re.compile("[^.!?\n]+[.!?\n]*|[.!?\n]+")
_LEAST_MOVED = 5
"""Words of a sentence that is looked for in the other text: shorter ones are there by chance."""
_SHORTEST = 3
"""Words: fewer that two texts have in common between words of their own are chance."""


def word_diff(first: str, second: str) -> tuple[Pieces, Pieces] | None:
    """Return both texts in pieces; None where they are too long to compare."""
    before, after = list(_words(first)), list(_words(second))
    if len(before) * len(after) > _MOST_PAIRS:
        return None
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    kept = [(i, j, size) for i, j, size in blocks if _counts(before[i : i + size], i, j, size, len(before), len(after))]
    ours = _pieces(before, [(i, i + size) for i, _, size in kept])
    theirs = _pieces(after, [(j, j + size) for _, j, size in kept])
    return tuple(_without_moved(ours, second)), tuple(_without_moved(theirs, first))


def _without_moved(pieces: Iterable[tuple[str, bool]], other: str) -> Iterator[tuple[str, bool]]:
    """Yield pieces in which a sentence that stands in the other text too, at another place, is not marked."""
    for text, marked in pieces:
        sentences = _SENTENCES.findall(text) if marked else [text]
        own = [marked and not (sentence.isspace() or _is_in(sentence, other)) for sentence in sentences]
        for is_own, several in groupby(zip(own, sentences, strict=True), key=lambda pair: pair[0]):
            yield "".join(sentence for _, sentence in several), is_own


def _is_in(sentence: str, other: str) -> bool:
    return len(sentence.split()) >= _LEAST_MOVED and sentence.strip() in other


def _words(text: str) -> Iterator[str]:
    for word in _WORDS.findall(text):
        bare = word.rstrip(_POINTS)
        yield from filter(None, (bare, word[len(bare) :]))


def _counts(words: Sequence[str], i: int, j: int, size: int, before: int, after: int) -> bool:
    """Tell whether what two texts have in common is more than chance: long enough, or where both begin or end."""
    at_an_end = i == j == 0 or (i + size == before and j + size == after)
    return size > 0 and (at_an_end or sum(not word.isspace() for word in words) >= _SHORTEST)


def _pieces(words: Sequence[str], kept: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    end = 0
    for low, high in [*kept, (len(words), len(words))]:
        if low > end:
            yield "".join(words[end:low]), True
        if high > low:
            yield "".join(words[low:high]), False
        end = high
