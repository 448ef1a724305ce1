"""Runs with an arena and a round robin of which a record or more is hostile: `judges` and `stats --curve` read both."""

import atexit
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.fuzz.attacks import Attack, Room
from tests.fuzz.attempts import attempt
from tests.fuzz.kinds.records import spoil
from tests.fuzz.mutations import broken

LABELS = '{"query": "Describe Lisp.", "a": "x", "b": "y", "label": "a"}\n'
_SEGMENTS = ("rankings", "rankings", "rankings", "verdicts", "rollouts", "queries")


def prepare(rng: random.Random, room: Room) -> Attack:
    """One to three hostile records, or hostile labels, and the commands that put rankings beside each other."""
    run = room.runs / "20200101T000000-twice-000000"
    shutil.copytree(_judged_twice(), run)
    done = [spoil(rng, run, segments=_SEGMENTS) for _ in range(rng.choice((1, 1, 2, 3)))]
    if rng.random() < 0.3:
        labels = broken(rng, LABELS.encode())
        (run / "labels.jsonl").write_bytes(labels)
        done.append(f"labels {labels[:200]!r}")
    lines = [
        ("judges", run.name),
        ("judges", run.name, "--json"),
        ("stats", run.name, "--curve", "--svg", "curve.svg", "--csv", "curve.csv", "--force"),
        ("stats", run.name, "--curve", "--json", "--truth", rng.choice(("order", "itself", "labels", "reward"))),
    ]
    return Attack(input="; ".join(done)[:2000], lines=lines, may_write=("curve.svg", "curve.csv"))


@cache
def _judged_twice() -> Path:
    """Make the run once a process."""
    top = tempfile.mkdtemp(prefix="judged-twice-")
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    room = Room.make(Path(top) / "room")
    run = ("run", "Describe Lisp.", "--offline", "-n", "3", "-q")
    for line in (run, ("rescore", "last", "--topology", "round_robin", "-q")):
        outcome = attempt(line, room.work, room.environ())
        assert outcome.code == 0, outcome.errors
    (made,) = room.runs.iterdir()
    return made
