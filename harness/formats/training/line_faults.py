"""What a consumer would refuse of a file of JSON lines: each fault with file and line."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.formats.training.art_rules import faults_of_art_group
from harness.formats.training.atif_rules import faults_of_trajectory
from harness.formats.training.openai_rules import faults_of_preference
from harness.formats.training.rules import ExportFormat

FaultsOf = Callable[[Any], Iterator[str]]
"""Yields what is wrong with a record."""
FAULTS_OF: Mapping[ExportFormat, FaultsOf] = {
    "openai-preference": faults_of_preference,
    "art": faults_of_art_group,
    "atif": faults_of_trajectory,
}


def line_faults(lines: Iterable[str], name: str, faults: FaultsOf) -> Iterator[str]:
    """Yield `file:line: what` for each fault of a file."""
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError as exc:
            yield f"{name}:{number}: not JSON: {exc}"
        else:
            yield from (f"{name}:{number}: {fault}" for fault in faults(record))
