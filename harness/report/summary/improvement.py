"""What an improvement says in the end: its sentence, and the diff of its texts."""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence

from harness.core.errors import counted, option
from harness.core.gates import GateResult
from harness.core.improvements import ImproveOutcome, RoundResult, SecondJudge
from harness.core.records import whole_percent
from harness.report.summary.comparison import rate, win_rate


def diff_of(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the unified diff of each part that changed."""
    return "".join(
        line if line.endswith("\n") else f"{line}\n"
        for name, text in before.items()
        for line in difflib.unified_diff(
            text.splitlines(keepends=True), after[name].splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    )


_REASONS = 5


def why_no_candidate(best: int, chance: float, rounds: Sequence[RoundResult], *, cut_short: bool) -> str:
    """Return why the `best` candidate, better than the original with this `chance`, was not tested."""
    if best:
        return f"candidate {best} is better than the original with {whole_percent(chance)} % probability only"
    if not rounds or any(each.children for each in rounds):
        return f"no better candidate was found{' so far' * cut_short}"
    refused = Counter(why for each in rounds for why in each.refused)
    reasons = [f"{why} ({times:,})" for why, times in refused.most_common(_REASONS)]
    what = f"{refused.total():,} refused: {'; '.join(reasons)}"
    wrote = f"the proposer wrote nothing usable in {counted(len(rounds), 'round')}"
    return f"{wrote}; {what if refused else 'it gave no text'}"


def sentence_of(
    outcome: ImproveOutcome,
    why: str,
    best: int,
    gate: GateResult | None,
    second: SecondJudge | None,
    no_longer: tuple[float, int],
) -> str:
    """Return what is said in the end. `no_longer`: what the best won of how many pairs without a longer answer."""
    if not gate:
        return f"{'Not decided' if outcome == 'undecided' else 'No change'}: {why}."
    result = gate.comparison.results[0]
    won, on = rate(win_rate(gate.looks[-1])), f"on {counted(result.queries, 'held-out query', 'held-out queries')}"
    same = result.length_controlled
    short = f"{no_longer[0]:g} of {counted(no_longer[1], 'pair')} in which its answer is no longer"
    length = f"{whole_percent(same.value)} % at equal length, " if same else ""
    beat = f"candidate {best} was preferred to the original in {won} ({length}{short}) {on}"
    match outcome:
        case "better":
            also = f", and the second judge, {second.judge}, agrees" if second else ""
            return f"Better: {beat}{also}."
        case "by length alone":
            return f"Refused: {beat}, but more than half of the lead is its answers' length."
        case "perhaps by length":
            decide = f"a second judge would decide, {option('gate_judge_model')}"
            return f"Refused: {beat}, and its longer answers may be all that it is preferred for; {decide}."
        case "refused by the second judge" if second:
            prefers = f"{second.judge}, prefers it in {rate(win_rate(second))}"
            return f"Refused: {beat}, but the second judge, {prefers}: it pleases the training judge alone."
        case _:
            return f"Not decided: {beat}; {why}." if outcome == "undecided" else f"Not shown to be better: {beat}."
