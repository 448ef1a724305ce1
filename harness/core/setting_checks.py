"""What a value of a setting must be beyond its type and bounds: each takes a value and returns it as it counts."""

import re
import warnings
from typing import Any

_LONGEST_PATTERN = 10_000
_LEAST_BUDGET = 200
"""Tokens of two transcripts below which little but the marks of the cuts would be left."""


def enough_tokens(tokens: int) -> int:
    """Return the tokens of a judge's budget: 0, or enough to show something. Raises ValueError."""
    if tokens and tokens < _LEAST_BUDGET:
        raise ValueError(f"should be 0 (no limit) or at least {_LEAST_BUDGET}")
    return tokens


def pattern_word(text: str) -> str:
    """Return a regular expression that fits something. Raises ValueError."""
    if len(text) > _LONGEST_PATTERN:
        raise ValueError(f"a pattern has at most {_LONGEST_PATTERN:,} characters")
    try:
        with warnings.catch_warnings(action="ignore"):  # of what a later Python may read otherwise, as in [[a]
            pattern = re.compile(text)
    except (re.error, OverflowError) as exc:
        raise ValueError(f"not a regular expression ({exc})") from None
    except RecursionError:
        raise ValueError("not a regular expression that Python can read: nested too deep") from None
    if pattern.match(""):
        raise ValueError("a pattern that fits the empty text would fit everywhere")
    return text


def rollout_word(word: str) -> str:
    """Return K, QUERY/K or QUERY/ with K as a plain number. Raises ValueError."""
    query, slash, index = word.rpartition("/")
    if not (index.isdecimal() or (slash and query and not index)):
        raise ValueError("expected a rollout's index K, QUERY/K for that of one query, or QUERY/ for all of one")
    return f"{query}{slash}{int(index) if index else ''}"


def profile_text(value: Any) -> Any:
    """Return a judge's profile, as any record, as the text that is kept of it; anything else as it is."""
    as_text = getattr(value, "model_dump_json", None)  # the class itself would load pydantic for every `--help`
    return as_text() if callable(as_text) and not isinstance(value, type) else value
