"""A rubric's body: a template of a small language that reaches nothing but the values it is given. Pure.

Jinja's syntax, less all calls, macros and inclusions, with named filters and tests, on texts, numbers and lists.
What it takes of time and memory is bounded by the process that it runs in (harness.rubric_text.bounded).
"""

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from typing import Any, cast

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.core.errors import did_you_mean, goes_on
from harness.rubric_text.front_matter import MOST_QUOTED, Fault

_MOST_TEXT = 1_000_000
"""Bytes that a body may render to."""
_MOST_FAULTS = 100
FILTERS = tuple(
    "abs capitalize count d default first float int join last length list lower map max min reject rejectattr replace "
    "reverse round select selectattr sort string sum title trim unique upper wordcount".split()
)
TESTS = tuple(
    "boolean defined divisibleby even false in none number odd string true undefined eq equalto == ne != lt lessthan < "
    "le <= gt greaterthan > ge >=".split()
)
_SPOKEN = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Name, nodes.Const),
    *(nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.Operand, nodes.Compare, nodes.CondExpr),
    *(nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.Concat, nodes.Filter, nodes.Test, nodes.Slice),
    *(nodes.Getattr, nodes.Getitem, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod),
)
"""All that the language has; whatever else Jinja has, or will have, is refused."""
_UNSPOKEN: Mapping[type[nodes.Node], str] = {
    nodes.Call: "a call",
    nodes.Pow: "`**`",
    nodes.AssignBlock: "{% set %} around a text",
    nodes.FilterBlock: "{% filter %}",
    nodes.CallBlock: "{% call %}",
    nodes.FromImport: "{% from %}",
}
_OF_A_LOOP = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"})
_OPERATORS = frozenset({"+", "-", "*", "/", "//", "%"})
_LARGEST = 10**15


@dataclass(frozen=True, slots=True)
class PlainDimension:
    """A dimension as a body may speak of it."""

    key: str
    title: str
    block: str
    description: str

    def __repr__(self) -> str:
        """Return what `{{ dimensions }}` has always shown, which prompts may hold."""
        return f"Dimension({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in fields(self))})"


@dataclass(frozen=True)
class Variables:
    """What a body may speak of."""

    name: str
    version: int
    dimensions: tuple[PlainDimension, ...]
    path_weight: Decimal
    answer_weight: Decimal
    max_words: int | None


VARIABLE_NAMES = tuple(field.name for field in fields(Variables))


class _TooLong(Exception):
    """The text has become longer than allowed."""


