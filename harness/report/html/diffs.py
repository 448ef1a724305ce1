"""Texts on a page: answers side by side word by word, instructions line by line, long transcripts cut."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import Match, SequenceMatcher
from itertools import groupby, zip_longest
from typing import Literal

from harness.core.errors import on_a_line
from harness.core.records import Step, Trajectory
from harness.core.unicode import visible
from harness.core.workspace_files import files_text
from harness.report.summary.rollouts import numbered_steps

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
    kept = [  # what two texts have in common is more than chance: long enough, or where both begin or end
        (i, j, size)
        for i, j, size in blocks
        if size >= _SHORTEST or (size and (i == j == 0 or (i + size == len(before) and j + size == len(after))))
    ]
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


def _pieces(words: Sequence[str], kept: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    end = 0
    for low, high in [*kept, (len(words), len(words))]:
        if low > end:
            yield "".join(words[end:low]), True
        if high > low:
            yield "".join(words[low:high]), False
        end = high


_CONTEXT = 3
"""Equal lines that are shown around a change."""
_MOST_LINES = 1_500
"""Above this number of lines the two are not compared: difflib takes the square of a length."""
_WORD_PAIRS = 12_000_000
"""Pairs of words that are looked at for all lines together; lines beyond that are compared as a whole."""
_ALIKE = 0.4
"""Share of equal words from which a changed line is marked word by word."""
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_Kind = Literal["same", "gone", "new", "skipped"]


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff, in pieces; a piece is marked where only a part of the line changed."""

    kind: _Kind
    pieces: Pieces


def instruction_diff(first: str, second: str) -> list[DiffLine] | None:
    """Return how `second` differs from `first`; None where they are too long to compare."""
    before, after = visible(first).splitlines(), visible(second).splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return None
    return list(_Diff().lines(before, after))


class _Diff:
    def __init__(self) -> None:
        self._word_pairs = _WORD_PAIRS

    def lines(self, before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
        end = 0
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        for group in matcher.get_grouped_opcodes(_CONTEXT):
            yield from _skipped(group[0][1] - end)
            for tag, low, high, after_low, after_high in group:
                if tag == "equal":
                    yield from (_whole_line("same", line) for line in before[low:high])
                else:
                    changed = zip_longest(before[low:high], after[after_low:after_high])
                    pairs = [self._by_words(old, young) for old, young in changed]
                    yield from (line for line, _ in pairs if line)
                    yield from (line for _, line in pairs if line)
                end = high
        yield from _skipped(len(before) - end)

    def _by_words(self, gone: str | None, new: str | None) -> tuple[DiffLine | None, DiffLine | None]:
        """Return a line that went and the one that came for it, the words marked in which they differ."""
        whole = None if gone is None else _whole_line("gone", gone), None if new is None else _whole_line("new", new)
        if gone is None or new is None:
            return whole
        before, after = _TOKENS.findall(gone), _TOKENS.findall(new)
        self._word_pairs -= len(before) * len(after)
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        if self._word_pairs < 0 or matcher.ratio() < _ALIKE:
            return whole
        codes = matcher.get_opcodes()
        left = tuple(("".join(before[low:high]), tag != "equal") for tag, low, high, _, _ in codes if high > low)
        right = tuple(("".join(after[low:high]), tag != "equal") for tag, _, _, low, high in codes if high > low)
        return DiffLine("gone", left), DiffLine("new", right)


def _skipped(count: int) -> Iterator[DiffLine]:
    if count > 0:
        yield _whole_line("skipped", f"{count:,} equal line{'s' if count > 1 else ''}")


def _whole_line(kind: _Kind, text: str) -> DiffLine:

    return DiffLine(kind, ((text, False),))


_ANSWER = 4_000
"""Characters of an answer that are shown on the largest page too; the answer is what was judged."""
_LEAST = 120
"""Characters that a text is never cut below."""
_SLACK = 60
"""Characters above its limit that a text may have: a note that three characters are missing helps no one."""
_LONG = 320
"""Characters above which a text of a path is folded away behind its beginning."""


@dataclass(frozen=True)
class PageRoom:
    """How many characters each path gets: a share of `together`, within bounds."""

    together: int
    least: int
    most: int

    def each(self, count: int) -> int:
        """Return the room of one path among `count`."""
        return max(self.least, min(self.most, self.together // max(1, count)))


BESIDE_A_MATCH = PageRoom(together=700_000, least=800, most=16_000)
ALONE = PageRoom(together=1_500_000, least=3_000, most=60_000)


@dataclass(frozen=True)
class ExcerptText:
    """A text of a transcript, perhaps cut."""

    label: str
    shown: str
    left_out: int = 0
    code: bool = False

    @property
    def folded(self) -> bool:
        """Whether the text is long enough to be folded away."""
        return len(self.shown) > _LONG

    @property
    def length(self) -> int:
        """Characters before the text was cut."""
        return len(self.shown) + self.left_out


@dataclass(frozen=True)
class ExcerptStep:
    """A step with its texts."""

    number: str
    step: Step
    agent: str | None
    """Only where more than one agent took part."""
    texts: tuple[ExcerptText, ...]


@dataclass(frozen=True)
class Excerpt:
    """A trajectory as the page shows it, the longest texts of its path cut to `limit` characters."""

    steps: tuple[ExcerptStep, ...]
    answer: ExcerptText
    limit: int | None
    files: ExcerptText | None = None
    """What became of the files in its workspace, where there are any."""


def excerpt(trajectory: Trajectory, room: int) -> Excerpt:
    """Cut the longest texts of a path until the path fits into `room` characters; the answer has as much again."""
    path = list(numbered_steps(trajectory.path))
    several = len({step.agent for _, step in path if step.agent}) > 1
    texts: list[list[ExcerptText]] = []
    for _, s in path:
        labels = {"Reasoning": s.reasoning, "Input": s.tool_input, "Output": s.tool_output, "Error": s.error}
        given = ((label, text) for label, text in labels.items() if text is not None)
        texts.append([ExcerptText(label, visible(text).strip(), code=label == "Input") for label, text in given])
    limit = _limit([len(text.shown) for of_step in texts for text in of_step], room)
    steps = tuple(
        ExcerptStep(number, step, step.agent if several else None, tuple(cut_excerpt(text, limit) for text in of_step))
        for (number, step), of_step in zip(path, texts, strict=True)
    )
    answer, files = answer_excerpt(trajectory, max(room, _ANSWER)), trajectory.files
    told = visible(files_text(files, on_a_line, str)) if files else ""
    return Excerpt(steps, answer, limit, cut_excerpt(ExcerptText("Files", told, code=True), room) if told else None)


def answer_excerpt(trajectory: Trajectory, most: int) -> ExcerptText:
    """Return an answer, cut to `most` characters."""
    answer = ExcerptText("Answer", visible(trajectory.answer).strip(), code=trajectory.answer_type == "json")
    return cut_excerpt(answer, most)


def _limit(lengths: Sequence[int], room: int) -> int | None:
    """Return the length to cut texts to so that all fit into `room`: short ones stay whole. None: no need to cut."""
    ordered = sorted(lengths)
    for i, length in enumerate(ordered):
        share = room // (len(ordered) - i)
        if length > share:
            return max(share, _LEAST)
        room -= length
    return None


def cut_excerpt(text: ExcerptText, limit: int | None) -> ExcerptText:
    """Cut a text to `limit` characters; a few more than that are let through."""
    if limit is None or len(text.shown) <= limit + _SLACK:
        return text
    kept = text.shown[:limit].rstrip()
    return replace(text, shown=kept, left_out=len(text.shown) - len(kept))
