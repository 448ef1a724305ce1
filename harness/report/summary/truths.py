"""What tells which of two rollouts is better, but for a judge: labels, and the agent file's `reward()`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.records import Group
from harness.ranking.judge_stats.agreement import Preference, preferences
from harness.ranking.judge_stats.side_by_side import Truth
from harness.transcripts.path_text import plain_text


@dataclass(frozen=True)
class AnswerLabel:
    """Which of two answers to a query is better, as a person says."""

    query: str
    a: str
    b: str
    label: Literal["a", "b", "tie"]
    query_id: str | None = None
    rollouts: tuple[int, int] | None = None
    """Of a label that was given in the run itself: which rollouts `a` and `b` are."""
    is_control: bool = False
    """The pair was drawn at random, and not for being doubtful."""


def answer_key(answer: str) -> str:
    """Return what two answers have in common that a judge reads as the same text."""
    return plain_text(answer).strip()


def rollouts_by_answer(group: Group) -> dict[str, list[int]]:
    """Return the rollouts that ended well, by the key of their answer."""
    rollouts: dict[str, list[int]] = {}
    for rollout in group.rollouts:
        if rollout.status == "ok":
            rollouts.setdefault(answer_key(rollout.trajectory.answer), []).append(rollout.index)
    return rollouts


class Truths:
    """What labels and `reward()` prefer; `used` holds the places of the labels about groups seen."""

    def __init__(self, labels: Sequence[AnswerLabel]) -> None:
        """Keep the labels by query."""
        self._by_query: dict[str, list[tuple[int, AnswerLabel]]] = {}
        for at, label in enumerate(labels):
            self._by_query.setdefault(label.query.strip(), []).append((at, label))
        self.used: set[int] = set()

    def __call__(self, group: Group) -> dict[Truth, Sequence[Preference]]:
        """Return what labels and `reward()` prefer in a group."""
        verified = {r.index: r.verified for r in group.rollouts if r.verified is not None}
        return {"labels": self._preferences(group), "reward": preferences(verified)}

    def _preferences(self, group: Group) -> list[Preference]:
        labels = self._by_query.get(group.query.text.strip(), [])
        rollouts = rollouts_by_answer(group) if labels else {}
        preferred = list[Preference]()
        for at, label in labels:
            a, b = (rollouts.get(answer_key(answer), []) for answer in (label.a, label.b))
            if a and b:
                self.used.add(at)
                better, worse = (a, b) if label.label == "a" else (b, a)
                preferred += [(i, j) for i in better for j in worse if i != j and label.label != "tie"]
        return preferred
