"""What becomes of a gate after its last look."""

from collections.abc import Sequence

from harness.comparison.gate_words import gate_sentence
from harness.comparison.look_plan import SIDES
from harness.core.comparisons import ComparedQuery, Comparison
from harness.core.gates import Forecast, GateFinding, GateLook, GateResult
from harness.core.records import AGENT_FAILURES

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
    """Return in words why a gate cannot tell, whatever the interval is: too many rollouts were left out."""
    return tuple(
        f"{100 * share:.0f} % of {labels[side]}'s rollouts failed by the infrastructure's fault, more than "
        f"{100 * _MOST_LEFT_OUT:.0f} %"
        for side in SIDES
        if (share := share_left_out(queries, side)) > _MOST_LEFT_OUT
    )


def share_left_out(queries: Sequence[ComparedQuery], side: int) -> float:
    """Return the share of a side's rollouts that failed by the infrastructure's fault."""
    missing = sum(query.left_out[side] for query in queries if query.left_out)
    taking_part = sum(
        rollout.status == "ok" or rollout.failure in AGENT_FAILURES
        for query in queries
        for rollout in query.rollouts[side]
    )
    return missing / (missing + taking_part) if missing else 0.0
