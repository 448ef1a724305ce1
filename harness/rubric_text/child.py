"""The child process that reads rubrics: it limits itself, then answers a question a line until its input ends."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from harness.rubric_text.front_matter import Fault, Faulty, Parts, take_apart
from harness.rubric_text.template import PlainDimension, Variables, render, template_faults

try:
    import resource
except ImportError:  # Windows
    resource = None


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


def answer_questions() -> None:
    """Answer each line of standard input with a line."""
    limit_process(seconds=int(sys.argv[1]), memory=int(sys.argv[2]))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def limit_process(*, seconds: int, memory: int) -> None:
    """Bound this process: seconds of CPU time, bytes of memory, no files.

    macOS takes the limit of memory and does not hold to it; Windows has none of these limits. There the limits of time
    by the clock and of output, which the parent holds to, remain.
    """
    if resource is None:
        return
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        lowered = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (lowered, lowered))
        except (ValueError, OSError):  # a system that has the limit by name only
            continue


def _answer(question: Mapping[str, Any]) -> dict[str, Any]:
    try:
        if question["do"] == "take_apart":
            return {"parts": from_parts(take_apart(question["source"]))}
        body, line = question["body"], question["first_line"]
        if question["do"] == "template_faults":
            return {"faults": template_faults(body, line)}
        text = render(body, line, to_variables(question["variables"]))
        return {"text": text} if isinstance(text, str) else {"faults": text}
    except Faulty as exc:
        return {"faults": [exc.fault]}
    except (MemoryError, RecursionError):
        return {"faults": [[1, "reading it needs too much memory"]]}
