"""The claims of an answer that a machine can look up: where they stand, of which kind, and what they come to.

A quotation is held by a text that has its words, whatever became of its spaces, marks and Unicode forms.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from harness.evidence.quantities import DATE_IN_WORDS, QUANTITY, Quantity, read_quantity

_AS_ONE = (
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u2032`\u00b4", "'")
    | dict.fromkeys('\u201c\u201d\u201e\u00ab\u00bb\u2033"', "'")
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff*", "")
)
_ELLIPSIS = re.compile(r"\[\s?(?:\u2026|\.{3,})\s?\]|\(\s?(?:\u2026|\.{3,})\s?\)|\u2026|\.{3,}")
MOST_PLACES = 1000
"""At which a name or a quotation is looked at closer, in one text."""
_AT_THE_ENDS = " .,;:!?'\"-"


def fold(text: str) -> str:
    """Return a text in lower case and one Unicode form, with single spaces and plain dashes and quotation marks.

    Character by character: a normalization of the whole takes quadratic time on a hostile text.
    """
    if text.isascii():
        plain = text.lower().replace("*", "").replace("`", "'").replace('"', "'")
    else:
        forms = {c: _AS_ONE.get(c, unicodedata.normalize("NFKD", c).casefold()) for c in set(text)}
        plain = text.translate({ord(c): form for c, form in forms.items() if form != c})
    return " ".join(plain.split())


def fragments(quotation: str) -> tuple[str, ...]:
    """Return the folded words of a quotation between its ellipses; nothing for one of ellipses and marks alone."""
    parts = (fold(part).strip(_AT_THE_ENDS) for part in _ELLIPSIS.split(quotation))
    return tuple(part for part in parts if any(map(str.isalnum, part)))


def holds(folded: str, parts: tuple[str, ...]) -> bool:
    """Return whether a folded text has all parts, of which there is one or more, in this order."""
    at = 0
    for part in parts:
        found = _find_word(folded, part, at)
        if found < 0:
            return False
        at = found + len(part)
    return bool(parts)


def _find_word(text: str, part: str, at: int) -> int:
    """Return where a part stands that begins and ends with its own words, and not within others."""
    for _ in range(MOST_PLACES):
        if (found := text.find(part, at)) < 0:
            break
        end = found + len(part)
        begins = not (found and text[found - 1].isalnum() and part[0].isalnum())
        if begins and not (end < len(text) and text[end].isalnum() and part[-1].isalnum()):
            return found
        at = found + 1
    return -1


ClaimKind = Literal["number", "date", "quotation", "url", "email", "file", "code", "citation"]

MOST_CLAIMS = 1000
"""Of one answer: those behind them are not looked up."""

_EXTENSIONS = (
    "py|pyi|ipynb|js|mjs|ts|tsx|jsx|json|jsonl|md|rst|txt|csv|tsv|xlsx?|docx?|pptx?|pdf|png|jpe?g|gif|svg|webp|html?|css"
    "|xml|ya?ml|toml|ini|cfg|conf|env|lock|log|sql|db|sqlite|parquet|sh|bash|ps1|bat|exe|dll|so|zip|gz|tar|tgz|7z|whl"
    "|c|h|cc|cpp|hpp|cs|java|kt|go|rs|rb|php|pl|lua|swift|scala|r|jl|m|tex|bib|epub|mp3|mp4|wav|mov|avi|ttf|woff2?|bin"
    "|dat|bak|tmp|vue|svelte|proto|tf|gradle"
)
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CLAIM = re.compile(
    r"(?P<url>\b(?:https?://|www\.)[^\s<>\"'`\])}|\\]{1,2000})"
    r"|(?P<email>(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4})"
    r"|(?P<quotation>\u201c[^\u201c\u201d]{2,2000}\u201d|\u00ab[^\u00ab\u00bb]{2,2000}\u00bb|\u201e[^\u201e\u201c\u201d]"
    r"{2,2000}[\u201c\u201d]|(?<!\w)\"[^\"\n]{2,2000}\"(?!\w))"
    r"|(?P<citation>\[\d{1,3}(?:(?:, ?|[-\u2013])\d{1,3}){0,20}\](?!\())"
    rf"|(?P<file>(?<![\w./~-])[\w./~-]{{1,200}}\.(?:{_EXTENSIONS})(?![\w(]))"
    r"|`(?P<code>[^`\s]{2,200})`"
    r"|(?<![\w.])(?P<name>[a-zA-Z_]\w{0,80}\(\)|[a-zA-Z]\w{0,80}_\w{1,80}|[a-z]{2,40}[A-Z][a-z]\w{0,80})(?!\w)"
    rf"|\b(?P<date>{DATE_IN_WORDS})"
    rf"|(?P<quantity>{QUANTITY})"
)
_OWN_SOURCE = re.compile(r"(?m)^[ \t>*-]{0,8}\[(\d{1,3})\](?!\()")
_IN_NUMBERS = "0123456789.,$\u20ac\u00a3\u00a5\u00a0\u202f\u2009 "
_RANGE = re.compile(r"(\d+)(?:[-\u2013](\d+))?")
_LONGEST_RANGE = 20
_FEWEST_WORDS = 3
"""Of a quotation: fewer are a name, or words held at a distance."""
_FEWEST_DIGITS = 3
"""Of a number without unit: what is shorter counts things or numbers them more often than it states a fact."""


@dataclass(frozen=True)
class FoundClaim:
    """A claim as it stands in an answer, and what is looked up of it."""

    text: str
    start: int
    kind: ClaimKind
    needles: tuple[str, ...] = ()
    """What must stand in one text, in this order."""
    quantity: Quantity | None = None


def find_claims(answer: str) -> Iterator[FoundClaim]:
    """Yield an answer's claims in order, MOST_CLAIMS at most.

    Nothing in a block of code is a claim, no citation of a source that the answer lists itself, no number of less than
    three digits without unit or point, no quotation of less than three words.
    """
    text = _FENCED.sub(lambda block: " " * len(block[0]), answer)
    own = set(_OWN_SOURCE.findall(text))
    closing = -1  # of a few quoted words, among which the search goes on
    at = count = 0
    while count < MOST_CLAIMS and (match := _CLAIM.search(text, at)):
        kind = str(match.lastgroup)
        at = match.start()
        if at == closing:
            at += 1
            continue
        quantity = read_quantity(match[0]) if kind in {"date", "quantity"} else None
        claim = _of_quantity(match, quantity) if quantity else _of_words(kind, match, own)
        if claim:
            at = claim.start + len(claim.text)
            count += 1
            yield claim
        elif quantity:
            at += quantity.length
        elif kind in {"date", "quantity"}:
            at += max(1, len(match[0]) - len(match[0].lstrip(_IN_NUMBERS)))
        elif kind == "quotation":
            closing, at = match.end() - 1, at + 1
        else:
            at = match.end()


def _of_quantity(match: re.Match[str], quantity: Quantity) -> FoundClaim | None:
    text = match[0][: quantity.length]
    if quantity.days or quantity.clock:
        return FoundClaim(text, match.start(), "date", quantity=quantity)
    if quantity.unit is None and quantity.digits < _FEWEST_DIGITS and quantity.decimals == 0:
        return None
    return FoundClaim(text, match.start(), "number", quantity=quantity)


def _of_words(kind: str, match: re.Match[str], own: set[str]) -> FoundClaim | None:
    """Return a claim that is looked up letter by letter; None for one of no weight."""
    text, start = match[kind], match.start(kind)
    if kind == "quotation":
        words = fragments(text[1:-1])
        least = sum(len(part.split()) for part in words)
        return FoundClaim(text, start, "quotation", words) if least >= _FEWEST_WORDS else None
    if kind == "citation":
        needles = [f"[{number}]" for number in _cited(text) if number not in own]
        return FoundClaim(text, start, "citation", tuple(needles)) if needles else None
    if kind == "url":
        text = text.rstrip(".,;:!?*_")
        plain = text.lower().partition("#")[0].removeprefix("https://").removeprefix("http://").removeprefix("www.")
        return FoundClaim(text, start, "url", (plain.rstrip("/"),)) if plain else None
    if kind == "email":
        return FoundClaim(text, start, "email", (text.lower(),))
    name, kind_of_name = (text.removeprefix("./"), "file") if kind == "file" else (text.removesuffix("()"), "code")
    return FoundClaim(text, start, kind_of_name, (name,)) if re.search(r"[^\W\d]{2}", name) else None


def _cited(text: str) -> Iterator[str]:
    for part in _RANGE.finditer(text):
        first, last = int(part[1]), int(part[2] or part[1])
        yield from map(str, range(first, min(last, first + _LONGEST_RANGE) + 1))
