"""Shortening a text by taking out its middle, and the search for the most that may stay."""

from collections.abc import Callable


def middle_out(text: str, keep: int) -> str:
    """Return `text` with all but `keep` characters taken out of its middle, and the number of them put there.

    Texts shorter than the cut mark are not cut.
    """
    missing = len(text) - keep
    mark = f"[… {missing:,} characters cut …]"
    if missing <= len(mark):
        return text
    tail = keep // 2
    return text[: keep - tail] + mark + text[len(text) - tail :]


def largest_that_fits(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the largest number from `low` to `high` that fits, by halving; None if not even `low` does."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
