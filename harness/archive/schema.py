"""The published JSON Schema of every line and file that runs and comparisons are made of."""

from typing import Any

from pydantic import TypeAdapter

from harness.archive.batch_log import BatchEnded, BatchMade, BatchResult, BatchSubmitted, BatchUploaded
from harness.archive.checkpoints import KeptOutput, KeptReply
from harness.archive.comparison_reader import ComparisonHead, ComparisonInfo
from harness.archive.lines import SCHEMA_VERSION
from harness.archive.run_info import COMPARISON_FILE, RUN_FILE, RunInfo
from harness.archive.typed_records import RankingHead
from harness.core.comparisons import ComparedQuery
from harness.core.errors import UsageError, did_you_mean, goes_on, quoted
from harness.core.judge_profile import ProbedJudge
from harness.core.rankings import GroupRanking, Verdict
from harness.core.records import Query, Rollout

_RECORDS: dict[str, Any] = {
    RUN_FILE: RunInfo,
    COMPARISON_FILE: ComparisonInfo,
    "query": Query,
    "rollout": Rollout,
    "verdict": Verdict,
    "ranking-header": RankingHead,
    "group": GroupRanking,
    "probed": ProbedJudge,
    "made": BatchMade,
    "uploaded": BatchUploaded,
    "submitted": BatchSubmitted,
    "result": BatchResult,
    "ended": BatchEnded,
    "reply": KeptReply,
    "output": KeptOutput,
    "comparison-header": ComparisonHead,
    "compared": ComparedQuery,
}
_OTHERS: dict[str, dict[str, Any]] = {
    "header": {
        "at": {"type": "string", "format": "date-time"},
        "versions": {"type": "object"},
        "accepted": {"type": "array", "items": {"type": "string"}},
    },
    "blob": {"sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "text": {"type": "string"}},
    "footer": {"groups": {"type": "integer"}, "profiles": {"type": "array", "items": {"type": "object"}}},
    "comparison-footer": {"queries": {"type": "integer"}},
}
_OPTIONAL = {"accepted", "profiles"}
_KINDS = {"ranking-header": "header", "comparison-header": "header", "comparison-footer": "footer"}


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each record by name. `header` opens a segment, `ranking-header` a ranking."""
    by_name = {name: TypeAdapter[Any](kind).json_schema(mode="serialization") for name, kind in _RECORDS.items()}
    for name, members in _OTHERS.items():
        required = [member for member in members if member not in _OPTIONAL]
        by_name[name] = {"type": "object", "properties": members, "required": required}
    return {name: _published(name, schema) for name, schema in sorted(by_name.items())}


def json_schema(name: str) -> dict[str, Any]:
    """Return one record's schema. Raises UsageError for a name that is none."""
    by_name = schemas()
    if name not in by_name:
        there_are = f"there are: {', '.join(by_name)}"
        raise UsageError(goes_on(f"no record {quoted(name)}{did_you_mean(name, by_name)}", there_are))
    return by_name[name]


def _published(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Add what stands on the line beside the record: its checksum, its version, its kind."""
    head: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
    if name in {RUN_FILE, COMPARISON_FILE}:
        return schema | head
    line = {
        "crc": {"type": "string", "pattern": "^[0-9a-f]{8}$", "description": "CRC-32 of the line after this member"},
        "schema_version": {"type": "integer", "maximum": SCHEMA_VERSION},
        "kind": {"const": _KINDS.get(name, name)},
    }
    whole = {"type": "object", "properties": line, "required": list(line)}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return head | {"allOf": [whole, {k: v for k, v in schema.items() if k != "$defs"}]} | definitions
