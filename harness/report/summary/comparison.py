"""A comparison: its figures in words, of each two sides and of each side, and the queries that a side lost."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.comparisons import ComparedQuery, Comparison, Interval, PeoplesRate, SideFigures, SideResult
from harness.core.errors import counted, round_number
from harness.core.gates import InterimAnalysis
from harness.core.improvements import SecondJudge
from harness.core.records import percent_half_up, whole_percent
from harness.report.text import count, fixed, signed


@dataclass(frozen=True)
class MetQuery:
    """A query on which two sides met, and how the second one did."""

    query: ComparedQuery
    pairs: int
    """Pairs of samples that count."""
    outcome: float
    """Their mean outcome: 1 if the second side won all of them."""
    margin: float | None
    """Mean score of the second side above the first one's; None without scores."""
    flipped: bool
    """Whether the order shown decided one of the pairs."""

    @property
    def won(self) -> str:
        """How many pairs the second side won, ties as halves: `1.5 of 2`."""
        return f"{fixed(self.outcome * self.pairs, 1).removesuffix('.0')} of {self.pairs:,}"

    @property
    def margin_words(self) -> str:
        """The margin; `failed` where no pair has scores."""
        return "failed" if self.margin is None else signed(self.margin)

    @property
    def name(self) -> str:
        """The query's id, or its ids where the sides call the query by different ones."""
        return " / ".join(dict.fromkeys(self.query.ids))


def met_queries(queries: Iterable[ComparedQuery], sides: tuple[int, int]) -> list[MetQuery]:
    """Return the queries with a pair that counts, the second side's worst first; failures come before margins."""
    met: list[MetQuery] = []
    for query in queries:
        if (outcome := query.outcome(sides)) is not None:
            pairs = [match for match in query.pairs(sides) if match.outcome is not None]
            scores = [(match.score_first, match.score_second) for match in pairs]
            margins = [second - first for first, second in scores if first is not None and second is not None]
            margin = sum(margins) / len(margins) if margins else None
            met.append(MetQuery(query, len(pairs), outcome, margin, any(match.flipped for match in pairs)))
    return sorted(met, key=lambda m: (m.outcome, float("-inf") if m.margin is None else m.margin))


def losses(comparison: Comparison, result: SideResult, queries: Iterable[ComparedQuery]) -> list[MetQuery]:
    """Return the queries that the second side of a result lost, worst first."""
    return [met for met in met_queries(queries, places_of(comparison, result)) if met.outcome < 0.5]


def places_of(comparison: Comparison, result: SideResult) -> tuple[int, int]:
    """Return the places of a result's two sides in the comparison."""
    labels = [side.label for side in comparison.sides]
    return labels.index(result.sides[0]), labels.index(result.sides[1])


_HALF_END, _ALMOST_ALL_END = "half end within", "95 % end within"
_UNKNOWN = "\N{EN DASH}"


@dataclass(frozen=True)
class ResultFigure:
    """A figure of one side against another, and what it says in a few words."""

    label: str
    value: str
    meaning: str
    is_rate: bool = False
    """Whether it is a win rate with its interval, as a forest plot shows it."""


def rate(interval: Interval) -> str:
    """Return a share with its interval: `62 % [42, 80]`."""
    return _bracketed(interval, lambda share: str(whole_percent(share)), "{} %")


def win_rate(result: SideResult | InterimAnalysis | SecondJudge) -> Interval:
    """Return the win rate with its interval as one record."""
    low, high = result.interval
    return Interval(value=result.win_rate, low=low, high=high)


def pairing_cells(result: SideResult) -> tuple[str, ...]:
    """Return win rate, queries better, worse and tied, and p, of two sides among several; dashes without a pair."""
    if not result.pairs:
        return (_UNKNOWN,) * 5
    p = chance_words(result.p if result.p_holm is None else result.p_holm)
    by_people = f"; by people {rate(result.people.rate)}" if result.people and result.people.rate else ""
    return rate(win_rate(result)) + by_people, str(result.better), str(result.worse), str(result.tied), p


def chance_words(p: float) -> str:
    """Return a p value: three decimals, and never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def result_figures(r: SideResult) -> Iterator[ResultFigure]:
    """Yield what one side's matches against another say; figures that there are not are left out."""
    first, second = r.sides
    if r.pairs:
        of = f"of {counted(r.pairs, 'pair')}; {method_words(r)}"
        yield ResultFigure("win rate", rate(win_rate(r)), of, is_rate=True)
    if r.people and r.people.rate:
        yield from _of_people(r.people, r.people.rate)
    if r.margin:
        yield ResultFigure("mean margin", _bracketed(r.margin, signed), f"score points by which {second} leads {first}")
    if same := r.length_controlled:
        lead, nearest = r.win_rate - 0.5, same.low if r.win_rate > 0.5 else same.high
        gone = r.shown and (same.value - 0.5) / (lead or 1) < 0.5 and (nearest - 0.5) * lead <= 0
        equal = "most of the lead is gone: length may have won it" if gone else "if the answers were equally long"
        yield ResultFigure("at equal length", rate(same), equal, is_rate=True)
    if r.without_forfeits:
        failed = f"{first} failed in {counted(r.forfeits[0], 'pair')}, {second} in {r.forfeits[1]}"
        yield ResultFigure("without failures", rate(r.without_forfeits), failed, is_rate=True)
    if r.anchors:
        yield ResultFigure("anchors", rate(r.anchors), "rollout 0 of both; not in the win rate", is_rate=True)
    if r.run_together is False:
        yield ResultFigure("time", _UNKNOWN, f"not comparable: {first} and {second} were not run at the same time")
    for label, slower in ((_HALF_END, r.slower_p50), (_ALMOST_ALL_END, r.slower_p95)):
        if slower:
            later = _bracketed(slower, signed, "{} s")
            yield ResultFigure(label, later, f"of {second}, less that of {first}; both were run at the same time")
    yield from _doubts(r)


