"""JSON and bytes, changed at random into what nobody would write."""

import copy
import json
import random
from typing import Any

from tests.fuzz.words import hostile_word

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    3.5,
    1e308,
    float("nan"),
    float("inf"),
    10**18,
    10**400,
    "",
    " ",
    "text",
    "x" * 100_000,
    "\ud800",
    "a\ud800b\udfff",
    "\x00",
    "\x1b]0;title\x07",
    "\u202e\u2066",
    "2026-13-45T99:99:99",
    "9999-12-31T23:59:59+99:99",
    [],
    {},
    [[]],
    [{}],
    {"": {}},
    [None, 1, "x"],
    [["x"] * 1000] * 3,
)


def deep(levels: int) -> str:
    """Return JSON nested so deep."""
    return "[" * levels + "]" * levels


def hostile_value(rng: random.Random) -> Any:
    """Return a value of some type, and seldom the one that is expected."""
    return hostile_word(rng) if rng.random() < 0.2 else copy.deepcopy(rng.choice(VALUES))


def mutated(rng: random.Random, value: Any, times: int = 1) -> Any:
    """Return a copy of a JSON value with so many places changed: replaced, left out, doubled, renamed, nested."""
    root = [copy.deepcopy(value)]
    for _ in range(times):
        parent, key = rng.choice(_places(root))
        _change(rng, parent, key)
        root = root or [None]
    return root[0]


def _places(root: Any) -> list[tuple[Any, Any]]:
    """Return every member of every list and object below the root, as its parent and its key."""
    places: list[tuple[Any, Any]] = []
    left = [root]
    while left and len(places) < 5000:
        parent = left.pop()
        for key in list(parent) if isinstance(parent, dict) else range(len(parent)):
            places.append((parent, key))
            if isinstance(parent[key], dict | list):
                left.append(parent[key])
    return places


def _change(rng: random.Random, parent: Any, key: Any) -> None:
    match rng.choice(("replace", "replace", "replace", "leave out", "double", "rename", "nest")):
        case "leave out":
            del parent[key]
        case "double" if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        case "rename" if isinstance(parent, dict):
            parent[hostile_word(rng)] = parent.pop(key)
        case "nest":
            for _ in range(rng.choice((1, 50, 99, 150))):
                parent[key] = [parent[key]]
        case _:
            parent[key] = hostile_value(rng)


def written(rng: random.Random, value: Any) -> bytes:
    """Return a value as JSON; lone surrogates as escapes or as bytes that are no UTF-8, NaN and infinities as such."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.08:
        text = text.replace("null", deep(rng.choice((99, 900, 100_000))), 1)
    return text.encode("utf-8", "surrogatepass")


def broken(rng: random.Random, content: bytes) -> bytes:
    """Return bytes that are less of a text: cut, turned, in another encoding, with NUL or a byte order mark."""
    at = rng.randrange(len(content) + 1)
    match rng.randrange(12):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + rng.randbytes(rng.choice((1, 30, 3000))) + content[at:]
        case 2:
            return content.decode("utf-8", "replace").encode("utf-16")
        case 3:
            return b"\xef\xbb\xbf" * rng.choice((1, 2)) + content
        case 4:
            return content[:at] + b"\0" + content[at:]
        case 5:
            return content.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n\n", b"\xe2\x80\xa8")))
        case 6:
            return content * rng.choice((2, 50))
        case 7:
            return rng.randbytes(rng.choice((0, 1, 2, 300)))
        case _:
            return content
