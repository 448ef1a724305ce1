"""`harness rank`, as a user runs it: a table of scores in, a ranking out, no judge and no archive."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.ranking.score_table import rank_scores
from tests.conftest import ROOT, Harness

CASE = json.loads((ROOT / "tests/data/vectors/n04.json").read_text("utf-8"))["cases"][0]


def test_a_table_is_ranked_as_by_the_function(harness: Harness, tmp_path: Path):
    (tmp_path / "table.json").write_text(json.dumps({"n": 4, "scores": CASE["scores"]}))
    done = harness("rank", "table.json", "--estimator", "margins", "--order", "balanced", "--seed", "3", "--json")
    assert done.code == 0, done.err
    table: Any = {tuple(map(int, pair.split(","))): scores for pair, scores in CASE["scores"].items()}
    found = rank_scores(table, estimator="margins", order="balanced", rng=3)
    assert done.json == json.loads(found.model_dump_json())
    assert {"ranks", "rewards", "advantages", "uncertainty", "matches"} <= done.json.keys()
    shown = harness("rank", "table.json")
    assert shown.code == 0, shown.err
    assert "arena with pooled" in shown.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("[1, 2]", "holds no table"),
        ('{"n": 2}', "holds no table"),
        ('{"n": "2", "scores": {}}', "the number of entrants"),
        ('{"n": 2, "scores": {"0-1": [1, 2]}}', "'0-1'"),
        ('{"n": 2, "scores": {"0,1": [1, NaN], "1,0": [1, 2]}}', "NaN"),
        ('{"n": 2, "scores": {"0,1": [1, 2]}}', "no scores for 1 shown before 0"),
    ],
)
def test_a_table_that_cannot_be_ranked_is_refused_in_one_line(text, says, harness: Harness, tmp_path: Path):
    if text is not None:
        (tmp_path / "table.json").write_text(text)
    done = harness("rank", "table.json")
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1
