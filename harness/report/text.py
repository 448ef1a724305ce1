"""Numbers, prices, times and names in the words that people read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from harness.core.cost import Cost
from harness.core.records import percent_half_up
from harness.core.unicode import visible

if TYPE_CHECKING:  # `ls` does without numbers
    from harness.core.rankings import GroupRanking
    from harness.ranking.judge_stats.side_by_side import QueryFigure


_UNKNOWN = "unknown"
SIGNAL_WORDS = {"ok": "clear", "weak": "unclear", "none": "no difference"}
"""What people read for a signal: whether the judging shows a difference among the rollouts of a group."""
_LEAST_P = 0.001
"""Smaller p-values are shown as below it."""
_LARGEST_CLEAR_P = 0.05
"""Above it no version has called a signal clear but for a failure that ranks below all others."""
SELF_TEST = "SELF-TEST on the embedded offline parts: it says nothing of any LLM"
"""What has to be known of figures for which no model was asked."""
EMPTY_ANSWER = "(empty answer)"
"""What stands where people look for the answer of a rollout that ended well without a text."""


def signal_words(ranking: GroupRanking) -> str:
    """Return what people read for the signal of a ranking, with its p-value where it has one."""
    p, words = ranking.p_value, SIGNAL_WORDS[ranking.signal]
    if p is None or ranking.signal == "none":
        return words
    shown = f"p < {_LEAST_P}" if p < _LEAST_P else f"p {p:.{3 if p < 0.1 else 2}f}"
    if ranking.signal == "ok" and p > _LARGEST_CLEAR_P:
        return f"{words} by a failure alone (the others: {shown})"
    return f"{words} ({shown})"


def readable_name(name: str) -> str:
    """Return an identifier with spaces for its underscores."""
    return name.replace("_", " ")


def as_sentence(text: str) -> str:
    """Return `text` with a capital at its beginning and a full stop at its end."""
    return f"{text[:1].upper()}{text[1:]}."


def enumeration(items: Sequence[str]) -> str:
    """Return `a, b and c`; at least one item."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def count(number: int | None) -> str:
    """Return a whole number in groups of three digits; None was not reported."""
    return "not reported" if number is None else f"{number:,}"


def percent(part: int, whole: int) -> str:
    """Return a share in whole per cent; a dash for a share of nothing."""
    return f"{percent_half_up(part / whole)} %" if whole else "\N{EN DASH}"


def probability(p: float | None) -> str:
    """Return a probability in whole per cent; a dash for None. What is not certain is never called 0 or 100 %."""
    if p is None:
        return "\N{EN DASH}"
    if p > 0.99:
        return "> 99 %"
    return "< 1 %" if p < 0.01 else f"{100 * p:.0f} %"


def fixed(number: float | None, decimals: int = 2) -> str:
    """Return a number with so many decimals; nothing for None. What is rounded to 0 has no minus."""
    return "" if number is None else f"{number:z.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def mark(value: float | None) -> str:
    """Return a mark: whole as a judge gives it, with one decimal as a mean, a dash for None."""
    if value is None:
        return "\N{EN DASH}"
    return fixed(value, 1) if isinstance(value, float) else str(value)


def signed(number: float | None, decimals: int = 2) -> str:
    """Return a number with its sign, also a plus; nothing for None. What is rounded to 0 has a plus."""
    return "" if number is None else f"{number:+z.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def money(cost: Cost) -> str:
    """Return a price for a sentence without a label for it: an unknown price is `cost unknown`."""
    words = dollars(cost)
    return "cost unknown" if words == _UNKNOWN else words.replace("\N{GREATER-THAN OR EQUAL TO} ", "at least ")


def dollars(cost: Cost | float | None) -> str:
    """Return a price beside its label, in cents; below ten cents with four decimals. None is an unknown one."""
    known = cost.known if isinstance(cost, Cost) else cost or 0.0
    usd = f"${known:.2f}" if known == 0 or known >= 0.1 else f"${known:.4f}"
    if cost is None or (isinstance(cost, Cost) and not cost.exact):
        return f"\N{GREATER-THAN OR EQUAL TO} {usd}" if usd.strip("$0.") else _UNKNOWN
    return usd


def seconds(duration: float | None) -> str:
    """Return a duration in the unit that suits it; nothing for None."""
    if duration is None:
        return ""
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def date(at: datetime) -> str:
    """Return a point in time to the minute, with its zone."""
    return f"{at.day} {at:%B %Y, %H:%M} {at:%Z}".strip()


def beginning(text: str, length: int = 150) -> str:
    """Return the first words of a text on one line, with marks for what is hidden."""
    line = " ".join(visible(text[: 4 * length]).split())
    if len(line) <= length:
        return line
    whole_words, _, _ = line[:length].rpartition(" ")
    return (whole_words or line[:length]) + "\N{HORIZONTAL ELLIPSIS}"


def temperature_words(value: float | None) -> str:
    """Return a temperature; `unknown` for None, as an imported rollout may have it."""
    return "unknown" if value is None else f"{value:g}"


def percent_interval(figure: QueryFigure) -> str:
    """Return a share in whole per cent with its interval, where there is one: `84 % [76, 90]`."""
    return _with_interval(figure, lambda share: str(percent_half_up(share)), " %")


def number_interval(figure: QueryFigure, decimals: int = 2) -> str:
    """Return a figure without its plus, with its interval: `0.62 [0.50, 0.71]`."""
    return _with_interval(figure, lambda number: fixed(number, decimals))


def dollars_interval(figure: QueryFigure) -> str:
    """Return a price with its interval: `$0.0123 [0.0110, 0.0136]`."""
    return _with_interval(figure, lambda usd: dollars(usd).removeprefix("$"), before="$")


def _with_interval(figure: QueryFigure, words: Callable[[float], str], unit: str = "", before: str = "") -> str:
    value = words(figure.value)
    if figure.low is None or figure.high is None or {words(figure.low), words(figure.high)} == {value}:
        return f"{before}{value}{unit}"
    return f"{before}{value}{unit} [{words(figure.low)}, {words(figure.high)}]"
