"""What is checked, the result of a check, and how its texts are made fit to print."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import groupby
from pathlib import Path
from typing import Literal, cast

from harness.core.errors import HarnessError
from harness.core.progress import Clock
from harness.core.settings import ADDRESSES, Settings
from harness.core.settings_sources import load, merge_sources
from harness.core.unicode import with_placeholder
from harness.endpoints.address import secrets_in
from harness.endpoints.credentials import Credentials
from harness.rollouts.loading import LoadedAgent
from harness.transcripts.clean_text import clean


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """An agent's name, flags, environment and config file, as `harness run` would get them."""

    agent: str
    flags: Mapping[str, object]
    config: Path | None
    environ: Mapping[str, str]
    clock: Clock
    judge_agents: Sequence[LoadedAgent] = ()
    """The agents that judge, where the flags have objects."""
    program: str = "python -m harness"
    """How the harness is called from here."""

    @cached_property
    def settings(self) -> Settings:
        """The settings of that run. Raises UsageError."""
        return load(self._values)

    @cached_property
    def _values(self) -> Mapping[str, object]:
        return merge_sources(self.flags, self.environ, self.config)

    @property
    def credentials(self) -> Credentials:
        """The keys in force, and the addresses named by whoever asks. Raises UsageError."""
        return Credentials.naming(self.environ, self.settings.base_url, self.settings.judge_base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that must not be printed: the keys, and passwords inside addresses."""
        return secrets_in(self.environ, self._values.get("base_url"), self._values.get("judge_base_url"))

    def origin(self, name: str) -> str | None:
        """Return what set a setting, as its user would call it; None where nobody did."""
        if self.flags.get(name) is not None:
            return _flag(name)
        if f"HARNESS_{name.upper()}" in self.environ:
            return f"HARNESS_{name.upper()}"
        return f"--config {self.config}" if self._values.get(name) else None

    def command(self, verb: str, **changes: str | None) -> str:
        """Return the command to type, with the flags given here but for `changes`; None leaves a flag out.

        In the place of a user and a password in an address stand words.
        """
        kept = {name: value for name, value in {**self.flags, "config": self.config}.items() if name not in changes}
        words = [verb, "--agent", self.agent]
        for name, value in {**kept, **changes}.items():
            items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
            for item in items:
                if item is None:
                    continue
                words.append(_flag(name))
                if item is not True:
                    words.append(with_placeholder(str(item)) if name in ADDRESSES else str(item))
        return f"{self.program} {shlex.join(words)}"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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
    return replace(check, found=printable(check.found, secrets), do=check.do and printable(check.do, secrets))


def printable(text: str, secrets: Sequence[str]) -> str:
    """Return `text` without control characters and without any part of a secret that gives the secret away."""
    return reduce(_without, secrets, clean(text))


def _without(text: str, secret: str) -> str:
    secret = secret.strip().strip("'\"")  # a key set with quotes by mistake is quoted by others without them
    if len(secret) < _TELLING:
        return text

    def unmasked(word: re.Match[str]) -> str:
        bare = word[0].strip("'\"(),.;:")  # `sk-ab****yz.` has the secret's beginning and end
        return "[key]" if bare.startswith(secret[:2]) or bare.endswith(secret[-2:]) else word[0]

    text = _MASKED.sub(unmasked, text)
    pieces = {secret[i : i + _TELLING] for i in range(len(secret) - _TELLING + 1)}
    starts = [i for i in range(len(text)) if text[i : i + _TELLING] in pieces]
    hidden = {start + offset for start in starts for offset in range(_TELLING)}
    runs = groupby(range(len(text)), key=hidden.__contains__)
    return "".join("[key]" if is_hidden else "".join(text[i] for i in run) for is_hidden, run in runs)
