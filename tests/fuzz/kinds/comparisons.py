"""Comparisons of the harness's own making, in which a member or more of some record is hostile; checksums are right."""

import hashlib
import json
import random

from tests.archive.comparing import a_filled_comparison, a_side
from tests.fuzz.attacks import Attack, Room, some
from tests.fuzz.commands import Values, lines_reading
from tests.fuzz.kinds.records import spoil

SEGMENTS = ("blobs", "verdicts", "comparisons")
NAME = "20990101T000000-compare-000000"


def prepare(rng: random.Random, room: Room) -> Attack:
    """One to three records of a comparison with hostile members, and the commands that read it; its runs are whole."""
    runs = [room.add_run(archive) for archive in ("offline-arena", "offline-cyclic")]
    sides = []
    for label, run in zip("AB", runs, strict=True):
        info = (run / "run.json").read_bytes()
        sides.append(a_side(label, run=json.loads(info)["id"], sha256=hashlib.sha256(info).hexdigest(), offline=True))
    finish = rng.random() < 0.7
    folder = a_filled_comparison(room.runs, NAME, sides=tuple(sides), offline=True, finish=finish)
    done = [spoil(rng, folder, "compare.json", SEGMENTS) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    lines = some(rng, lines_reading(Values(run=folder.name)), 6)
    return Attack(input="; ".join(done)[:2000], lines=lines, may_write=("runs",))
