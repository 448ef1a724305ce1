"""`harness schema`: what the archive's lines look like."""

import json

import click


@click.command()
@click.argument("record", required=False, help="query, rollout, verdict, group, ... [default: all]")
def schema(record: str | None) -> None:
    """Print the JSON Schema of the archive's records, by the `kind` that stands on each line."""
    from harness.archive import schema_of, schemas

    click.echo(json.dumps(schema_of(record) if record else schemas(), indent=1))
