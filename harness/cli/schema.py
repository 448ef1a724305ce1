"""`harness schema`: what the archive's lines look like."""

from harness.archive.schema import json_schema, schemas
from harness.cli.output import print_json


def schema(record: str | None) -> None:
    """Print the JSON Schema of a kind of record, or of all."""
    print_json(json_schema(record) if record else schemas())
