"""The columns of each format, as the head of the data card declares them to `datasets`.

Without them `datasets` takes the columns of the first 10 MB for those of the whole file, cannot load a file in which
later tools or arguments have other keys, and fills each message with the keys of all the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from harness.formats.training.rules import ExportFormat, ExportRules

DatasetsType: TypeAlias = "str | Mapping[str, DatasetsType] | Sequence[DatasetsType]"
"""A type of `datasets`, a record of columns, or a list: its one entry says of what."""

_OBJECTS = ["json"]
"""Objects of any keys: messages, tools."""
_SEQUENCE: Mapping[str, DatasetsType] = {
    "agent": "string",
    "model": "string",
    "messages": _OBJECTS,
    "tools": _OBJECTS,
    "message_mask": ["int64"],
    "within": "string",
    "output_schema": "json",
    "token_ids": ["int64"],
    "token_mask": ["int64"],
    "logprobs": ["float64"],
}
_GROUP: Mapping[str, DatasetsType] = {
    "query_id": "string",
    "signal": "string",
    "judge": "string",
    "rollouts": [
        {
            "index": "int64",
            "role": "string",
            "reward": "float64",
            "advantage": "float64",
            "uncertainty": "float64",
            "failed": "string",
            "sequences": [_SEQUENCE],
        }
    ],
}
_TALK: Mapping[str, DatasetsType] = {"messages": _OBJECTS, "tools": _OBJECTS}
_TURN: Mapping[str, DatasetsType] = {"prompt": _OBJECTS, "completion": _OBJECTS, "tools": _OBJECTS}
_PAIR: Mapping[str, DatasetsType] = {"prompt": _OBJECTS, "chosen": _OBJECTS, "rejected": _OBJECTS, "tools": _OBJECTS}
_OPENAI_PAIR: Mapping[str, DatasetsType] = {
    "input": _TALK,
    "preferred_output": _OBJECTS,
    "non_preferred_output": _OBJECTS,
}
_HISTORY: Mapping[str, DatasetsType] = {"messages_and_choices": _OBJECTS, "tools": _OBJECTS}
_ART_GROUP: Mapping[str, DatasetsType] = {
    "trajectories": [
        {
            **_HISTORY,
            "reward": "float64",
            "metrics": "json",
            "metadata": "json",
            "logs": ["string"],
            "additional_histories": [_HISTORY],
        }
    ]
}
_ATIF: Mapping[str, DatasetsType] = {
    "schema_version": "string",
    "trajectory_id": "string",
    "session_id": "string",
    "agent": "json",
    "steps": _OBJECTS,
    "notes": "string",
    "final_metrics": "json",
    "extra": "json",
    "subagent_trajectories": _OBJECTS,
}
_COLUMNS: Mapping[ExportFormat, Mapping[str, DatasetsType]] = {
    "groups": _GROUP,
    "sft": _TALK,
    "dpo": _PAIR,
    "openai-preference": _OPENAI_PAIR,
    "art": _ART_GROUP,
    "atif": _ATIF,
}


def declared_columns(rules: ExportRules) -> list[dict[str, Any]] | None:
    """Return the columns of a file as `features` in a card's head; None for a table, whose cells say what they are."""
    columns = _TURN if rules.style == "trl-turns" else _COLUMNS.get(rules.format)
    return list(_declared(columns)) if columns else None


def _declared(columns: Mapping[str, DatasetsType]) -> Iterator[dict[str, Any]]:
    for name, column in columns.items():
        if isinstance(column, str):
            yield {"name": name, "dtype": column}
        elif isinstance(column, Mapping):
            yield {"name": name, "struct": list(_declared(column))}
        else:
            (kind,) = column
            yield {"name": name, "list": list(_declared(kind)) if isinstance(kind, Mapping) else kind}
