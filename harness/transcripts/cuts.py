"""Shortening a text by taking out its middle, and the search for the most that may stay."""

import re
from collections.abc import Callable

_LOOKS_CUT = re.compile(r"\[\s?…([^\[\]\n]{0,80})…\s?\]")


def middle_out(text: str, keep: int) -> str:
    """Return `text` with all but `keep` characters taken out of its middle, and the number of them put there.

    Texts shorter than the cut mark are not cut.
    """
    missing = len(text) - keep
    mark = _mark(missing)
    if missing <= len(mark):
        return text
    tail = keep // 2
    return text[: keep - tail] + mark + text[len(text) - tail :]


def lines_out(text: str, keep: int) -> str:
    """Return `text` with whole lines taken out of its middle, and a line that says how many characters are missing.

    At most `keep` characters stay, so every line that stays begins as it began. Texts shorter than the cut mark are
    not cut.
    """
    if len(text) - keep <= len(_mark(len(text) - keep)):
        return text
    tail = keep // 2
    head_end = text.rfind("\n", 0, keep - tail + 1)
    tail_start = text.find("\n", len(text) - tail - 1) + 1
    head = text[:head_end] if head_end > 0 else ""
    rest = text[tail_start:] if tail_start > 0 else ""
    return "\n".join(filter(None, (head, _mark(len(text) - len(head) - len(rest)), rest)))


def unlike_cuts(text: str) -> str:
    """Return `text` with three full stops for the ellipses of what looks like a cut mark: only a cut has the mark."""
    return _LOOKS_CUT.sub(r"[...\1...]", text) if "…" in text else text


def _mark(missing: int) -> str:
    return f"[… {missing:,} characters cut …]"


def largest_that_fits(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the largest number from `low` to `high` that fits, by halving; None if not even `low` does."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