class _RubricTemplates(ImmutableSandboxedEnvironment):
    """Templates that look values up in what they are given, never in Python objects."""

    intercepted_binops = _OPERATORS

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return a member or an item; there are no methods, and no attributes of Python's."""
        if isinstance(argument, str):
            if isinstance(obj, LoopContext) and argument in _OF_A_LOOP:
                return getattr(obj, argument)
            if isinstance(obj, PlainDimension) and argument in PlainDimension.__slots__:
                return getattr(obj, argument)
        try:
            if isinstance(obj, str | list | tuple | dict):
                return cast("Any", obj)[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined(obj=obj, name=argument)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute with numbers of a size that stays cheap; `+` also joins texts and lists."""
        if operator == "+" and isinstance(left, str | list | tuple):
            if len(cast("str", left)) + len(right) > _MOST_TEXT:
                raise _TooLong
        elif not all(isinstance(number, int | float | Decimal) for number in (left, right)):
            raise SecurityError(f"`{operator}` takes numbers only")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int | Decimal) and abs(result) > _LARGEST:
            raise SecurityError("a number is too large")
        return result

    def is_safe_callable(self, obj: Any) -> bool:
        del obj
        return False


def _environment() -> _RubricTemplates:
    environment = _RubricTemplates(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.globals = {}
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    return environment


def template_faults(body: str, first_line: int) -> list[Fault]:
    """Return what keeps a body from being rendered whatever the values are, each with its line in the file."""
    try:
        tree = _environment().parse(body)
        refused = ((n.lineno, f"the body {reason}") for n in tree.find_all(nodes.Node) if (reason := _refusal(n)))
        rows = list(islice(refused, _MOST_FAULTS)) or list(islice(_unknown_names(tree), _MOST_FAULTS))
        return [Fault(first_line + line - 1, text) for line, text in sorted(dict.fromkeys(rows), key=itemgetter(0))]
    except TemplateSyntaxError as exc:
        return [Fault(first_line + exc.lineno - 1, f"the body is no template: {_first_line(exc)}")]
    except RecursionError:
        return [Fault(first_line, "the body is no template: it is nested too deeply")]


def render(body: str, first_line: int, variables: Variables) -> str | list[Fault]:
    """Render a body, or return what keeps it from being rendered, each with its line in the file."""
    if faults := template_faults(body, first_line):
        return faults
    try:
        return _bounded(_environment().from_string(body).generate(vars(variables)))
    except _TooLong:
        return [Fault(first_line, f"the body makes more than {_MOST_TEXT:,} bytes of text")]
    except RecursionError:
        return [Fault(first_line, "the body cannot be rendered: it is nested too deeply")]
    except MemoryError:
        return [Fault(first_line, "the body cannot be rendered: it needs too much memory")]
    except Exception as exc:  # noqa: BLE001 - whatever a template can run into
        # Jinja puts the line of the template on which rendering stopped into the traceback
        lines = [f.lineno for f in traceback.extract_tb(exc.__traceback__) if f.filename in {"<template>", "<unknown>"}]
        line = (lines[-1] if lines else None) or 1
        return [Fault(first_line + line - 1, f"the body cannot be rendered: {_first_line(exc)}")]


def _bounded(pieces: Iterator[str]) -> str:
    kept, length = list[str](), 0
    for piece in pieces:
        length += len(piece.encode())
        if "\0" in piece:
            raise ValueError("it makes a NUL, which no text holds")
        if length > _MOST_TEXT:
            raise _TooLong
        kept.append(piece)
    return "".join(kept)


def _refusal(node: nodes.Node) -> str | None:
    """Return what a part of a template does that the language does not have; None where it has it."""
    if type(node) not in _SPOKEN:
        return f"uses {_UNSPOKEN.get(type(node)) or f'{{% {type(node).__name__.lower()} %}}'}, which a rubric may not"
    match node:
        case nodes.Filter(name=name) if name not in FILTERS:
            reason = f"uses the filter {_short(name)!r}, which is none of {', '.join(FILTERS)}"
        case nodes.Test(name=name) if name not in TESTS:
            reason = f"uses the test {_short(name)!r}, which is none of {', '.join(TESTS)}"
        case nodes.Getattr(attr=str(name)) | nodes.Getitem(arg=nodes.Const(value=str(name))) if name.startswith("_"):
            reason = f"asks for {_short(name)!r}; no name that begins with _ is given"
        case nodes.Name(name=name) if name.startswith("_") or name in {"self", "super"}:
            reason = f"asks for {_short(name)!r}, which is not given"
        case nodes.For(recursive=True):
            reason = "uses a recursive loop, which a rubric may not"
        case _:
            reason = None
    return reason


def _unknown_names(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    unknown, known = meta.find_undeclared_variables(tree) - set(VARIABLE_NAMES), ", ".join(sorted(VARIABLE_NAMES))
    for line, name in sorted({(n.lineno, n.name) for n in tree.find_all(nodes.Name) if n.name in unknown}):
        nearest = did_you_mean(_short(name), VARIABLE_NAMES)
        yield line, goes_on(f"the body uses a variable {_short(name)!r} that there is not{nearest}", f"known: {known}")


def _first_line(exc: BaseException) -> str:
    text = str(exc.message if isinstance(exc, TemplateError) else exc) or type(exc).__name__
    return _short(text.partition("\n")[0])


def _short(text: str) -> str:
    return text if len(text) <= MOST_QUOTED else text[:MOST_QUOTED] + "…"