def _of_people(people: PeoplesRate, value: Interval) -> Iterator[ResultFigure]:
    """Yield what people would say, and how far the judge says the same."""
    more = ""
    if people.more_labels:
        more = f"; about {round_number(people.more_labels)} more narrow it to 5 points"
    labels, alone = counted(people.labels, "labelled pair"), count(round(people.effective_labels or 0))
    yield ResultFigure("people", rate(value), f"as {labels} say, worth {alone} without the judge{more}", is_rate=True)
    if people.agreement:
        yield ResultFigure("judge agrees", rate(people.agreement), "with people, of the labelled pairs")


def method_words(r: SideResult) -> str:
    """Return how the intervals of a result were made, and over how many units."""
    return f"95 % interval ({'t' if r.method == 't' else 'bootstrap'}) over {_units(r)}"


def _units(r: SideResult) -> str:
    return counted(r.queries, "query", "queries") if r.clusters == r.queries else counted(r.clusters, "cluster")


def _doubts(r: SideResult) -> Iterator[ResultFigure]:
    if r.pairs:
        yield ResultFigure("p", chance_words(r.p), "how often chance alone gives as much")
    if r.pairs and r.p_holm is not None:
        yield ResultFigure("p by Holm", chance_words(r.p_holm), "corrected for the number of comparisons")
    if r.both_orders:
        flips = f"{count(r.flips)} of {count(r.both_orders)}"
        yield ResultFigure("changed with order", flips, "pairs where the order shown decided")
    if r.unjudged:
        low, high = (f"{whole_percent(bound)} %" for bound in r.bounds)
        yield ResultFigure("open pairs", count(r.unjudged), f"all lost, the win rate is {low}; all won, {high}")
    if r.detectable is not None:
        points = f"{100 * r.detectable:.0f} points"
        yield ResultFigure("shown from", points, f"what {_units(r)} show with power 0.8")
    if (needed := r.deciding_queries) is not None:
        about = f"about {round_number(needed)}"
        yield ResultFigure("queries needed", about, "to show this difference, or none above 5 points")
    if r.floor is not None:
        source = f"{r.sides[0]} against itself" if r.floor_from == "runs" else "a stated default"
        yield ResultFigure("noise floor", fixed(r.floor), f"spread of equal agents; {source}")


@dataclass(frozen=True)
class SidesRow:
    """A figure of every side, in the order of the sides."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class StrengthRow:
    """A side among more than two: strength, cost, time and time by which 95 % end, and who beats it in all of them."""

    label: str
    values: tuple[str, ...]
    beaten_by: tuple[str, ...]


def strength_rows(comparison: Comparison) -> list[StrengthRow]:
    """Return the sides by strength, the strongest first; none of two sides."""
    figures = {side.label: side for side in comparison.figures}
    rows: list[StrengthRow] = []
    for side in sorted(comparison.strengths, key=lambda side: -side.strength.value):
        took = figures[side.label]
        values = (_bracketed(side.strength, signed), _cost(took), _time(took.duration_s), _time(took.duration_p95))
        rows.append(StrengthRow(side.label, tuple(value or _UNKNOWN for value in values), side.beaten_by))
    return rows


def _cost(side: SideFigures) -> str:
    least = _usd(side.usd_at_least)
    return f"\N{GREATER-THAN OR EQUAL TO} {least}" if least else _usd(side.usd)


def _time(interval: Interval | None) -> str:
    return _with(interval, lambda seconds: f"{seconds:,.1f}", "{} s")


def _usd(interval: Interval | None) -> str:
    decimals = 2 if interval is None or interval.value == 0 or interval.value >= 0.1 else 4
    return _with(interval, lambda usd: fixed(usd, decimals), "${}")


def sides_rows(figures: Sequence[SideFigures]) -> list[SidesRow]:
    """Return the figures of the sides beside each other; a figure that no side has is left out."""
    values: tuple[tuple[str, Callable[[SideFigures], str]], ...] = (
        ("rollouts", lambda side: count(side.rollouts)),
        ("failed", lambda side: _with(side.failed, lambda share: str(percent_half_up(share)), "{} %")),
        ("left out", lambda side: count(side.left_out) if side.left_out else ""),
        ("cost a rollout", _cost),
        ("tokens a rollout", lambda side: _with(side.tokens, lambda n: f"{n:,.0f}")),
        ("time a rollout", lambda side: _time(side.duration_s)),
        (_HALF_END, lambda side: _time(side.duration_p50)),
        (_ALMOST_ALL_END, lambda side: _time(side.duration_p95)),
        ("steps a rollout", lambda side: _with(side.steps, lambda n: f"{n:.1f}")),
        ("reward()", lambda side: _with(side.passed, fixed)),
    )
    rows = [(label, [value_of(side) for side in figures]) for label, value_of in values]
    return [SidesRow(label, tuple(v or _UNKNOWN for v in cells)) for label, cells in rows if any(cells)]


def _with(interval: Interval | None, number: Callable[[float], str], unit: str = "{}") -> str:
    return _bracketed(interval, number, unit) if interval else ""


def _bracketed(interval: Interval, number: Callable[[float], str], unit: str = "{}") -> str:
    """Return a figure with its unit, and the ends of its interval without."""
    return f"{unit.format(number(interval.value))} [{number(interval.low)}, {number(interval.high)}]"
