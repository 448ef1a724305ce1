"""Hostile query files: JSONL, CSV, lines and standard input, as `run --queries` takes them."""

import csv
import io
import random
from typing import Any

from tests.fuzz.attacks import Attack, Room
from tests.fuzz.mutations import broken, hostile_value, mutated, written
from tests.fuzz.words import hostile_word

_ITEMS = [
    {"role": "user", "content": [{"type": "input_text", "text": "Why?"}, {"type": "input_image", "image_url": "data:"}]}
]
_ROWS: tuple[dict[str, Any], ...] = (
    {"query": "Why is the sky blue?", "id": "sky", "reference": "Short waves scatter more.", "level": None},
    {"text": "What is a tide?", "expected": 5, "tags": ["a", {"b": 1}]},
    {"input": _ITEMS, "id": "items"},
)


def prepare(rng: random.Random, room: Room) -> Attack:
    """A query file, asked offline by two rollouts and shown, or only planned."""
    ending = rng.choice((".jsonl", ".jsonl", ".ndjson", ".csv", ".txt", ""))
    content = _csv(rng) if ending == ".csv" else _lines(rng, json_lines=ending in {".jsonl", ".ndjson"})
    if rng.random() < 0.5:
        content = broken(rng, content)
    path = room.work / f"queries{ending}"
    path.write_bytes(content)
    source = rng.choice((path.name, path.name, "-"))
    plain = ("run", "--offline", "-n", "2", "--topology", "none", "-q", "--queries", source)
    if len(content) > 50_000 or rng.random() < 0.5:
        lines = [(*plain, "--dry-run")]
    else:
        lines = [
            plain,
            ("show", "last"),
            ("show", "last", "--sort", rng.choice(("-level", "tags", "query"))),
            ("show", "last", "--columns", rng.choice(("level", "tags,level", hostile_word(rng)[:50]))),
            ("validate", "last"),
            ("rescore", "last", "--judge-model", "offline-features"),
        ]
    return Attack(input=repr(content[:300]), lines=lines, stdin=content)


def _lines(rng: random.Random, *, json_lines: bool) -> bytes:
    rows = [mutated(rng, rng.choice(_ROWS), rng.choice((0, 1, 1, 3))) for _ in range(rng.choice((1, 2, 3)))]
    if not json_lines and rng.random() < 0.6:
        texts = [rng.choice((hostile_word(rng), "Why?", '"quoted" words', "{no json", '"unended')) for _ in range(3)]
        return "\n".join(texts).encode("utf-8", "surrogateescape")
    return b"\n".join(written(rng, row) for row in rows)


def _csv(rng: random.Random) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, quoting=rng.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL)))
    names = ["query", "id", rng.choice(("reference", "", "query", hostile_word(rng)[:50]))]
    writer.writerow(names)
    for _ in range(2):
        cells = [str(hostile_value(rng)) if rng.random() < 0.4 else f"Why {rng.random()}?" for _ in names]
        writer.writerow(cells[: rng.choice((1, 3, 3))] + ["more"] * rng.choice((0, 0, 1)))
    return text.getvalue().encode("utf-8", "surrogatepass")
