"""`harness schema`: what the archive's lines look like."""

import click


@click.command()
@click.argument("record", required=False, help="query, rollout, verdict, group, ... [default: all]")
def schema(record: str | None) -> None:
    """Print the JSON Schema of the archive's records, by the `kind` that stands on each line."""
    from harness.archive.schema import json_schema, schemas
    from harness.cli.output import print_json

    print_json(json_schema(record) if record else schemas())
