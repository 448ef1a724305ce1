"""Hostile rubrics: as a file that the user names, as what is no plain file, as the text that a run holds."""

import hashlib
import json
import os
import random
from pathlib import Path

from tests.fuzz.attacks import Attack, Room, some
from tests.fuzz.commands import FREE, Command, commands
from tests.fuzz.rubric_texts import rubric_text

_LINES = 3
"""Command lines that meet one rubric: each may take a child process its five seconds."""
_NAME = "own.md"


def prepare(rng: random.Random, room: Room) -> Attack:
    """A rubric, and the commands that take one."""
    text = rubric_text(rng, bombs=True)
    run = room.add_run()
    if rng.random() < 0.25:
        _store(run, text, rng)
        return Attack(input=repr(text)[:2000], lines=[("rescore", "--free", "--dry-run"), ("show",), ("stats",)])
    what = _put(rng, room.work / _NAME, text)
    lines = [_line(command) for command in commands() if _takes_rubric(command)]
    return Attack(input=f"{what}: {text!r}"[:2000], lines=some(rng, lines, _LINES))


def _takes_rubric(command: Command) -> bool:
    return command.words[0] == "rubric" or "rubric" in command.options


def _line(command: Command) -> tuple[str, ...]:
    """Return how the command meets the rubric, with nothing rolled out and nothing bought."""
    if command.words[0] == "rubric":
        return (*command.words, _NAME)
    dry = ("--dry-run",) if "dry_run" in command.options else ()
    question = ("Why?",) if command.required else ()
    return (*command.words, *(FREE if command.rolls_out else ()), "--rubric", _NAME, *dry, *question)


def _put(rng: random.Random, path: Path, text: str) -> str:
    """Put the rubric, or what is none, where the commands look for it; return what it is."""
    what = rng.choice(("text",) * 12 + ("bytes", "fifo", "folder", "device", "outside", "large"))
    match what:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "outside":
            path.symlink_to("../outside/canary")
        case "large":
            with path.open("wb") as file:
                file.truncate(100_000_000)
        case "bytes":
            path.write_bytes(rng.randbytes(rng.choice((1, 100, 10_000))))
        case _:
            path.write_text(text, "utf-8", errors="surrogatepass")
    return what


def _store(run: Path, text: str, rng: random.Random) -> None:
    """Give a run the text as its own, mostly with the label that fits; also a file in the run that nobody may read."""
    info = json.loads((run / "run.json").read_text())
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    kept = {"rubric_text": text, "rubric": f"own@2 {digest}"} if rng.random() < 0.9 else {"rubric_text": text}
    os.mkfifo(run / "evil.md")
    info["settings"]["rubric"] = f"runs/{run.name}/evil.md"
    (run / "run.json").write_text(json.dumps(info | (kept if rng.random() < 0.9 else {})))
