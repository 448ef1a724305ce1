"""The one sentence that a person takes home from the comparison of two sides."""

from collections.abc import Sequence

from harness.core.comparisons import FEWEST_SHOWING, SideResult, Strength, leaves_out_half
from harness.core.plurals import counted
from harness.core.rounded import round_number, whole_percent


def sentence(result: SideResult) -> str:
    """Return what to take home of two sides, in the words that stdout, the page and a pull request show."""
    b = result.sides[1]
    if not result.queries:
        return f"Nothing was judged: {_why_nothing(result)}."
    low, high = result.interval
    counts = (
        f"{b} better on {result.better:,}, worse on {result.worse:,}, tied on {result.tied:,} of {_queries(result)}"
    )
    preferred = f"preferred {whole_percent(result.win_rate)} % [{whole_percent(low)}, {whole_percent(high)}]"
    conclusions = (_conclusion(result), _bounds(result)) if not _waits(result) else (_what_waits(result),)
    return " ".join(part for part in (f"{counts}: {preferred}.", *conclusions) if part)


def _waits(result: SideResult) -> bool:
    """Tell whether only the open pairs keep a difference from being shown."""
    return result.open_pairs_decide and leaves_out_half(result.clusters, result.interval)


def _what_waits(result: SideResult) -> str:
    pairs = counted(result.unjudged, "pair is", "pairs are")
    low, high = map(whole_percent, result.bounds)
    return f"Not shown while {pairs} open: they leave anything from {low} to {high} % possible."


def _conclusion(result: SideResult) -> str:
    a, b = result.sides
    if direction := result.shown:
        return f"Shown: {b} is {direction} than {a}."
    unit = "queries" if result.clusters == result.queries else "clusters"
    if result.clusters < FEWEST_SHOWING:
        return f"Not shown: fewer than {FEWEST_SHOWING} {unit} show nothing."
    if result.enough_queries is None:
        return "Not shown; there is no difference to show."
    return f"Not shown; about {round_number(result.enough_queries)} queries would show a difference of this size."


def _queries(result: SideResult) -> str:
    clusters = "" if result.clusters == result.queries else f" ({counted(result.clusters, 'cluster')})"
    return f"{result.queries:,}{clusters}"


def _why_nothing(result: SideResult) -> str:
    between = " and ".join(result.sides)
    return f"{_open_pairs(result)} of {between}" if result.unjudged else f"{between} have no pair of samples"


def _bounds(result: SideResult) -> str:
    if not result.unjudged:
        return ""
    low, high = result.bounds
    return f"With {_open_pairs(result)}: {whole_percent(low)} to {whole_percent(high)} %."


def _open_pairs(result: SideResult) -> str:
    return counted(result.unjudged, "open pair")


def sentence_of_many(results: Sequence[SideResult], strengths: Sequence[Strength]) -> str:
    """Return what to take home of more than two sides: their order by strength, and what is shown after Holm."""
    wins = [pair for result in results if (pair := _shown_pair(result))]
    proven = (
        f"Shown after Holm's correction: {', '.join(wins)}."
        if wins
        else "No difference is shown after Holm's correction."
    )
    ordered = sorted(strengths, key=lambda side: (-side.strength.value, side.label))
    return f"By strength: {', '.join(side.label for side in ordered)}. {proven}" if ordered else proven


def _shown_pair(result: SideResult) -> str | None:
    """Name the better side and the worse one, where a difference is shown."""
    a, b = result.sides
    return result.shown and (f"{b} over {a}" if result.shown == "better" else f"{a} over {b}")
