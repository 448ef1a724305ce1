"""What the doctor is asked about: the run that the same command line would start."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from harness.core.addresses import with_placeholder
from harness.core.clock import Clock
from harness.core.settings import ADDRESSES, Settings
from harness.core.settings_sources import load, merge_sources
from harness.endpoints.credentials import Credentials
from harness.endpoints.secrets import secrets_in


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """An agent's name, flags, environment and config file, as `harness run` would get them."""

    agent: str
    flags: Mapping[str, object]
    config: Path | None
    environ: Mapping[str, str]
    clock: Clock
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
            for item in _items(value):
                words += [_flag(name), *_words(name, item)]
        return f"{self.program} {shlex.join(words)}"


def _items(value: object) -> Sequence[object]:
    """Return the values of an option: several of one that may be repeated, none where it is not set."""
    if isinstance(value, list | tuple):
        return cast("Sequence[object]", value)
    return () if value is None else (value,)


def _words(name: str, item: object) -> Sequence[str]:
    """Return what stands after an option."""
    if item is True:
        return ()
    return (with_placeholder(str(item)) if name in ADDRESSES else str(item),)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
