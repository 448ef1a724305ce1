"""The core: records, settings, errors, redaction, progress and clock, which every room speaks.

This room has no door: its modules are imported by name, so that `--help` loads no pydantic.
"""
