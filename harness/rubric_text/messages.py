"""What a child that reads rubrics is asked and answers: a JSON object a line."""

from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from harness.rubric_text.front_matter import Fault, Parts
from harness.rubric_text.template import PlainDimension, Variables


def from_parts(parts: Parts) -> dict[str, Any]:
    """Return a file taken apart as JSON holds it."""
    return {**vars(parts), "lines": [[list(place), line] for place, line in parts.lines.items()]}


def to_parts(members: Mapping[str, Any]) -> Parts:
    """Return a file taken apart."""
    lines = {tuple(place): line for place, line in members["lines"]}
    rest: dict[str, Any] = {name: members[name] for name in ("front", "body", "body_line", "opening")}
    return Parts(lines=lines, **rest)


def from_variables(variables: Variables) -> dict[str, Any]:
    """Return a body's variables as JSON holds them, the weights as they are written."""
    weights = {"path_weight": str(variables.path_weight), "answer_weight": str(variables.answer_weight)}
    return asdict(variables) | weights


def to_variables(members: Mapping[str, Any]) -> Variables:
    """Return a body's variables."""
    dimensions = tuple(PlainDimension(**dimension) for dimension in members["dimensions"])
    return Variables(
        name=members["name"],
        version=members["version"],
        dimensions=dimensions,
        path_weight=Decimal(members["path_weight"]),
        answer_weight=Decimal(members["answer_weight"]),
        max_words=members["max_words"],
    )


def to_faults(rows: list[Any]) -> list[Fault]:
    """Return faults from pairs of line and text."""
    return [Fault(int(line), str(text)) for line, text in rows]
