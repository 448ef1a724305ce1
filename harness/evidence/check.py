"""Looks each claim of an answer up in the tool outputs, the query and the reference, without any model."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Literal

from harness.core.python_door import of_kind, plain_door
from harness.core.records import Query, Rollout, Step, Trajectory
from harness.evidence.claims import MOST_PLACES, ClaimKind, FoundClaim, find_claims, fold, holds
from harness.evidence.quantities import DATE_IN_WORDS, QUANTITY, Day, Quantity, from_base, in_base, read_quantity

ClaimState = Literal["supported", "derivable", "unsupported"]

MOST_CANDIDATES = 20
"""Numbers from which a claim may be derived: among many, nearly every number is the sum or difference of two."""
_FARTHEST = 0.05
"""By how much of itself a rounded number may differ from what it was."""
_COMMON = 200
"""A word in more rows than these says nothing of which row a claim is about."""
_MOST_BEFORE = 400
"""Characters of a claim's sentence that are read before and behind the claim."""

_QUANTITIES = re.compile(QUANTITY)
_DATES = re.compile(DATE_IN_WORDS)
_ROW_END = re.compile(r"[\n}.!?](?:(?<=\n)(?![a-z])|(?<=})|(?<![\n}])\s)")
"""The end of a sentence, of a line that goes on in no lower case, of an object of JSON."""
_WORDS = re.compile(r"\w{2,40}")
_JSON_FRAME = re.compile(r'"[\w -]{1,80}" ?:|"')
"""A key, or the quotation mark of a value."""
_IN_URL = re.compile(r"[\w/%=&#?~+@-]")


@dataclass(frozen=True)
class Claim:
    """A claim of an answer that can be looked up, and what became of it."""

    text: str
    """As it stands in the answer."""
    kind: ClaimKind
    state: ClaimState
    step: int | None
    """The number, from 1, of the output that holds it, or that it derives from. None where only the query or the
    reference does, and where nothing does."""
    start: int
    """Where it begins in the answer, in characters."""


def _texts(value: Any) -> str | None:
    is_list = isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)  # pyright: ignore[reportUnknownVariableType]
    return None if is_list else "give a list of texts, one for each tool output"


_TEXT = of_kind(str, instead="give a text")
_RULES = {
    "answer": _TEXT,
    "outputs": _texts,
    "reference": of_kind(str, instead="give a text, or None", optional=True),
    "rollout": of_kind(Rollout, instead="give a harness.Rollout, as run.rollouts() has them"),
}


@partial(plain_door, rules=_RULES | {"query": _TEXT})
def check_evidence(answer: str, outputs: Sequence[str], query: str = "", reference: str | None = None) -> list[Claim]:
    """Return the claims of an answer, each supported, derivable or unsupported; `outputs` are those of the tools.

    A claim is a number with a unit (or of three digits or more), a date, a time, a quotation of three words or more, an
    address, a file's name, a name of code, or a citation such as [3]. It is supported where the same stands in an
    output, the query or the reference: 1,200 = 1.2k = 1.2 thousand, 41 % = 41 percent, 12 May 2024 = 2024-05-12. It is
    derivable where it rounds a number, is one in another unit, or the sum, difference or share of two numbers of one
    unit in one sentence or row, among at most 20 numbers, those whose sentences share the most words with the claim's.
    Numbers in words and signs do not count. The time is in proportion to the texts. Raises UsageError for an argument
    that is no text.
    """
    texts = [*enumerate(outputs, 1), (None, query), (None, reference or "")]
    sources = [_Source(text, step) for step, text in texts if text]
    derivations = _Derivations(sources)
    found_in: dict[object, _Source | None] = {}
    checked: list[Claim] = []
    for claim in find_claims(answer):
        key = claim.kind, claim.needles, claim.quantity
        if key not in found_in:
            found_in[key] = next((source for source in sources if source.has(claim)), None)
        source = found_in[key]
        found = ("supported", source.step) if source else derivations.find(claim, answer)
        checked.append(Claim(claim.text, claim.kind, *found, claim.start))
    return checked


def check_trajectory(trajectory: Trajectory, reference: str | None = None) -> list[Claim] | None:
    """Return the checked claims of a trajectory's answer; None where its tools' outputs are not there to look in.

    That is without a tool output, and where a hosted tool left no output in the record. Of an answer in JSON only the
    values hold claims.
    """
    outputs = ["\n".join(_outputs(step)) for step in trajectory.path]
    if not any(outputs) or any(
        s.tool_type == "hosted" and not out for s, out in zip(trajectory.path, outputs, strict=True)
    ):
        return None
    answer = trajectory.answer
    if trajectory.answer_type == "json":
        answer = _JSON_FRAME.sub(lambda frame: " " * len(frame[0]), answer)
    return check_evidence(answer, outputs, trajectory.query, reference)


