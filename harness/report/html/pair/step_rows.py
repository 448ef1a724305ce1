"""Both paths of a pair in rows: the same step of both side by side, and between those the steps that differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from harness.core.records import Rollout
from harness.report.html.excerpts import Excerpt, ExcerptStep, ExcerptText
from harness.report.summary.why.paths import aligned_steps

_SAME = "the same as on the other side"


@dataclass(frozen=True)
class StepRow:
    """A row: a step of each path with the steps inside of it; empty where one path has no more steps there."""

    a: tuple[ExcerptStep, ...]
    b: tuple[ExcerptStep, ...]
    same: bool
    """Whether both took this step, by tool and input."""


def step_rows(rollouts: tuple[Rollout, Rollout], shown: tuple[Excerpt, Excerpt]) -> list[StepRow]:
    """Return the rows of two paths; a text that both sides have stands once."""
    ours, theirs = (_by_step(excerpt) for excerpt in shown)
    places = aligned_steps(*(rollout.trajectory.path for rollout in rollouts))
    rows: list[StepRow] = []
    for same, run in groupby(places, key=lambda place: None not in place):
        several = list(run)
        left, right = ([ours[i] for i, _ in several if i is not None], [theirs[j] for _, j in several if j is not None])
        rows += [StepRow(a, _without_doubles(a, b), same) for a, b in zip_longest(left, right, fillvalue=())]
    return rows


def _by_step(excerpt: Excerpt) -> list[tuple[ExcerptStep, ...]]:
    """Return the steps, each with those inside of it: 2 with 2.1 and 2.2."""
    groups = groupby(excerpt.steps, key=lambda step: step.number.partition(".")[0])
    return [tuple(steps) for _, steps in groups]


def _without_doubles(a: Sequence[ExcerptStep], b: Sequence[ExcerptStep]) -> tuple[ExcerptStep, ...]:
    there = {text for step in a for text in step.texts if text.folded}
    return tuple(replace(step, texts=tuple(_once(text, there) for text in step.texts)) for step in b)


def _once(text: ExcerptText, there: set[ExcerptText]) -> ExcerptText:
    return ExcerptText(text.label, _SAME) if text in there else text
