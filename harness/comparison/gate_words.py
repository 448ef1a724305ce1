"""What a gate says to people: the forecast before anything is spent, and the line at the end."""

from harness.core.gates import Forecast, GateResult
from harness.core.rounded import round_number, whole_percent

_UNLIKELY = 0.5


def forecast_sentences(forecast: Forecast, label: str = "B") -> tuple[str, ...]:
    """Return how probably an equal agent passes; below 50 % also how many queries would do."""
    whence = "as the baseline's own pairs spread" if forecast.spread_from == "runs" else "at the default spread"
    queries = f"{forecast.queries} {'query' if forecast.queries == 1 else 'queries'}"
    first = (
        f"{label} passes in {_chance(forecast.probability)} if {label} is as good as the baseline: {queries}, "
        f"margin {100 * forecast.margin:g} points, {whence} ({forecast.spread:.2f})"
    )
    if forecast.probability >= _UNLIKELY:
        return (f"{first}.",)
    if forecast.queries_desired is None:
        more = "no number of queries below a million makes that 80 %: widen --margin"
    else:
        more = f"about {round_number(forecast.queries_desired)} queries, or a wider --margin, make that 80 %"
    return (f"{first}.", f'warning: this gate will mostly say "cannot tell"; {more}.')


def gate_sentence(gate: GateResult) -> str:
    """Return the last line of a gate: what it says of the second side, the figures, and why."""
    look = gate.looks[-1]
    first, second = (side.label for side in gate.comparison.sides[:2])
    rate, low, high = map(whole_percent, (look.win_rate, *look.interval))
    figures = f"preferred {rate} % [{low}, {high}] on {look.queries} queries"
    stopped = f" at look {len(gate.looks)} of {gate.planned_looks}" if gate.planned_looks > 1 else ""
    limit = f"{100 * (0.5 - gate.margin):g}"
    if gate.finding == "not worse":
        return f"Passed: {second} is not worse than {first}{stopped}: {figures}, above {limit} %."
    if gate.finding == "worse":
        return f"Failed: {second} is worse than {first}{stopped}: {figures}, below 50 %."
    why = "; ".join(gate.reasons) or f"the interval must end above {limit} %, or below 50 %"
    result = "Passed, since --allow-unsure lets it" if gate.passed else "Failed"
    return f"{result}: the gate cannot tell whether {second} is worse than {first}{stopped}: {figures}; {why}."


def _chance(probability: float) -> str:
    if probability < 0.005:
        return "less than 1 %"
    return "more than 99 %" if probability >= 0.995 else f"{whole_percent(probability)} %"
