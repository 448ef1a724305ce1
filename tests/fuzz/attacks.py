"""An attack: hostile input in folders of its own, and the commands that meet it."""

import importlib
import os
import pkgutil
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.attempts import LIMIT_S, Outcome, attempt
from tests.fuzz.snapshots import changes, snapshot

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
CANARY = "not a byte of this may change\n"


@dataclass(frozen=True)
class Room:
    """The folders of one attack. All are below `top`; what is in `outside` and in `top` itself may never change."""

    top: Path

    @classmethod
    def make(cls, top: Path) -> "Room":
        """Lay the folders out, with files outside that an attack may try to reach (`../outside/canary`)."""
        room = cls(top)
        for folder in (room.work, room.outside, room.home):
            folder.mkdir(parents=True)
        (room.outside / "canary").write_text(CANARY)
        (room.outside / "canary.jsonl").write_text(CANARY)
        (room.outside / "folder").mkdir()
        return room

    @property
    def work(self) -> Path:
        """The working folder of the commands."""
        return self.top / "work"

    @property
    def runs(self) -> Path:
        return self.work / "runs"

    @property
    def outside(self) -> Path:
        """What no command has any business with."""
        return self.top / "outside"

    @property
    def home(self) -> Path:
        """The user's own folder, with the harness's state and cache; commands may write there."""
        return self.top / "home"

    def environ(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a user without keys; `extra` may not hold any of a real person's either."""
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",  # a terminal without colours: every escape sequence that is printed is the attack's
            "COLUMNS": "140",
            "LINES": "50",
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "TIKTOKEN_CACHE_DIR": "",
            **(extra or {}),
        }

    def add_run(self, archive: str = "offline-arena", name: str | None = None) -> Path:
        """Copy an archive of tests/data/golden to `runs`; return the run's folder."""
        (source,) = (path for path in (GOLDEN / archive).iterdir() if path.is_dir())
        copy = self.runs / (name or source.name)
        shutil.copytree(source, copy)
        return copy


@dataclass(frozen=True)
class Attack:
    """Command lines that meet a hostile input; `input` says in a line what is hostile."""

    input: str
    lines: Sequence[tuple[str, ...]]
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin: bytes = b""
    may_write: Sequence[str] = ("runs",)
    """What the commands may change, relative to the working folder."""


@dataclass(frozen=True)
class Fault:
    """Something that must never be, and the command line that led to it."""

    what: str
    outcome: Outcome
    attack: Attack

    def __str__(self) -> str:
        return f"harness {list(self.outcome.argv)!r:.400}\n  {self.what}\n  input: {self.attack.input[:400]}"


Prepare = Callable[[random.Random, Room], Attack]


def kinds() -> dict[str, Prepare]:
    """Return every kind of attack by its name: the modules of tests/fuzz/kinds."""
    package = importlib.import_module("tests.fuzz.kinds")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {name: importlib.import_module(f"tests.fuzz.kinds.{name}").prepare for name in names}


def faults_of(attack: Attack, room: Room, *, limit_s: float | None = None) -> list[Fault]:
    """Run every command line of an attack; return what must never be."""
    faults: list[Fault] = []
    may_change = [room.home, *(room.work / path for path in attack.may_write)]
    before = snapshot(room.top, leave_out=may_change)
    for line in attack.lines:
        environ = room.environ(attack.environ)
        outcome = attempt(line, room.work, environ, attack.stdin, limit_s=limit_s or LIMIT_S)
        after = snapshot(room.top, leave_out=may_change)
        whats = outcome.faults() + [f"outside: {change}" for change in changes(before, after)]
        faults += [Fault(what, outcome, attack) for what in whats]
        before = after
    return faults


def some(rng: random.Random, lines: Sequence[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    """Return at most so many of the lines, in their order: an attack need not meet every command every time."""
    chosen = set(rng.sample(range(len(lines)), min(most, len(lines))))
    return [line for at, line in enumerate(lines) if at in chosen]


def check(prepare: Prepare, *, examples: int) -> None:
    """Fail where one of so many attacks of a kind leads to a fault: what the tests run. Always the same attacks."""

    # Not shrunk: an attack that hangs would hang again and again.
    @settings(max_examples=examples, derandomize=True, deadline=None, database=None, phases=[Phase.generate])
    @given(st.randoms(use_true_random=False))
    def attacked(rng: random.Random) -> None:
        with tempfile.TemporaryDirectory(prefix="harness-fuzz-", ignore_cleanup_errors=True) as top:
            room = Room.make(Path(top) / "room")
            faults = faults_of(prepare(rng, room), room)
        if faults:
            raise AssertionError("\n".join(map(str, faults)))

    attacked()
