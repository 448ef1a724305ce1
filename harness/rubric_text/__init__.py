"""Rubric text: a stranger's file is taken apart and its template rendered, in a child process within limits.

What comes out is plain: texts, numbers, lists. This room must not know what a rubric means, and loads neither
pydantic nor the SDK: the child has to start quickly.
"""

from harness.rubric_text.bounded import in_child
from harness.rubric_text.front_matter import Fault, Faulty, Parts
from harness.rubric_text.reading import TRUSTED, TextReader
from harness.rubric_text.template import PlainDimension, Variables

__all__ = ["TRUSTED", "Fault", "Faulty", "Parts", "PlainDimension", "TextReader", "Variables", "in_child"]
