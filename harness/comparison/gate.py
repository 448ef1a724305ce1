"""What becomes of a gate after its last look."""

from collections.abc import Sequence

from harness.comparison.gate_words import gate_sentence
from harness.core.comparisons import ComparedQuery, Comparison
from harness.core.gates import Forecast, GateFinding, GateLook, GateResult
from harness.core.wording import counted

_MOST_LEFT_OUT = 0.1
"""The share of a side's rollouts that the infrastructure may have failed."""


def conclude_gate(
    comparison: Comparison,
    queries: Sequence[ComparedQuery],
    looks: Sequence[GateLook],
    forecast: Forecast,
    *,
    planned_looks: int,
    allow_unsure: bool,
) -> GateResult:
    """Return what a gate says after its last look, and whether it is passed."""
    reasons = reasons_to_doubt(queries, [side.label for side in comparison.sides])
    verdict: GateFinding = "cannot tell" if reasons else looks[-1].finding
    gate = GateResult(
        finding=verdict,
        passed=verdict == "not worse" or (verdict == "cannot tell" and allow_unsure),
        sentence="",
        margin=forecast.margin,
        reasons=reasons,
        forecast=forecast,
        looks=tuple(looks),
        planned_looks=planned_looks,
        comparison=comparison,
    )
    return gate.model_copy(update={"sentence": gate_sentence(gate)})


def reasons_to_doubt(queries: Sequence[ComparedQuery], labels: Sequence[str]) -> tuple[str, ...]:
    """Say of which sides the infrastructure failed so many rollouts that the others tell nothing."""
    return tuple(doubt for side, label in enumerate(labels) if (doubt := _doubt(queries, side, label)))


def _doubt(queries: Sequence[ComparedQuery], side: int, label: str) -> str | None:
    lost = sum(query.left_out[side] for query in queries if query.left_out)
    whole = lost + sum(len(query.rollouts[side]) for query in queries)
    if lost <= _MOST_LEFT_OUT * whole:
        return None
    failed = f"{lost:,} of {counted(whole, 'rollout')}"
    return f"the infrastructure failed {failed} of {label}, more than {100 * _MOST_LEFT_OUT:.0f} %"
