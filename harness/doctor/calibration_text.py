"""What a calibration says, in lines for people and as JSON."""

from collections.abc import Iterator
from typing import Any

from harness.doctor.calibration import Calibration, Trial
from harness.report import beginning, first_wins_meaning, share_json, share_words, signed


def calibration_lines(found: Calibration) -> list[str]:
    """Return how often the judge is right, how far it leans to a side, and where it fails."""
    return [*_rightness(found), *_position(found), *_weaknesses(found)]


def _rightness(found: Calibration) -> Iterator[str]:
    if not found.right.whole:
        yield "no pair could be judged"
        return
    yield f"right, both orders together: {share_words(found.right, 'pairs')}"
    yield f"right, each verdict alone: {share_words(found.single, 'verdicts')}"
    if found.kappa is None:
        yield "Cohen's kappa is not defined: all labels, and all that the judge says, are alike"
    else:
        yield f"Cohen's kappa with the labels: {signed(found.kappa)} (1: full agreement, 0: chance)"


def _position(found: Calibration) -> Iterator[str]:
    t = found.tally
    if t.flips.whole:
        yield f"flips: {share_words(t.flips, 'pairs')} name another winner in the other order"
    if t.first_wins.whole:
        yield f"first shown wins: {share_words(t.first_wins, 'decided verdicts')}; {first_wins_meaning(t)}"
    if found.bias:
        yield f"standing first is worth {signed(found.bias[0])} points (standard error {found.bias[1]:.2f})"


def _weaknesses(found: Calibration) -> Iterator[str]:
    wrong = [
        f"{row.name} ({row.right.whole - row.right.part} of {row.right.whole})"
        for row in found.classes()
        if row.right.part < row.right.whole
    ]
    if wrong:
        yield f"wrong on: {', '.join(wrong)}"
    for reason, times in found.failures.most_common(3):
        yield f"{times} x failed verdict: {beginning(reason, 200)}"


def calibration_json(found: Calibration) -> dict[str, Any]:
    """Return a calibration for machines, with every pair's label and what the judge said of it."""
    t = found.tally
    return {
        "judge": found.judge,
        "rubric": found.rubric,
        "pairs": found.asked,
        "judged": found.right.whole,
        "accuracy": share_json(found.right),
        "single_verdicts": share_json(found.single),
        "kappa": found.kappa,
        "flips": share_json(t.flips),
        "first_wins": share_json(t.first_wins),
        "first_side": {"points": found.bias[0], "standard_error": found.bias[1]} if found.bias else None,
        "classes": {
            row.name: {
                "pairs": row.pairs,
                "right": row.right.part,
                "failed": row.failed,
                "ties": row.ties,
                "single_verdicts": share_json(row.single),
            }
            for row in found.classes()
        },
        "failures": dict(found.failures),
        "trials": [_trial(trial) for trial in found.trials],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    scores = [float(s) for s in trial.scores] if trial.scores else None
    return {
        "class": trial.pair.group,
        "query": trial.pair.query,
        "label": trial.pair.label,
        "said": trial.said,
        "scores": scores,
        "by_order": list(trial.by_order),
    }
