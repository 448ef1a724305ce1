"""The command line: parse, call the pipeline, print. No logic lives here, and nothing heavy is imported for --help."""
