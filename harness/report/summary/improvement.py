"""What an improvement says in the end: its sentence, and the diff of its texts."""

import difflib
from collections.abc import Mapping

from harness.core.comparisons import Interval, SideResult
from harness.core.errors import counted
from harness.core.improvements import ImproveOutcome, SecondJudge
from harness.core.records import whole_percent


def diff_of(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the unified diff of each part that changed."""
    return "".join(
        line if line.endswith("\n") else f"{line}\n"
        for name, text in before.items()
        for line in difflib.unified_diff(
            text.splitlines(keepends=True), after[name].splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    )


def no_gate_sentence(outcome: ImproveOutcome, why: str) -> str:
    """Return what is said of a candidate that the gate has not judged."""
    return f"{'Not decided' if outcome == 'undecided' else 'No change'}: {why}."


def gate_sentence_of(
    outcome: ImproveOutcome, why: str, best: int, rate: Interval, result: SideResult, second: SecondJudge | None
) -> str:
    """Return what the gate says of the best candidate."""
    won = f"{whole_percent(rate.value)} % [{whole_percent(rate.low)}, {whole_percent(rate.high)}]"
    on = f"on {counted(result.queries, 'held-out query', 'held-out queries')}"
    same = result.length_controlled
    length = f" ({whole_percent(same.value)} % at equal length)" if same else " (what of it is length cannot be told)"
    beat = f"candidate {best} was preferred to the original in {won}{length} {on}"
    match outcome:
        case "better":
            also = f", and the second judge, {second.judge}, agrees" if second else ""
            return f"Better: {beat}{also}."
        case "by length alone":
            return f"Refused: {beat}, but more than half of the lead is its answers' length."
        case "refused by the second judge" if second:
            low, high = map(whole_percent, second.interval)
            prefers = f"{second.judge}, prefers it in {whole_percent(second.win_rate)} % [{low}, {high}]"
            return f"Refused: {beat}, but the second judge, {prefers}: it pleases the training judge alone."
        case "undecided":
            return f"Not decided: {beat}; {why}."
        case _:
            return f"Not shown to be better: {beat}."
