"""What two instructions have in common and where they differ, by lines, and within changed lines by words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from harness.transcripts.clean_text import clean

_CONTEXT = 3
"""Equal lines that are shown around a change."""
_MOST_LINES = 1_500
"""Above this number of lines the two are not compared: difflib takes the square of a length."""
_WORD_PAIRS = 12_000_000
"""Pairs of words that are looked at for all lines together; lines beyond that are compared as a whole."""
_ALIKE = 0.4
"""Share of equal words from which a changed line is marked word by word."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_Opcodes = Sequence[tuple[str, int, int, int, int]]

Kind = Literal["same", "gone", "new", "skipped"]


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff, in pieces; a piece is marked where only a part of the line changed."""

    kind: Kind
    pieces: tuple[tuple[str, bool], ...]


def instruction_diff(first: str, second: str) -> list[DiffLine] | None:
    """Return how `second` differs from `first`; None where they are too long to compare."""
    before, after = clean(first).splitlines(), clean(second).splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return None
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT)
    return list(_Diff(before, after).lines([list(group) for group in groups]))


class _Diff:
    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        self._before, self._after = before, after
        self._word_pairs = _WORD_PAIRS

    def lines(self, groups: Sequence[_Opcodes]) -> Iterator[DiffLine]:
        end = 0
        for group in groups:
            yield from _skipped(group[0][1] - end)
            for tag, low, high, after_low, after_high in group:
                if tag == "equal":
                    yield from (_whole("same", line) for line in self._before[low:high])
                else:
                    yield from self._changed(self._before[low:high], self._after[after_low:after_high])
                end = high
        yield from _skipped(len(self._before) - end)

    def _changed(self, gone: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
        """Yield the lines that went, then those that came; the n-th of both are compared word by word."""
        pairs = [self._by_words(old, young) for old, young in zip_longest(gone, new)]
        yield from (line for line, _ in pairs if line)
        yield from (line for _, line in pairs if line)

    def _by_words(self, gone: str | None, new: str | None) -> tuple[DiffLine | None, DiffLine | None]:
        if gone is None or new is None:
            return (
                None if gone is None else _whole("gone", gone),
                None if new is None else _whole("new", new),
            )
        before, after = _WORDS.findall(gone), _WORDS.findall(new)
        self._word_pairs -= len(before) * len(after)
        if self._word_pairs < 0:
            return _whole("gone", gone), _whole("new", new)
        return _word_diff(before, after)


def _word_diff(before: Sequence[str], after: Sequence[str]) -> tuple[DiffLine, DiffLine]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return _whole("gone", "".join(before)), _whole("new", "".join(after))
    codes = matcher.get_opcodes()
    old = tuple(("".join(before[low:high]), tag != "equal") for tag, low, high, _, _ in codes if high > low)
    young = tuple(("".join(after[low:high]), tag != "equal") for tag, _, _, low, high in codes if high > low)
    return DiffLine("gone", old), DiffLine("new", young)


def _skipped(count: int) -> Iterator[DiffLine]:
    if count > 0:
        yield _whole("skipped", f"{count:,} equal line{'s' if count > 1 else ''}")


def _whole(kind: Kind, text: str) -> DiffLine:
    return DiffLine(kind, ((text, False),))