@partial(plain_door, rules=_RULES | {"query": of_kind(Query, instead="give a harness.Query, as run.queries has them")})
def evidence_reward(rollout: Rollout, query: Query) -> float | None:
    """Return the share, 0 to 1, of a rollout's claims that are supported or derivable: a reward for trainers.

    None without claims, and where the tools' outputs are not in the record. Raises UsageError for what is no rollout
    or no query.
    """
    claims = check_trajectory(rollout.trajectory, query.reference)
    return sum(claim.state != "unsupported" for claim in claims) / len(claims) if claims else None


def _outputs(step: Step) -> Iterator[str]:
    """Yield what the tools of a step gave, those inside it, too."""
    for inner in step.inner:
        yield from _outputs(inner)
    yield from filter(None, (step.tool_output if step.kind == "tool" else None, step.error))


class _Source:
    """A text to look in, and what it holds, read when it is first asked for."""

    def __init__(self, text: str, step: int | None) -> None:
        self.text, self.step = text, step

    @cached_property
    def rows(self) -> list[tuple[str, list[Quantity]]]:
        """Its sentences, lines and objects of JSON that hold numbers."""
        rows: list[tuple[str, list[Quantity]]] = []
        for row in _ROW_END.split(self.text):
            if written := _QUANTITIES.findall(row):
                read = map(read_quantity, written)
                rows.append((row, [quantity for quantity in read if quantity]))
        return rows

    @cached_property
    def units(self) -> dict[float, set[str]]:
        """By value the units in which it stands: "" for none, "noun" where a word tells what is counted."""
        units = defaultdict[float, set[str]](set)
        for _, quantities in self.rows:
            for quantity in (quantity for quantity in quantities if not math.isnan(quantity.value)):
                units[quantity.value].add(quantity.unit or ("noun" if quantity.noun else ""))
        return units

    @cached_property
    def days(self) -> set[Day]:
        """The days, and the months and years that they are in."""
        days = set[Day]()
        read = [quantity for _, quantities in self.rows for quantity in quantities]
        read += filter(None, map(read_quantity, _DATES.findall(self.text)))
        for year, month, day in (day for quantity in read for day in quantity.days):
            days |= {(year, month, day), (year, month, None), (year, None, None), (None, month, day)}
        return days

    @cached_property
    def clocks(self) -> set[str]:
        return {quantity.clock for _, quantities in self.rows for quantity in quantities if quantity.clock}

    @cached_property
    def folded(self) -> str:
        return fold(self.text)

    @cached_property
    def lower(self) -> str:
        return self.text.lower()

    def has(self, claim: FoundClaim) -> bool:
        """Return whether the claim stands in it."""
        if claim.quantity:
            return self._has_quantity(claim.quantity)
        if claim.kind == "quotation":
            return holds(self.folded, claim.needles)
        if claim.kind == "citation":
            return all(needle in self.text for needle in claim.needles)
        text = self.lower if claim.kind in {"url", "email"} else self.text
        ends = _ends_url if claim.kind == "url" else _ends_word
        return any(ends(text, at, at + len(claim.needles[0])) for at in _places(text, claim.needles[0]))

    def _has_quantity(self, quantity: Quantity) -> bool:
        if quantity.clock and not quantity.days:
            return quantity.clock in self.clocks
        if quantity.days:
            return any(map(self._has_day, quantity.days)) or (
                quantity.value == quantity.value and quantity.value in self.units
            )
        units = self.units.get(quantity.value, ())
        return bool(units) and (quantity.unit is None or quantity.unit in units or "" in units)

    def _has_day(self, day: Day) -> bool:
        year, month, _ = day
        if month == 0 and year:
            return any((year + later, None, None) in self.days for later in range(10))
        return day in self.days


def _places(text: str, needle: str) -> Iterator[int]:
    """Yield where a needle stands, MOST_PLACES at most: a hostile text may hold it in every word."""
    at = -1
    for _ in range(MOST_PLACES):
        if (at := text.find(needle, at + 1)) < 0:
            return
        yield at


