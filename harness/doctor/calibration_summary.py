"""What a calibration shows of the judge, in lines for people and as JSON."""

from collections.abc import Iterator

from harness.core.verdicts import Judged
from harness.doctor.calibration import Calibration
from harness.report.json import share_json
from harness.report.judge_quality import first_wins_meaning, share_words
from harness.report.text import beginning, signed

_LISTED = 10
"""Wrong pairs that are listed one by one."""


def calibration_lines(calibration: Calibration) -> Iterator[str]:
    """Yield how often the judge is right, how far it leans to a side, and where it fails."""
    if not calibration.pairs_right.whole:
        yield "no pair could be judged"
    else:
        yield f"right, both orders together: {share_words(calibration.pairs_right, 'pair')}"
        if identical := calibration.identical_pairs:
            pairs, are = ("pair", "is") if identical == 1 else ("pairs", "are")
            yield f"{identical} {pairs} of equal texts {are} judged once, and right where that verdict calls a tie"
        yield f"right, each verdict alone: {share_words(calibration.verdicts_right, 'verdict')}"
        if calibration.kappa is None:
            yield "Cohen's kappa is not defined: all labels, and all the judge's winners, are alike"
        else:
            yield f"Cohen's kappa with the labels: {signed(calibration.kappa)} (1: full agreement, 0: chance)"
    tally = calibration.tally
    if tally.flips.whole:
        yield f"flips: {share_words(tally.flips, 'pair')} name another winner in the other order"
    if tally.first_wins.whole:
        yield f"first shown wins: {share_words(tally.first_wins, 'decided verdict')}; {first_wins_meaning(tally)}"
    if calibration.bias:
        points, error = calibration.bias
        yield f"standing first is worth {signed(points)} points (standard error {error:.2f})"
    yield from _weaknesses(calibration)


def _weaknesses(calibration: Calibration) -> Iterator[str]:
    shares = [(row.name, row.pairs_right) for row in calibration.classes()]
    wrong = [f"{name} ({s.whole - s.part} of {s.whole})" for name, s in shares if s.part < s.whole]
    if wrong:
        yield f"wrong on: {', '.join(wrong)}"
        yield from _wrong_pairs(calibration)
    for reason, times in calibration.failures.most_common(3):
        yield f"{times} x failed verdict: {beginning(reason, 200)}"


def _wrong_pairs(calibration: Calibration) -> Iterator[str]:
    """Yield each pair that the judge got wrong, with what the judge said of it in each order."""
    trials = [trial for trial in calibration.trials if trial.judged_label and not trial.is_right]
    for trial in trials[:_LISTED]:
        a, b = trial.scores or (0, 0)
        pair = trial.pair
        label = "two equal texts" if trial.is_identical else f"labelled {pair.label}"
        yield (
            f'- {pair.group}, "{beginning(pair.query, 60)}": {label}, judged {trial.judged_label} '
            f"({float(a):g} v {float(b):g})"
        )
        orders = (("a", "b", trial.a_first), ("b", "a", trial.b_first))
        for first, second, verdict in orders[:1] if trial.is_identical else orders:
            sides = {"A": first, "B": second}  # the judge speaks of the side shown first as A
            analysis = verdict.analysis if isinstance(verdict, Judged) else dict[str, str]()
            named = ((*name.rpartition("_")[::2], text) for name, text in analysis.items())
            remarks = [f"{what} of {sides[side]}: {text}" if side in sides else text for what, side, text in named]
            if remarks:
                yield f"    {first} shown first: {beginning('; '.join(remarks), 300)}"
    if len(trials) > _LISTED:
        yield f"- and {len(trials) - _LISTED} more; --json has all"


def calibration_json(calibration: Calibration) -> dict[str, object]:
    """Return a calibration for machines, with every pair's label and the judge's."""
    tally, bias = calibration.tally, calibration.bias
    return {
        "judge": calibration.judge,
        "rubric": calibration.rubric,
        "pairs": len(calibration.pairs),
        "judged": calibration.pairs_right.whole,
        "accuracy": share_json(calibration.pairs_right),
        "single_verdicts": share_json(calibration.verdicts_right),
        "kappa": calibration.kappa,
        "flips": share_json(tally.flips),
        "first_wins": share_json(tally.first_wins),
        "first_side": {"points": bias[0], "standard_error": bias[1]} if bias else None,
        "classes": {
            row.name: {
                "pairs": row.pairs,
                "right": row.pairs_right.part,
                "failed": row.failed,
                "ties": row.ties,
                "single_verdicts": share_json(row.verdicts_right),
            }
            for row in calibration.classes()
        },
        "failures": dict(calibration.failures),
        "trials": [
            {
                "class": trial.pair.group,
                "query": trial.pair.query,
                "label": trial.pair.label,
                "identical": trial.is_identical,
                "said": trial.judged_label,
                "scores": [float(s) for s in trial.scores] if trial.scores else None,
                "by_order": list(trial.labels_by_order),
                "right": trial.is_right if trial.judged_label else None,
                "analyses": [v.analysis if isinstance(v, Judged) else None for v in (trial.a_first, trial.b_first)],
            }
            for trial in calibration.trials
        ],
    }
