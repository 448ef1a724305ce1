"""Every line that is written fits its published schema."""

import json
from pathlib import Path

import pytest

from harness.archive.schema import json_schema, schemas
from harness.core.errors import UsageError
from tests.archive.comparing import a_filled_comparison
from tests.archive.test_validation import WHOLE, files_of


def test_every_line_of_a_run_has_a_schema_that_names_its_members():
    known = schemas()
    for path in files_of(WHOLE):
        for line in path.read_text().splitlines():
            told = json.loads(line)
            name = "ranking-header" if path.parent.name == "rankings" and told["kind"] == "header" else told["kind"]
            whole = json.dumps(known[name])
            assert known[name]["allOf"][0]["properties"]["kind"]["const"] == told["kind"]
            assert all(f'"{member}"' in whole for member in told)


def test_every_line_of_a_comparison_has_a_schema_that_names_its_members(tmp_path: Path):
    folder, known = a_filled_comparison(tmp_path), schemas()
    assert json.loads((folder / "compare.json").read_text()).keys() == known["compare.json"]["properties"].keys()
    for path in folder.glob("*/*.jsonl"):
        for line in path.read_text().splitlines():
            told = json.loads(line)
            is_result = path.parent.name == "comparisons" and told["kind"] in {"header", "footer"}
            name = f"comparison-{told['kind']}" if is_result else told["kind"]
            whole = json.dumps(known[name])
            assert known[name]["allOf"][0]["properties"]["kind"]["const"] == told["kind"]
            assert all(f'"{member}"' in whole for member in told)


def test_an_unknown_record_is_a_usage_error_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'rollout'"):
        json_schema("rolout")
