"""Quotations: whether a text holds the words of one, whatever became of its spaces, marks and Unicode forms."""

import re
import unicodedata

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
