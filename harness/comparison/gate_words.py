"""What a gate says to people: the forecast before anything is spent, and the line at the end."""

from harness.core.gates import Forecast, GateResult
from harness.core.rounded import percent_half_up, round_number, whole_percent
from harness.core.wording import counted

_UNLIKELY = 0.5
_MOST_DECIMALS = 3


def forecast_sentences(
    forecast: Forecast, label: str = "B", *, looks: int = 1, concluded: bool = False
) -> tuple[str, ...]:
    """Return how probably an equal agent passes; below 50 % also how many queries would do.

    `looks` are those that were asked for. A gate that has `concluded` needs no more queries.
    """
    return (*_chance_sentences(forecast, label, concluded=concluded), *_looks_left_out(forecast, looks))


def _looks_left_out(forecast: Forecast, asked: int) -> tuple[str, ...]:
    if forecast.looks >= asked:
        return ()
    return (f"note: {forecast.looks} of {asked} looks are possible with {_queries(forecast)}.",)


def _queries(forecast: Forecast) -> str:
    return f"{counted(forecast.queries, 'query', 'queries')}"


def _chance_sentences(forecast: Forecast, label: str, *, concluded: bool) -> tuple[str, ...]:
    whence = "as the baseline's own pairs spread" if forecast.spread_from == "runs" else "at the default spread"
    first = (
        f"{label} passes in {_chance(forecast.probability)} if {label} is as good as the baseline: "
        f"{_queries(forecast)}, margin {100 * forecast.margin:g} points, {whence} ({forecast.spread:.2f})"
    )
    if concluded or forecast.probability >= _UNLIKELY:
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
    low, high = (_beside(*ends) for ends in zip(look.interval, (0.5 - gate.margin, 0.5), strict=True))
    figures = (
        f"preferred {whole_percent(look.win_rate)} % [{low}, {high}] on {counted(look.queries, 'query', 'queries')}"
    )
    stopped = f" at look {len(gate.looks)} of {gate.planned_looks}" if gate.planned_looks > 1 else ""
    limit = f"{100 * (0.5 - gate.margin):g}"
    if gate.finding == "not worse":
        return f"Passed: {second} is not worse than {first}{stopped}: {figures}, above {limit} %."
    if gate.finding == "worse":
        return f"Failed: {second} is worse than {first}{stopped}: {figures}, below 50 %."
    why = "; ".join(gate.reasons) or f"the interval must end above {limit} %, or below 50 %"
    result = "Passed, since --allow-unsure lets it" if gate.passed else "Failed"
    return f"{result}: the gate cannot tell whether {second} is worse than {first}{stopped}: {figures}; {why}."


def _beside(end: float, limit: float) -> str:
    """Return an end of the interval in per cent, with decimals where it would else read like the limit beside it."""
    if whole_percent(end) == whole_percent(limit):
        for decimals in range(1, _MOST_DECIMALS + 1):
            if (text := f"{100 * end:.{decimals}f}") != f"{100 * limit:.{decimals}f}":
                return text
    return str(whole_percent(end))


def _chance(probability: float) -> str:
    if probability < 0.005:
        return "less than 1 %"
    return "more than 99 %" if probability >= 0.995 else f"{percent_half_up(probability)} %"
