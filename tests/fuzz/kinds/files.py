"""What is no text file at all, in the place of every argument and option that names a file or folder to read."""

import contextlib
import os
import random
import socket

import click

from tests.fuzz.attacks import Attack, Room
from tests.fuzz.commands import EMBEDDED_JUDGE, FREE, Command, Values, commands, needed_options
from tests.fuzz.mutations import deep

_NAMES = {"queries", "rubric", "file", "name", "agent", "run", "runs", "reuse", "ssl"}
"""Parameters that may name a file, though they are declared as words."""
_CONTENTS = {
    "empty": b"",
    "breaks": b"\n\n\n",
    "mark": b"\xef\xbb\xbf",
    "utf-16": "query\nWhy?\n".encode("utf-16"),
    "latin": "caf\xe9\n".encode("latin-1"),
    "binary": bytes(range(256)) * 8,
    "nul": b"Why?\0\n",
    "deep": deep(900).encode(),
    "deeper": deep(200_000).encode(),
    "open": b"[" * 200_000,
    "long line": b"x" * 3_000_000,
    "number": b"9" * 50_000,
    "elf": b"\x7fELF" + bytes(500),
}
_KINDS = ("content", "content", "content", "folder", "pipe", "socket", "link", "loop", "secret", "device", "gone")
_ENDINGS = ("", ".md", ".json", ".jsonl", ".csv", ".yaml", ".txt", ".py")


def prepare(rng: random.Random, room: Room) -> Attack:
    """One command, with something strange for one of its files."""
    command, parameter = rng.choice([(c, p) for c in commands() for p in files_of(c)])
    word = _strange(rng, room, rng.choice(_ENDINGS))
    return Attack(input=word, lines=[line_with(command, parameter, word)], may_write=(".",))


def files_of(command: Command) -> list[click.Parameter]:
    parameters: list[click.Parameter] = [*command.arguments.values(), *command.valued]
    return [p for p in parameters if isinstance(p.type, click.Path) or p.name in _NAMES]


def line_with(command: Command, parameter: click.Parameter, word: str) -> tuple[str, ...]:
    plain = [*command.words, *(FREE if command.rolls_out else ())]
    if "judge_model" in command.options and not command.rolls_out:
        plain += EMBEDDED_JUDGE
    if parameter.name == "pairs":
        plain.append("--judge")
    for argument in command.arguments.values():
        if argument is parameter or argument.required:
            plain.append(word)
    plain += needed_options(command, Values(), parameter.name)
    return (*plain, parameter.opts[0], word) if isinstance(parameter, click.Option) else tuple(plain)


def _strange(rng: random.Random, room: Room, ending: str) -> str:
    path = room.work / f"strange{ending}"
    match rng.choice(
        ("content", "content", "content", "folder", "pipe", "socket", "link", "loop", "secret", "device", "gone")
    ):
        case "content":
            path.write_bytes(rng.choice(list(_CONTENTS.values())))
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "socket":
            # a socket's whole path has at most 107 bytes
            with contextlib.chdir(room.work), socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path.name)
        case "link":
            path.symlink_to(rng.choice(("/dev/zero", "/dev/full", "/proc/self/mem", "../outside/canary", "nowhere")))
        case "loop":
            path.symlink_to(path)
        case "secret":
            path.write_text("Why?\n")
            path.chmod(0)
        case "device":
            return rng.choice(("/dev/zero", "/dev/null", "/dev/full", "/dev/urandom", "/proc/self/mem"))
        case _:
            pass
    return path.name
