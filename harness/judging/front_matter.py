"""A rubric's file taken apart: front matter with the line of everything in it, and a template. Pure."""

import re
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import yaml
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import SandboxedEnvironment

from harness.core.errors import did_you_mean

_TEMPLATES = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
"""Sandboxed: a rubric is a text that people pass on, and must not be able to run anything."""
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
        """Carry the fault."""
        super().__init__(text)
        self.fault = Fault(line, text)


@dataclass(frozen=True)
class Parts:
    """A file taken apart: what its front matter says, and its body. `body` has no blank lines around it."""

    front: dict[str, Any]
    body: str
    body_line: int
    root: yaml.MappingNode
    first_line: int

    def line_of(self, place: Sequence[str | int]) -> int:
        """Return the line of what stands at `place` (`dimensions`, 1, `key`), or of what should hold it."""
        node: yaml.Node = self.root
        line = self.first_line - 1  # of the opening ---, for a key that is missing at the top
        for part in place:
            child = _child(node, part)
            if child is None:
                break
            mark, node = child
            line = self.first_line + mark
        return line


def take_apart(source: str) -> Parts:
    """Split a rubric's text. Raises Faulty with the first thing that stops it from being read."""
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
        root=root,
        first_line=first,
        body_line=source[:body_line].count("\n") + 1 + skipped,
    )


def render_body(template: str, variables: dict[str, Any]) -> str:
    """Render a rubric's body. Raises whatever a template can run into."""
    return _TEMPLATES.from_string(template).render(**variables)


def template_faults(body: str, first_line: int, variables: dict[str, Any] | Sequence[str]) -> list[Fault]:
    """Return what keeps a body from being rendered with `variables`, each with its line in the file.

    With nothing but their names it is not rendered.
    """
    try:
        tree = _TEMPLATES.parse(body)
        unknown = meta.find_undeclared_variables(tree)
    except TemplateSyntaxError as exc:
        return [Fault(first_line + exc.lineno - 1, f"the body is no template: {exc.message}")]
    names = {(n.lineno, n.name) for n in tree.find_all(nodes.Name) if n.name in unknown and n.name not in variables}
    faults = [Fault(first_line + line - 1, _no_variable(name, variables)) for line, name in sorted(names)]
    if faults or not isinstance(variables, dict):
        return faults
    try:
        render_body(body, variables)
    except Exception as exc:  # noqa: BLE001 - whatever a template can run into
        return [Fault(first_line + _line_within(exc) - 1, f"the body cannot be rendered: {_first_line(exc)}")]
    return []


def _no_variable(name: str, variables: Collection[str]) -> str:
    names = ", ".join(sorted(variables))
    return f"the body uses a variable {name!r} that there is not{did_you_mean(name, variables)}; known: {names}"


def _line_within(exc: BaseException) -> int:
    """Return the line of the template on which rendering stopped; Jinja puts it into the traceback."""
    lines = [f.lineno for f in traceback.extract_tb(exc.__traceback__) if f.filename in {"<template>", "<unknown>"}]
    return (lines[-1] if lines else None) or 1


def _first_line(exc: BaseException) -> str:
    return (str(exc.message if isinstance(exc, TemplateError) else exc) or type(exc).__name__).partition("\n")[0]


def _compose(front: str, first: int) -> yaml.MappingNode:
    try:
        root: Any = cast("Any", yaml).compose(front, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        raise Faulty(*_yaml_fault(exc, first)) from None
    except yaml.reader.ReaderError as exc:
        line = first + front[: exc.position].count("\n")
        raise Faulty(line, f"the front matter is not YAML: {exc.reason}") from None
    except RecursionError:
        raise Faulty(first, "the front matter is not YAML: it is nested too deeply") from None
    if not isinstance(root, yaml.MappingNode) or not _has_plain_keys(root):
        raise Faulty(first, "the front matter must be `key: value` lines")
    _no_doubles(root, first, set())
    return root


def _yaml_fault(exc: yaml.MarkedYAMLError, first: int) -> tuple[int, str]:
    mark, begun = exc.problem_mark or exc.context_mark, exc.context_mark
    what = f" in what began in line {first + begun.line}" if begun and mark and begun.line < mark.line else ""
    return first + (mark.line if mark else 0), f"the front matter is not YAML: {exc.problem}{what}"


def _has_plain_keys(root: yaml.MappingNode) -> bool:
    return all(isinstance(key, yaml.ScalarNode) for key, _ in root.value)


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
            if key.value in keys if isinstance(key, yaml.ScalarNode) else False:
                raise Faulty(first + key.start_mark.line, f"{key.value}: stands twice")
            if isinstance(key, yaml.ScalarNode):
                keys.add(key.value)
            _no_doubles(value, first, seen)


def _construct(root: yaml.MappingNode, first: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    loader: Any = yaml.SafeLoader("")
    for key, value in root.value:
        try:
            members[key.value] = loader.construct_document(value)
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or key.start_mark
            raise Faulty(first + mark.line, f"{key.value}: not YAML: {exc.problem}") from None
        except (ValueError, RecursionError, OverflowError) as exc:  # ValueError: a date such as 2026-13-45
            raise Faulty(first + key.start_mark.line, f"{key.value}: not YAML: {exc}") from None
    return members


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        item = node.value[part]
        return item.start_mark.line, item
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key.start_mark.line, value
    return None
