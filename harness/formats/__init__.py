"""Formats: between the archive and what others write or read.

Here a file becomes records; nothing is judged, ranked or asked of a model.
"""

from harness.formats.files import FORMATS, Format, read_foreign
from harness.formats.foreign import Importing
from harness.formats.queries import query_from, read_queries

__all__ = [
    "FORMATS",
    "Format",
    "Importing",
    "query_from",
    "read_foreign",
    "read_queries",
]
