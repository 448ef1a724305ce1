"""Formats: between the archive and the files that others write or read.

Here a file becomes records. This room judges nothing, ranks nothing and asks no model.
"""

from harness.formats.csv_table import csv_rows
from harness.formats.imported import ImportedRun
from harness.formats.messages import checked_messages, read_messages
from harness.formats.queries import Asked, queries_of, query_from, read_queries
from harness.formats.trajectory_files import FORMATS, Format, read_trajectories

__all__ = [
    "FORMATS",
    "Asked",
    "Format",
    "ImportedRun",
    "checked_messages",
    "csv_rows",
    "queries_of",
    "query_from",
    "read_messages",
    "read_queries",
    "read_trajectories",
]
