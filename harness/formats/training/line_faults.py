"""What a consumer would refuse of a file of JSON lines: each fault with file and line."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.formats.training.art_rules import faults_of_art_group
from harness.formats.training.atif_rules import faults_of_trajectory
from harness.formats.training.group_rules import faults_of_group
from harness.formats.training.openai_rules import faults_of_example, faults_of_preference
from harness.formats.training.rules import ExportFormat, ExportRules, SftStyle
from harness.formats.training.trl_rules import faults_of_chat, faults_of_completion, faults_of_pair

FaultsOf = Callable[[Any], Iterator[str]]
"""Yields what is wrong with a record."""
_FAULTS_OF: Mapping[ExportFormat, FaultsOf] = {
    "groups": faults_of_group,
    "dpo": faults_of_pair,
    "openai-preference": faults_of_preference,
    "art": faults_of_art_group,
    "atif": faults_of_trajectory,
}
_FAULTS_OF_EXAMPLE: Mapping[SftStyle, FaultsOf] = {
    "trl": faults_of_chat,
    "trl-turns": faults_of_completion,
    "openai": faults_of_example,
}


def faults_by(rules: ExportRules) -> FaultsOf | None:
    """Return what checks the lines of an export; None for tables."""
    return _FAULTS_OF_EXAMPLE[rules.style] if rules.format == "sft" else _FAULTS_OF.get(rules.format)


def line_faults(lines: Iterable[str], name: str, faults: FaultsOf) -> Iterator[str]:
    """Yield `file:line: what` for each fault of a file."""
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line, parse_constant=_no_json)
        except ValueError as exc:
            yield f"{name}:{number}: not JSON: {exc}"
        else:
            yield from (f"{name}:{number}: {fault}" for fault in faults(record))


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")
