"""What reads a rubric's text: this process for texts of our own, a child for all others."""

from collections.abc import Sequence
from typing import Protocol

from harness.rubric_text.front_matter import Fault, Parts, take_apart
from harness.rubric_text.template import Variables, render, template_faults


class TextReader(Protocol):
    """Takes a rubric's text apart, and renders its body."""

    def take_apart(self, source: str) -> Parts:
        """Split a rubric's text. Raises Faulty."""
        ...

    def template_faults(self, body: str, first_line: int) -> Sequence[Fault]:
        """Return what keeps a body from being rendered whatever the values are, without rendering it. Raises Faulty."""
        ...

    def render(self, body: str, first_line: int, variables: Variables) -> str | list[Fault]:
        """Render a body, or return what keeps it from being rendered. Raises Faulty."""
        ...


class _InThisProcess:
    """Reads texts that nobody needs protection from, without limits."""

    def take_apart(self, source: str) -> Parts:
        return take_apart(source)

    def template_faults(self, body: str, first_line: int) -> Sequence[Fault]:
        return template_faults(body, first_line)

    def render(self, body: str, first_line: int, variables: Variables) -> str | list[Fault]:
        return render(body, first_line, variables)


TRUSTED: TextReader = _InThisProcess()
"""For the rubrics of the package alone."""
