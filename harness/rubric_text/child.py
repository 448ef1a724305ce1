"""The child process that reads rubrics: it limits itself, then answers a question a line until its input ends."""

import json
import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from harness.rubric_text.front_matter import Faulty, take_apart
from harness.rubric_text.template import PlainDimension, Variables, render, template_faults

try:
    import resource
except ImportError:  # Windows
    resource = None


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
            parts = take_apart(question["source"])
            return {"parts": {**vars(parts), "lines": list(parts.lines.items())}}
        body, line = question["body"], question["first_line"]
        if question["do"] == "template_faults":
            return {"faults": template_faults(body, line)}
        values = question["variables"]
        values["dimensions"] = tuple(PlainDimension(**dimension) for dimension in values["dimensions"])
        values |= {name: Decimal(values[name]) for name in ("path_weight", "answer_weight")}
        text = render(body, line, Variables(**values))
        return {"text": text} if isinstance(text, str) else {"faults": text}
    except Faulty as exc:
        return {"faults": [exc.fault]}
    except (MemoryError, RecursionError):
        return {"faults": [[1, "reading it needs too much memory"]]}
