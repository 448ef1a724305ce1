"""Hostile words on the command line, in the place of every argument and of every option's value."""

import os
import random

from tests.fuzz.attacks import Attack, Room
from tests.fuzz.commands import FREE, Command, Values, commands, needed_options
from tests.fuzz.words import hostile_word


def prepare(rng: random.Random, room: Room) -> Attack:
    """A command of the app, with hostile words for some of what it takes; what it leaves on disk is its own."""
    room.add_run()
    (room.work / "folder").mkdir()
    (room.work / "file").write_text("a file\n")
    command = rng.choice(commands())
    line = _line(rng, command, room)
    return Attack(input=repr(line)[:2000], lines=(line,), may_write=(".",))


def _line(rng: random.Random, command: Command, room: Room) -> tuple[str, ...]:
    words: list[str] = [*command.words, *(FREE if command.rolls_out else ())]
    for argument in command.arguments.values():
        words += [hostile_word(rng)] * (argument.required or rng.random() < 0.6)
    for option in rng.sample(command.valued, min(rng.choice((0, 1, 1, 2, 4)), len(command.valued))):
        words += [option.opts[0], _value(rng, room, writes=option.name in {"runs_dir", "to"})]
    if rng.random() < 0.8:
        words += (word for word in needed_options(command, Values()) if word not in words)
    if command.flags and rng.random() < 0.4:
        words.append(rng.choice(command.flags))
    if rng.random() < 0.1:
        words.append(hostile_word(rng))
    return tuple(words)


def _value(rng: random.Random, room: Room, *, writes: bool) -> str:
    """Return a word that names none of the folders around the room, and nothing outside of it for a folder of runs."""
    while True:
        word = hostile_word(rng)
        path = os.path.normpath(room.work / word)
        around = os.path.commonpath([path, room.work]) == path
        if not around and not (writes and os.path.commonpath([path, room.top]) != str(room.top)):
            return word
