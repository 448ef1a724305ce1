"""The option --labels of `judges` and `stats --curve`."""

import click

from harness.cli import options

labels_option = click.option(
    "--labels",
    type=options.FILE,
    metavar="FILE",
    help="Labelled pairs of answers, as `doctor --judge --pairs` reads them. [default: labels.jsonl of the run]",
)
