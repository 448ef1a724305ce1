"""Transcripts cut to a budget of characters, so that a page stays one that opens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.core.records import Step, Trajectory
from harness.report.summary import numbered
from harness.transcripts import clean

_ANSWER = 4_000
"""Characters of an answer that are shown however many there are; it is what was judged."""
_LEAST = 120
"""Characters that a text is never cut below."""
_SLACK = 60
"""Characters more than its room that a text may have: to be told that three are missing helps no one."""
_LONG = 320
"""Characters above which a text of a path is folded away behind its beginning."""


@dataclass(frozen=True)
class Room:
    """How many characters a path gets: what there is for all of them together, within bounds for one."""

    together: int
    least: int
    most: int

    def each(self, count: int) -> int:
        """Return the room of one path among `count`."""
        return max(self.least, min(self.most, self.together // max(1, count)))


BESIDE_A_MATCH = Room(together=700_000, least=800, most=16_000)
ALONE = Room(together=1_500_000, least=3_000, most=60_000)


@dataclass(frozen=True)
class Text:
    """A text of a transcript, perhaps cut."""

    label: str
    shown: str
    left_out: int = 0
    code: bool = False

    @property
    def folded(self) -> bool:
        """Whether it is long enough to be folded away."""
        return len(self.shown) > _LONG

    @property
    def length(self) -> int:
        """Its characters before it was cut."""
        return len(self.shown) + self.left_out


@dataclass(frozen=True)
class ShownStep:
    """A step with its texts."""

    number: str
    step: Step
    agent: str | None
    """Only where more than one took part."""
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Shown:
    """A trajectory as the page shows it, the longest texts of its path cut to `limit` characters."""

    steps: tuple[ShownStep, ...]
    answer: Text
    limit: int | None


def excerpt(trajectory: Trajectory, room: int) -> Shown:
    """Cut the longest texts of a path until it fits into `room`; the answer has as much again."""
    path = list(numbered(trajectory.path))
    named = len({step.agent for _, step in path if step.agent}) > 1
    parts = [(number, step, _texts(step)) for number, step in path]
    answer = Text("Answer", clean(trajectory.answer).strip(), code=trajectory.answer_type == "json")
    limit = _limit([len(text.shown) for _, _, texts in parts for text in texts], room)
    return Shown(
        steps=tuple(
            ShownStep(number, step, step.agent if named else None, tuple(_cut(text, limit) for text in texts))
            for number, step, texts in parts
        ),
        answer=_cut(answer, max(room, _ANSWER)),
        limit=limit,
    )


def _texts(step: Step) -> list[Text]:
    told = [
        ("Reasoning", step.reasoning, False),
        ("Input", step.tool_input, True),
        ("Output", step.tool_output, False),
        ("Error", step.error, False),
    ]
    return [Text(label, clean(text).strip(), code=code) for label, text, code in told if text is not None]


def _limit(lengths: Sequence[int], room: int) -> int | None:
    """Return the length to cut texts to so that all fit into `room`: short ones stay whole. None: no need to cut."""
    ordered = sorted(lengths)
    for i, length in enumerate(ordered):
        share = room // (len(ordered) - i)
        if length > share:
            return max(share, _LEAST)
        room -= length
    return None


def _cut(text: Text, limit: int | None) -> Text:
    if limit is None or len(text.shown) <= limit + _SLACK:
        return text
    kept = text.shown[:limit].rstrip()
    return replace(text, shown=kept, left_out=len(text.shown) - len(kept))
