"""Hostile files of trajectories for `import`, and of scores for `rank` and pairs for `doctor --judge`."""

import json
import random
from typing import Any

from tests.formats.foreign_samples import SAMPLES
from tests.fuzz.attacks import GOLDEN, Attack, Room
from tests.fuzz.mutations import broken, mutated, written

_PAIR = {"query": "Why?", "a": "Because.", "b": {"answer": "x", "path": "Step 1"}, "label": "a", "class": "c"}


def prepare(rng: random.Random, room: Room) -> Attack:
    """A file of one of the formats, with some of it changed, and the commands that read what was made of it."""
    match rng.choice(("import", "import", "import", "table", "pairs")):
        case "table":
            table = json.loads((GOLDEN / "inputs" / "table.json").read_text())
            name, lines = (
                "table.json",
                [("rank", "table.json"), ("rank", "table.json", "--json", "--topology", "cyclic")],
            )
            content = _changed(rng, [table])
        case "pairs":
            name, content = "pairs.jsonl", _changed(rng, [_PAIR, _PAIR])
            lines = [("doctor", "--judge", "--judge-model", "offline-features", "--pairs", name)]
        case _:
            name, content, lines = _trajectories(rng)
    (room.work / name).write_bytes(content)
    return Attack(input=repr(content[:300]), lines=lines)


def _trajectories(rng: random.Random) -> tuple[str, bytes, list[tuple[str, ...]]]:
    atif = json.loads((GOLDEN / "inputs" / "atif.json").read_text())
    messages = [json.loads(line) for line in (GOLDEN / "inputs" / "made.jsonl").read_text().splitlines()]
    foreign = rng.choice(list(SAMPLES.values()))[1]
    documents: list[Any] = rng.choice(([atif], messages, [*messages, atif, atif], foreign))
    format_ = rng.choice(((), (), ("--format", "atif"), ("--format", "messages")))
    whole = rng.random() < 0.3
    name = "made.json" if whole else "made.jsonl"
    content = _changed(rng, [documents] if whole else documents)
    anchor = rng.choice(((), ("--first-is-anchor",)))
    rescored = ("rescore", "last", "--judge-model", "offline-features")
    return name, content, [("import", name, *format_, *anchor), ("show", "last"), rescored, ("validate", "last")]


def _changed(rng: random.Random, documents: list[Any]) -> bytes:
    changed = [mutated(rng, document, rng.choice((0, 1, 1, 2, 5))) for document in documents]
    content = b"\n".join(written(rng, document) for document in changed)
    return broken(rng, content) if rng.random() < 0.3 else content
