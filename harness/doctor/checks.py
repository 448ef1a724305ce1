"""What a check finds, and how that is made fit to print."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from harness.core.errors import HarnessError
from harness.transcripts import clean

Status = Literal["ok", "warn", "fail", "skipped"]

_TELLING = 8
"""This many characters in a row of a key are never shown; a shorter key guards nothing."""
_MASKED = re.compile(r"\S*(?:\*{2,}|\.{3}|…)\S*")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `fail`: a run started now would stop on it; `do`: what to set or type."""

    name: str
    status: Status
    found: str
    do: str | None = None


def from_error(name: str, error: HarnessError) -> Check:
    """Return the failed check that an error of the harness stands for; what to do is its last clause."""
    found, _, do = str(error).rpartition("; ")
    return Check(name, "fail", found or do, do if found else None)


def fit_to_print(check: Check, secrets: Iterable[str]) -> Check:
    """Return `check` with nothing in it that drives a terminal or gives a part of a secret away.

    Endpoints quote keys in their errors, masked or not.
    """
    found, do = clean(check.found), check.do and clean(check.do)
    for secret in secrets:
        found, do = _hidden(found, secret), do and _hidden(do, secret)
    return replace(check, found=found, do=do)


def printable(text: str, secrets: Iterable[str]) -> str:
    """Return `text` as `fit_to_print` makes it."""
    return fit_to_print(Check("", "ok", text), secrets).found


def _hidden(text: str, secret: str) -> str:
    secret = secret.strip().strip("'\"")  # set with quotes by mistake, it is quoted by others without
    if len(secret) < _TELLING:
        return text
    text = _MASKED.sub(lambda word: "[key]" if _gives_away(word[0], secret) else word[0], text)
    pieces = {secret[i : i + _TELLING] for i in range(len(secret) - _TELLING + 1)}
    told = {i + k for i in range(len(text)) if text[i : i + _TELLING] in pieces for k in range(_TELLING)}
    return "".join(("" if i - 1 in told else "[key]") if i in told else letter for i, letter in enumerate(text))


def _gives_away(word: str, secret: str) -> bool:
    """Tell whether a masked word (`sk-ab****yz.`) has the secret's beginning or end."""
    bare = word.strip("'\"(),.;:")
    return bare.startswith(secret[:2]) or bare.endswith(secret[-2:])
