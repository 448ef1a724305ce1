"""A rubric's file taken apart: front matter as plain values, the line of everything in it, and a template. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

import yaml

MOST_QUOTED = 200
"""Characters of a file that an error quotes."""
_MOST_VALUES = 10_000
_DEEPEST = 20
_DEEPEST_LINE = 4
"""Faults are named by the line of dimensions.0.key, and no deeper."""
_LARGEST = 2**63
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_FENCED = re.compile(
    r"\A(?P<before>\s*---[ \t]*\n)(?P<front>.*?)^---[ \t]*(?:\n(?P<body>.*))?\Z", re.DOTALL | re.MULTILINE
)


class Fault(NamedTuple):
    """Something wrong with a file, and the line (from 1) where it stands."""

    line: int
    text: str


class Faulty(ValueError):
    """The file cannot be read as front matter and body."""

    def __init__(self, line: int, text: str) -> None:

        super().__init__(text)
        self.fault = Fault(line, text)


@dataclass(frozen=True)
class Parts:
    """A file taken apart: what its front matter says, and its body. `body` has no blank lines around it."""

    front: Mapping[str, Any]
    body: str
    body_line: int
    lines: Mapping[tuple[str, ...], int]
    """The line of each key and item, by its place: ("dimensions", "1", "key")."""
    opening: int
    """The line of the opening ---."""

    def find_line(self, place: Sequence[str | int]) -> int:
        """Return the line of what stands at `place` (`dimensions`, 1, `key`), or of what should hold it."""
        steps = tuple(map(str, place))
        within = (self.lines.get(steps[:length]) for length in range(len(steps), 0, -1))
        return next(filter(None, within), self.opening)


def take_apart(source: str) -> Parts:
    """Split a rubric's text. Raises Faulty with the first thing that stops it from being read."""
    if stray := _NO_TEXT.search(source):
        raise Faulty(source[: stray.start()].count("\n") + 1, f"it is no text: it holds {stray[0]!a}")
    fenced = _FENCED.match(source)
    if not fenced:
        raise Faulty(1, "expected front matter between two lines of ---")
    first = fenced["before"].count("\n") + 1
    root = _compose(fenced["front"], first)
    body = fenced["body"] or ""
    skipped = body[: len(body) - len(body.lstrip())].count("\n")
    body_line = fenced.start("body") if fenced["body"] is not None else len(source)
    return Parts(
        front=_construct(root, first),
        body=body.strip(),
        body_line=source[:body_line].count("\n") + 1 + skipped,
        lines={place: first + mark for place, mark in islice(_marks(root, ()), _MOST_VALUES)},
        opening=first - 1,
    )


def _compose(front: str, first: int) -> yaml.MappingNode:
    try:
        root: Any = cast("Any", yaml).compose(front, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        mark, begun = exc.problem_mark or exc.context_mark, exc.context_mark
        what = f" in what began in line {first + begun.line}" if begun and mark and begun.line < mark.line else ""
        line = first + (mark.line if mark else 0)
        raise Faulty(line, f"the front matter is not YAML: {exc.problem}{what}") from None
    except yaml.reader.ReaderError as exc:
        line = first + front[: exc.position].count("\n")
        raise Faulty(line, f"the front matter is not YAML: {exc.reason}") from None
    except RecursionError:
        raise Faulty(first, "the front matter is not YAML: it is nested too deeply") from None
    if not (isinstance(root, yaml.MappingNode) and all(isinstance(key, yaml.ScalarNode) for key, _ in root.value)):
        raise Faulty(first, "the front matter must be `key: value` lines")
    _no_doubles(root, first, set())
    return root


def _no_doubles(node: yaml.Node, first: int, seen: set[int]) -> None:
    """Raise Faulty for a key that stands twice: YAML would let the last one win."""
    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _no_doubles(item, first, seen)
    elif isinstance(node, yaml.MappingNode):
        keys = set[str]()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise Faulty(first + key.start_mark.line, f"{key.value[:MOST_QUOTED]}: stands twice")
                keys.add(key.value)
            _no_doubles(value, first, seen)


def _construct(root: yaml.MappingNode, first: int) -> dict[str, Any]:
    members, budget = dict[str, Any](), iter(range(_MOST_VALUES))
    loader: Any = yaml.SafeLoader("")
    for key, value in root.value:
        name = key.value[:MOST_QUOTED]
        try:
            members[key.value] = _plain(loader.construct_document(value), budget)
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or key.start_mark
            raise Faulty(first + mark.line, f"{name}: not YAML: {exc.problem}") from None
        except RecursionError:
            raise Faulty(first + key.start_mark.line, f"{name}: it is nested too deeply") from None
        except (ValueError, OverflowError) as exc:  # ValueError: a date such as 2026-13-45, or _plain's own
            raise Faulty(first + key.start_mark.line, f"{name}: not YAML: {exc}") from None
    return members


def _plain(value: Any, budget: Iterator[int], depth: int = 0) -> Any:
    """Return a copy that is made of texts, numbers, lists and mappings alone. Raises ValueError for anything else.

    `budget` yields while values may still come: aliases of aliases make billions out of a few lines.
    """
    if next(budget, None) is None:
        raise ValueError(f"it holds more than {_MOST_VALUES:,} values, aliases counted each time")
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, list):
        return [_plain(item, budget, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {str(_scalar(key)): _plain(item, budget, depth + 1) for key, item in members.items()}
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise ValueError("a number is too large")
    if not isinstance(value, str | int | float | None):
        raise ValueError(  # noqa: TRY004 - the file is wrong, not the program
            f"a {type(value).__name__} is no text, number, list or mapping; put a text into quotes"
        )
    if isinstance(value, str) and _NO_TEXT.search(value):
        raise ValueError("it is no text: it holds a NUL or a lone surrogate")
    return value


def _marks(node: yaml.Node, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the place and the line (from 0, within the front matter) of each key and item, down to a small depth."""
    if len(place) == _DEEPEST_LINE:
        return
    if isinstance(node, yaml.SequenceNode):
        children = [(str(at), item, item) for at, item in enumerate(node.value)]
    elif isinstance(node, yaml.MappingNode):
        children = [(key.value, key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
    else:
        return
    for name, marked, child in children:
        yield (*place, name), marked.start_mark.line
        yield from _marks(child, (*place, name))
