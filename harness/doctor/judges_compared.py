"""Judges on the same pairs, side by side: how often each is right, how far they agree, what a verdict costs."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from harness.core.errors import counted
from harness.doctor.calibration import Calibration, calibration_json
from harness.ranking.judge_stats.agreement import Share, kappa
from harness.report.judge_quality import share_words
from harness.report.terminal.judges import of_cell, usd_cell
from harness.report.text import beginning, signed


def figure_rows(calibrations: Sequence[Calibration]) -> Iterator[list[str]]:
    """Yield what the pairs of each class come to, then all of them, flips, price and time: a cell a judge."""
    by_name = [{row.name: row.pairs_right for row in each.classes()} for each in calibrations]
    for name in dict.fromkeys(name for each in by_name for name in each):
        yield [name, *(of_cell(each.get(name)) for each in by_name)]
    yield ["all pairs right", *(of_cell(each.pairs_right) for each in calibrations)]
    yield ["flips", *(of_cell(each.tally.flips) for each in calibrations)]
    yield ["failed verdicts", *(str(sum(each.failures.values())) for each in calibrations)]
    yield ["cost a verdict", *(usd_cell(each.usd) for each in calibrations)]
    took = [each.seconds for each in calibrations]
    yield ["seconds a verdict", *("" if seconds is None else f"{seconds:.1f}" for seconds in took)]


def agreement_lines(calibrations: Sequence[Calibration]) -> Iterator[str]:
    """Yield for each two judges how often they name the same side, and why verdicts failed."""
    for (i, first), (j, second) in combinations(enumerate(calibrations, 1), 2):
        said = _said(first, second)
        same = Share(sum(a == b for a, b in said), len(said))
        words = "no pair that both judged"
        if said:
            chance = kappa(said)
            words = f"{share_words(same, 'pair')} named alike"
            words += "" if chance is None else f", Cohen's kappa {signed(chance)}"
        yield f"{i} and {j}: {words}"
    for number, each in enumerate(calibrations, 1):
        for reason, times in each.failures.most_common(3):
            yield f"{number}: {counted(times, 'failed verdict')}: {beginning(reason, 200)}"


def judges_compared_json(calibrations: Sequence[Calibration]) -> dict[str, Any]:
    """Return each judge's calibration, and how far each two agree."""
    agreements = [
        {"judges": [i, j], "pairs": len(said), "same": sum(a == b for a, b in said), "kappa": kappa(said)}
        for (i, first), (j, second) in combinations(enumerate(calibrations), 2)
        for said in [_said(first, second)]
    ]
    return {"judges": [calibration_json(each) for each in calibrations], "agreements": agreements}


def _said(first: Calibration, second: Calibration) -> list[tuple[str, str]]:
    """Return what two judges say of the pairs that both judged."""
    theirs = {id(trial.pair): trial.judged_label for trial in second.trials}
    both = ((trial.judged_label, theirs.get(id(trial.pair))) for trial in first.trials)
    return [(a, b) for a, b in both if a and b]
