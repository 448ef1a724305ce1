"""The result of a check, and how its texts are made fit to print."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.core.errors import HarnessError
from harness.transcripts.clean_text import clean

Status = Literal["ok", "warn", "fail", "skipped"]

_TELLING = 8
"""This many characters in a row of a key are never shown. A key shorter than this guards nothing."""
_MASKED = re.compile(r"\S*(?:\*{2,}|\.{3}|…)\S*")


@dataclass(frozen=True)
class Check:
    """The result of one check; its fields are the keys of `doctor --json`."""

    name: str
    status: Status
    """`fail`: a run started now would stop here."""
    found: str
    """What the check found, for people to read."""
    do: str | None = None
    """What to set or type, if anything."""


def failed_check(name: str, error: HarnessError) -> Check:
    """Return the failed check that an error of the harness stands for; its last clause says what to do."""
    message = str(error)
    finding, _, advice = message.rpartition("; ")
    return Check(name, "fail", finding, advice) if finding else Check(name, "fail", message)


def fit_to_print(check: Check, secrets: Sequence[str]) -> Check:
    """Return `check` with nothing in it that drives a terminal or gives a part of a secret away.

    Endpoints quote keys in their errors, masked or not.
    """
    return replace(
        check, found=printable(check.found, secrets), do=None if check.do is None else printable(check.do, secrets)
    )


def printable(text: str, secrets: Sequence[str]) -> str:
    """Return `text` without control characters and without any part of a secret that gives the secret away."""
    text = clean(text)
    for secret in secrets:
        text = _without(text, secret)
    return text


def _without(text: str, secret: str) -> str:
    secret = secret.strip().strip("'\"")  # a key set with quotes by mistake is quoted by others without them
    if len(secret) < _TELLING:
        return text
    text = _MASKED.sub(lambda word: "[key]" if _gives_away(word[0], secret) else word[0], text)
    pieces = {secret[i : i + _TELLING] for i in range(len(secret) - _TELLING + 1)}
    starts = [i for i in range(len(text)) if text[i : i + _TELLING] in pieces]
    hidden = {start + offset for start in starts for offset in range(_TELLING)}
    shown: list[str] = []
    for i, letter in enumerate(text):
        if i not in hidden:
            shown.append(letter)
        elif i - 1 not in hidden:
            shown.append("[key]")
    return "".join(shown)


def _gives_away(word: str, secret: str) -> bool:
    """Return whether a masked word (`sk-ab****yz.`) has the secret's beginning or end."""
    bare = word.strip("'\"(),.;:")
    return bare.startswith(secret[:2]) or bare.endswith(secret[-2:])
