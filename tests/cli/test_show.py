"""`harness show`, as a user runs it: a real process that reads an archived run."""

import json
from pathlib import Path

import pytest

from tests.conftest import Harness

LANGUAGES = ("lisp", "fortran", "cobol", "python")


@pytest.fixture
def four(harness: Harness, tmp_path: Path) -> list[dict[str, object]]:
    """Archive a run of four queries, more than get a table each; return its groups."""
    lines = (json.dumps({"id": name, "query": f"History of {name}"}) for name in LANGUAGES)
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    done = harness("run", "--queries", "q.jsonl", "-n", "2", "--json")
    assert done.code == 0, done.err
    return done.json["groups"]


def test_one_query_of_many_has_its_own_table_and_lines(four, harness: Harness):
    shown = harness("show", "last", "--query", "cobol")
    assert shown.code == 0, shown.err
    assert "History of cobol" in shown.out
    assert "#1 rollout" in shown.out
    assert "agent: 2 runs" in shown.out
    assert not any(f"History of {other}" in shown.out for other in LANGUAGES if other != "cobol")
    assert "4 queries" not in shown.out


def test_one_query_of_many_is_the_only_group_of_the_json(four, harness: Harness):
    shown = harness("show", "last", "--query", "cobol", "--json")
    assert shown.code == 0, shown.err
    assert shown.json["groups"] == [group for group in four if group["id"] == "cobol"]


@pytest.mark.parametrize("more", [(), ("--json",), ("--rollout", "0")])
def test_an_unknown_query_is_refused_with_the_nearest_there_is(more, four, harness: Harness):
    shown = harness("show", "last", "--query", "cobal", *more)
    assert shown.code == 2
    assert shown.out == ""
    assert "no query 'cobal'" in shown.err
    assert "did you mean 'cobol'?" in shown.err


def test_a_ranking_that_has_not_come_to_a_query_says_so(four, harness: Harness, tmp_path: Path):
    (ranking,) = tmp_path.glob("runs/*/rankings/*.jsonl")
    kept = [line for line in ranking.read_text().splitlines(keepends=True) if '"cobol"' not in line]
    ranking.write_text("".join(kept[:-1]))
    shown = harness("show", "last", "--query", "cobol")
    assert shown.code == 2
    assert "has not come to query 'cobol'" in shown.err
    assert "harness rescore" in shown.err
