"""Archives of the harness's own making, in which a member or more of some record is hostile; checksums are right."""

import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.attacks import Attack, Room, some
from tests.fuzz.commands import Values, lines_reading

ARCHIVES = (
    "offline-arena",
    "offline-cyclic",
    "offline-manager",
    "offline-ruler",
    "offline-interrupted",
    "offline-unjudged",
)
SEGMENTS = ("blobs", "queries", "rollouts", "verdicts", "rankings")
NUMBERS = (
    *("-1", "0", "1", "2", "7", "0.5", "1e308", "-1e308", "1e999", "1e11", "-62135596800", "NaN", "Infinity"),
    *(str(2**63), str(-(2**63)), "9" * 30, "9" * 400, "9" * 5000),
)
NESTED = (
    *("[]", "{}", "[[[]]]", '["x",1,null]', '{"kind":{"kind":[]}}', '{"$text":"x"}', '[{"$own":1}]'),
    *("[" * 150 + "]" * 150, "[" * 900 + "]" * 900, "[" * 50_000 + "]" * 50_000, '{"a":' * 190 + "1" + "}" * 190),
    *('{"$json":"' + "0" * 64 + '"}', '{"\\ud800":1}'),
)
TIMES = ('"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', '"2026-07-21T14:03:20"', '"never"')
WORDS = (
    *('""', '"9"', '"nan"', '"failed"', '"ok"', '"none"', '"swiss"', '"offline-features"', '"tiktoken:x"', '"(a+)+$"'),
    *(
        '"\\ud800"',
        '"a\\ud800b"',
        '"\\u0000"',
        '"\\u001b]0;t\\u0007"',
        '"\\u202e"',
        '"../../outside/canary"',
        '"/etc/passwd"',
    ),
    *('"-x"', '"' + "0" * 64 + '"', '"' + "x" * 70_000 + '"'),
)
HOSTILE = ("null", "true", *NUMBERS, *NESTED, *TIMES, *WORDS)
VERSIONS = ("null", '"1"', "true", "-1", "0", "1.0", "2", "999999", "9" * 30, "[]", "{}")
_HOLE = "\u0001hole"


def prepare(rng: random.Random, room: Room) -> Attack:
    """One to three records of a run with hostile members, and the commands that read the run; a second run is whole."""
    room.add_run("offline-arena", "20200101T000000-whole-000000")
    run = room.add_run(rng.choice(ARCHIVES))
    done = [spoil(rng, run) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    lines = some(rng, lines_reading(Values(run=run.name)), 6)
    return Attack(input="; ".join(done)[:2000], lines=lines, may_write=("runs",))


def spoil(rng: random.Random, folder: Path, info: str = "run.json", segments: Sequence[str] = SEGMENTS) -> str:
    """Change one record of a folder, make its checksum anew, and say what was done."""
    segment = rng.choice((info, *segments))
    files = [] if segment == info else sorted((folder / segment).glob("*.jsonl"))
    path = rng.choice(files or [folder / info])
    lines = path.read_bytes().splitlines(keepends=True) if files else [path.read_bytes()]
    number = rng.randrange(len(lines))
    try:
        members = json.loads(lines[number])
    except (ValueError, RecursionError):
        return "a record that is spoilt already"
    what, text = _changed(rng, members)
    lines[number] = sealed(text) if files else text
    path.write_bytes(b"".join(lines))
    return f"{path.relative_to(folder)}:{number + 1}: {what}"


def sealed(body: bytes) -> bytes:
    """Return a line with the checksum of what it holds."""
    rest = body.partition(b",")[2] if body.startswith(b'{"crc"') else body[1:]
    return b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n"


def _changed(rng: random.Random, members: dict[str, Any]) -> tuple[str, bytes]:
    if rng.random() < 0.1:
        return _filled(members, ("schema_version",), rng.choice(VERSIONS))
    path = rng.choice(list(_paths(members)))
    way = rng.choice(WAYS)
    return way(rng, members, path)


def _replaced(rng: random.Random, members: dict[str, Any], path: tuple[Any, ...]) -> tuple[str, bytes]:
    return _filled(members, path, rng.choice(HOSTILE))


def _removed(rng: random.Random, members: dict[str, Any], path: tuple[Any, ...]) -> tuple[str, bytes]:
    del rng
    del _at(members, path[:-1])[path[-1]]
    return f"without {_name(path)}", _dumped(members)


def _named_twice(rng: random.Random, members: dict[str, Any], path: tuple[Any, ...]) -> tuple[str, bytes]:
    _at(members, path[:-1])
    text = _dumped(members)[:-1] + b',"%s":%s}' % (str(path[0]).encode(), rng.choice(HOSTILE).encode())
    return f"{path[0]} twice", text


def _swapped(rng: random.Random, members: dict[str, Any], path: tuple[Any, ...]) -> tuple[str, bytes]:
    other = rng.choice(list(_paths(members)))
    return _filled(members, path, json.dumps(_at(members, other)))


def _wrapped(rng: random.Random, members: dict[str, Any], path: tuple[Any, ...]) -> tuple[str, bytes]:
    inner = json.dumps(_at(members, path))
    return _filled(
        members, path, rng.choice((f"[{inner}]", f'{{"a":{inner}}}', f"[{inner},{inner}]", json.dumps(inner)))
    )


def _nudged(rng: random.Random, members: dict[str, Any], path: tuple[Any, ...]) -> tuple[str, bytes]:
    value = _at(members, path)
    if isinstance(value, str):
        return _filled(
            members, path, json.dumps(rng.choice((value[1:], value + "x", value[::-1], value * 2, value.upper())))
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _filled(members, path, str(value + rng.choice((-1, 1, 0.5, 1000))))
    return _replaced(rng, members, path)


WAYS: tuple[Callable[[random.Random, dict[str, Any], tuple[Any, ...]], tuple[str, bytes]], ...] = (
    *(_replaced, _replaced, _replaced, _removed, _named_twice, _swapped, _wrapped, _nudged, _nudged),
)


def _filled(members: dict[str, Any], path: tuple[Any, ...], literal: str) -> tuple[str, bytes]:
    """Put a literal in a member's place, also one that no JSON writer gives."""
    holder = _at(members, path[:-1])
    holder[path[-1]] = _HOLE
    return f"{_name(path)} = {literal[:60]}", _dumped(members).replace(json.dumps(_HOLE).encode(), literal.encode())


def _dumped(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member but the checksum."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if path or key != "crc":
            yield (*path, key)
            yield from _paths(inner, (*path, key))


def _at(members: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        members = members[key]
    return members


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
