"""Numbers, prices, times and names in the words that people read."""

from collections.abc import Sequence
from datetime import datetime

from harness.transcripts import clean


def words(name: str) -> str:
    """Return a name of ours without its underscores."""
    return name.replace("_", " ")


def sentence(text: str) -> str:
    """Return `text` with a capital at its beginning and a full stop at its end."""
    return f"{text[:1].upper()}{text[1:]}."


def enumeration(items: Sequence[str]) -> str:
    """Return `a, b and c`; at least one item."""
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def count(number: int | None) -> str:
    """Return a whole number in groups of three digits; None was not told."""
    return "not told" if number is None else f"{number:,}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number of things: `1 run`, `2,000 runs`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def percent(part: int, whole: int) -> str:
    """Return a share in whole per cent; a dash for a share of nothing."""
    return f"{100 * part / whole:.0f} %" if whole else "\N{EN DASH}"


def fixed(number: float | None, decimals: int = 2) -> str:
    """Return a number with so many decimals; nothing for None."""
    return "" if number is None else f"{number:.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def signed(number: float | None, decimals: int = 2) -> str:
    """Return a number with its sign, also a plus; nothing for None."""
    return "" if number is None else f"{number:+.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def money(usd: float | None) -> str:
    """Return a price where nothing around it says that it is one; what is not known is called unknown."""
    return "cost unknown" if usd is None else dollars(usd)


def dollars(usd: float | None) -> str:
    """Return a price beside its label: cents, and more of them where there is less than ten."""
    if usd is None:
        return "unknown"
    return f"${usd:.2f}" if usd == 0 or usd >= 0.1 else f"${usd:.4f}"


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
    """Return the first words of a text on one line, cleaned."""
    line = " ".join(clean(text[: 4 * length]).split())
    if len(line) <= length:
        return line
    whole, _, _ = line[:length].rpartition(" ")
    return (whole or line[:length]) + "\N{HORIZONTAL ELLIPSIS}"


def temperature_words(value: float | None) -> str:
    """Return a temperature, or that it is not known: nobody may have told that of an imported rollout."""
    return "unknown" if value is None else f"{value:g}"
