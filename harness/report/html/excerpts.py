"""Transcripts cut to a number of characters, so that a browser opens the page quickly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.core.records import Step, Trajectory
from harness.report.summary.rollouts import numbered_steps
from harness.transcripts.clean_text import clean

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


def excerpt(trajectory: Trajectory, room: int) -> Excerpt:
    """Cut the longest texts of a path until the path fits into `room` characters; the answer has as much again."""
    path = list(numbered_steps(trajectory.path))
    several_agents = len({step.agent for _, step in path if step.agent}) > 1
    texts: list[list[ExcerptText]] = []
    for _, s in path:
        labels = {"Reasoning": s.reasoning, "Input": s.tool_input, "Output": s.tool_output, "Error": s.error}
        given = ((label, text) for label, text in labels.items() if text is not None)
        texts.append([ExcerptText(label, clean(text).strip(), code=label == "Input") for label, text in given])
    limit = _limit([len(text.shown) for of_step in texts for text in of_step], room)
    steps = tuple(
        ExcerptStep(
            number, step, step.agent if several_agents else None, tuple(cut_excerpt(text, limit) for text in of_step)
        )
        for (number, step), of_step in zip(path, texts, strict=True)
    )
    return Excerpt(steps, answer_excerpt(trajectory, max(room, _ANSWER)), limit)


def answer_excerpt(trajectory: Trajectory, most: int) -> ExcerptText:
    """Return an answer, cut to `most` characters."""
    answer = ExcerptText("Answer", clean(trajectory.answer).strip(), code=trajectory.answer_type == "json")
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
