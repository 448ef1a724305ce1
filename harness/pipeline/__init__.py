"""The pipeline: what a command does, each stage a room of its own. Read harness.pipeline.runs first."""
