"""The command line: parse, call the pipeline, print. No logic lives here, and nothing heavy is imported for --help."""

from harness.cli.app import main

__all__ = ["main"]