def _ends_word(text: str, start: int, end: int) -> bool:
    """Return whether a name stands there by itself, and is no part of a longer one."""
    before, behind = text[max(0, start - 1) : start], text[end : end + 2]
    longer = behind[:1].isalnum() or behind[:1] in {"_", "@"} or (behind[:1] in {".", "-"} and behind[1:].isalnum())
    return not (before.isalnum() or before in {"_", "-", "@"} or (before == "." and start > 1)) and not longer


def _ends_url(text: str, start: int, end: int) -> bool:
    """Return whether an address stands there whole; a host alone stands in every address of it."""
    before, behind = text[max(0, start - 4) : start], text[end : end + 2]
    if before[-1:].isalnum() or before[-1:] in {"-", "_", "@"} or (before[-1:] == "." and before != "www."):
        return False
    if "/" not in text[start:end] and behind[:1] in {"/", "?", "#"}:
        return True
    if behind[:1] in {"/", ".", ",", ";", ":", "!", "?"}:
        return not _IN_URL.match(behind[1:])
    return behind[:1] == "#" or not _IN_URL.match(behind)


class _Derivations:
    """Finds what a number of an answer may derive from: the sentences and rows nearest to it in words."""

    def __init__(self, sources: Sequence[_Source]) -> None:
        self._sources = sources

    @cached_property
    def _rows(self) -> list[tuple[_Source, list[Quantity]]]:
        return [(source, quantities) for source in self._sources for _, quantities in source.rows]

    @cached_property
    def _rows_by_word(self) -> dict[str, list[int]]:
        rows = defaultdict[str, list[int]](list)
        for number, text in enumerate(text for source in self._sources for text, _ in source.rows):
            for word in set(_WORDS.findall(text.lower())):
                rows[word].append(number)
        return rows

    def find(self, claim: FoundClaim, answer: str) -> tuple[ClaimState, int | None]:
        """Return the state of a claim that stands nowhere, and the step that it derives from."""
        quantity, end = claim.quantity, claim.start + len(claim.text)
        if quantity and not quantity.days and not quantity.clock:
            before = _ROW_END.split(answer[max(0, claim.start - _MOST_BEFORE) : claim.start])[-1]
            rest_of_sentence = f"{before} {_ROW_END.split(answer[end : end + _MOST_BEFORE])[0]}"
            for source, numbers in self._nearest(rest_of_sentence):
                if any(_fits(value, quantity) for value in _derived(numbers, quantity)):
                    return "derivable", source.step
        return "unsupported", None

    def _nearest(self, sentence: str) -> Iterator[tuple[_Source, list[Quantity]]]:
        shared = Counter[int]()
        for word in set(_WORDS.findall(sentence.lower())):
            if len(rows := self._rows_by_word.get(word, ())) <= _COMMON:
                shared.update(rows)
        left = MOST_CANDIDATES
        for number in sorted(shared, key=lambda row: (-shared[row], row)):
            source, numbers = self._rows[number]
            left -= len(numbers)
            if left < 0:
                return
            yield source, numbers


def _fits(value: float, quantity: Quantity) -> bool:
    """Return whether a value, rounded as the quantity is, is the quantity."""
    half = 0.5 * 10.0**-quantity.decimals
    return abs(value - quantity.value) <= min(half, _FARTHEST * abs(quantity.value)) * (1 + 1e-6)


def _derived(numbers: Sequence[Quantity], wanted: Quantity) -> Iterator[float]:
    """Yield what a row's numbers make in the unit that is wanted: they themselves, sums, differences and shares."""
    for number in numbers:
        if number.unit == wanted.unit:
            yield number.value
        elif wanted.unit and number.unit and (base := in_base(number.value, number.unit)):
            dimension = in_base(0.0, wanted.unit)
            if dimension and dimension[0] == base[0]:
                yield from_base(base[1], wanted.unit)
    for a, b in combinations(numbers, 2):
        if a.unit == b.unit:
            yield from _of_two(a, b, wanted.unit)


def _of_two(a: Quantity, b: Quantity, wanted: str | None) -> Iterator[float]:
    if a.days and b.days:
        if wanted == "year":
            yield abs((a.days[0][0] or 0) - (b.days[0][0] or 0))
    elif a.unit == wanted or (a.unit == "%" and wanted == "pp"):
        yield a.value + b.value
        yield abs(a.value - b.value)
    elif wanted == "%" and a.value and b.value:
        yield 100 * min(a.value, b.value) / max(a.value, b.value)
