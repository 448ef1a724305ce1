"""duckdb and datasets read the tables of `parquet`."""

from typing import Any

import pytest

from tests.consumers.conftest import Exported
from tests.consumers.test_datasets import loaded

pytest.importorskip("pyarrow")


def test_duckdb_joins_the_tables(exported: Exported):
    duckdb: Any = pytest.importorskip("duckdb")
    folder = exported("parquet", "looker", "--split", "train=0.5,test=0.5")
    query = """
        select s.query_id, s.match, m.winner, avg(case when s.first = m.a then s.score_first else s.score_second end) a,
               any_value(m.score_a) score_a, any_value(r.answer) answer
        from '{0}/*-scores.parquet' s
        join '{0}/*-matches.parquet' m using (run, query_id, match)
        join '{0}/*-rollouts.parquet' r on (r.run, r.query_id, r.index) = (m.run, m.query_id, m.a)
        group by all
    """
    rows = duckdb.sql(query.format(folder)).fetchall()
    assert len(rows) == 4 * 6
    assert all(mean == pytest.approx(score) and answer.startswith("Number") for *_, mean, score, answer in rows)
    steps = duckdb.sql(f"select tool_name, count(*) from '{folder}/*-steps.parquet' group by all").fetchall()
    assert steps == [("look_up", 16)]


def test_datasets_load_each_table_by_its_name(exported: Exported):
    pytest.importorskip("datasets")
    folder = exported("parquet", "looker")
    counts = {name: len(loaded(folder, name=name)["train"]) for name in ("rollouts", "steps", "matches", "scores")}
    assert counts == {"rollouts": 16, "steps": 16, "matches": 24, "scores": 48}
    assert set(loaded(folder)["train"].column_names) >= {"reward", "answer"}
