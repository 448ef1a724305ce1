"""Hostile settings: YAML files of `--config`, and `HARNESS_*` in the environment."""

import random

from harness.core.settings import SETTINGS
from tests.fuzz.attacks import Attack, Room
from tests.fuzz.commands import FREE, commands
from tests.fuzz.mutations import broken
from tests.fuzz.words import hostile_word

_LINES = (("run", *FREE, "Why?"), ("best", *FREE, "--dry-run"), ("ls",), ("agents",), ("doctor", "--ports", ""))
_NOT_HERE = {"corpus", "runs_dir"}
"""Settings that name folders: a hostile word could name one of the machine's own."""
_FILES = (
    "n: [",
    "- n\n- 3",
    "n: &n [*n]",
    "n: 3\nn: 4",
    "a: &a [x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nredact: [*b, *b, *b, *b]",
    "[" * 5000,
    "[" * 900 + "]" * 900,
    "{a: " * 900 + "1" + "}" * 900,
    "- " * 3000 + "x",
    "seed: 2026-13-45",
    "seed: 0x" + "f" * 60_000,
    "seed: " + "9" * 5000,
    "? [a, b]\n: 1",
    "1: 2",
    "!!python/object/apply:os.system ['touch made']",
    "!!set {n, seed}",
    "n: !!binary aGVsbG8=",
    "model: !!timestamp 2026-01-01",
    "--- 1\n--- 2",
    "%YAML 9.9\n---\nn: 2",
    'model: "\\ud800"',
    'model: "\\0"',
    "timeout: .inf",
    "temperature: .nan",
    "x" * 200_000,
    "\t",
    "null",
)


def prepare(rng: random.Random, room: Room) -> Attack:
    """Settings from a file or from the environment, for a command that takes them."""
    room.add_run()
    environ, lines = _of_environment(rng) if rng.random() < 0.3 else ({}, [_of_file(rng, room)])
    return Attack(input=f"{lines} {environ}"[:2000], lines=lines, environ=environ, may_write=(".",))


def _of_environment(rng: random.Random) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    names = rng.sample([name for name in SETTINGS if name not in _NOT_HERE], rng.choice((1, 2)))
    environ = {f"HARNESS_{name.upper()}": hostile_word(rng) for name in names}
    if rng.random() < 0.3:
        environ[rng.choice(("OPENAI_BASE_URL", "HARNESS_" + "X" * 5000, "HARNESS_SEDE"))] = hostile_word(rng)
    plain = rng.choice(
        (("run", *FREE, "Why?"), ("best", *FREE, "--dry-run"), ("ls",), ("agents",), ("doctor", "--ports", ""))
    )
    return environ, [plain]


def _of_file(rng: random.Random, room: Room) -> tuple[str, ...]:
    content = _bomb(rng) if rng.random() < 0.1 else _yaml(rng)
    if rng.random() < 0.25:
        content = broken(rng, content)
    (room.work / "settings.yaml").write_bytes(content)
    takes_config = [command for command in commands() if "config" in command.options]
    command = rng.choice(takes_config)
    plain = (*command.words, *(FREE if command.rolls_out else ()))
    dry = ("--dry-run",) if "dry_run" in command.options and rng.random() < 0.5 else ()
    return (*plain, "--config", "settings.yaml", *dry)


def _yaml(rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return rng.choice(_FILES).encode("utf-8", "surrogatepass")
    names = rng.sample([name for name in SETTINGS if name not in _NOT_HERE], rng.choice((1, 2, 5)))
    values = ("[1, 2]", "{a: b}", "null", "yes", "0b1", "1:30", "'x'", ".inf", "1e5", "~")
    lines = [f"{name}: {rng.choice((*values, _quoted(hostile_word(rng))))}" for name in names]
    return "\n".join(lines).encode("utf-8", "surrogateescape")[:90_000]


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


def _bomb(rng: random.Random) -> bytes:
    """Return references to references, nine times over: as lists, or as merges."""
    first, later = rng.choice((("[x]", "[{}]"), ("{model: x}", "{{<<: [{}]}}")))
    levels = [f"a{at}: &a{at} {later.format(', '.join([f'*a{at - 1}'] * 9))}" for at in range(1, 12)]
    return "\n".join([f"a0: &a0 {first}", *levels, "redact: *a11"]).encode()
