"""`--estimator pooled`: places are provisional until all groups are in; a kill on the way is resumed exactly."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.archive import RunReader
from harness.report import judge_profiles
from tests.cli.test_endpoint_run import lines
from tests.conftest import Done, Harness

ROOT = Path(__file__).parents[2]
QUERIES = ("Why was Lisp first?", "Who made C?", "When did Prolog come?")
KILLED = """
import os, signal, sys
from harness.archive import RunStore
from harness.archive.run_store import RankingWriter

add, finish, left = RankingWriter.add, RankingWriter.finish, int(sys.argv.pop(1))

def count(writer, *result):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    (add if result else finish)(writer, *result)

RankingWriter.add = RankingWriter.finish = count
import runpy
runpy.run_module("harness", run_name="__main__")
"""
"""The program, which is killed when it would write line so-and-so of a ranking: three are provisional, three count."""


def places(shown: Any) -> Any:
    figures = ("index", "rank", "score", "uncertainty", "p_best", "p_above_mean", "reward")
    return {g["id"]: (g["signal"], [[r[f] for f in figures] for r in g["rollouts"]]) for g in shown["groups"]}


def rescored(harness: Harness, *more: str) -> Done:
    done = harness("rescore", "--free", "--estimator", "pooled", "--json", *more)
    assert done.code == 0, done.err
    return done


@pytest.fixture
def run(harness: Harness, tmp_path: Path) -> Path:
    """A run of three queries, ranked by `tiers`."""
    asked = [json.dumps({"id": f"q{i}", "query": query}) for i, query in enumerate(QUERIES)]
    (tmp_path / "q.jsonl").write_text("\n".join(asked))
    done = harness(*"run --offline --queries q.jsonl -n 5 -q --json".split())
    assert done.code == 0, done.err
    return tmp_path / done.json["path"]


def test_a_run_that_is_there_is_ranked_anew_for_no_call_and_as_a_run_would_have_ranked_it(harness: Harness, run: Path):
    verdicts = len(lines(run, "verdicts"))
    done = rescored(harness)
    assert len(lines(run, "verdicts")) == verdicts
    assert {(g["estimator"], g["provisional"], g["judged"]) for g in done.json["groups"]} == {("pooled", False, 0)}
    assert harness("validate", str(run)).code == 0
    assert "nothing to do" in harness("resume", "last").out
    with RunReader(run) as reader:
        ranking, tiers = reader.ranking(), reader.ranking(reader.heads()[0].id)
        assert (len(ranking.profiles), tiers.profiles) == (1, ())
        assert judge_profiles(reader, ranking) == judge_profiles(reader, replace(ranking, profiles=()))
    outright = harness(*"run --offline --queries q.jsonl -n 5 -q --json --estimator pooled".split())
    assert places(outright.json) == places(done.json)


@pytest.mark.parametrize("written", range(1, 7))
def test_killed_between_provisional_and_final_it_says_provisional_and_resume_ends_as_if_nothing_had_happened(
    harness: Harness, run: Path, written: int
):
    whole = run.parents[1] / "whole"
    shutil.copytree(run.parent, whole)
    expected = places(rescored(harness, "--runs-dir", str(whole)).json)
    # `resume` ends a ranking that was allowed to buy
    args = [sys.executable, "-c", KILLED, str(written), "rescore", "--estimator", "pooled", "-q"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    killed = subprocess.run(args, cwd=run.parents[1], env=env, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with RunReader(run) as reader:
        ranking, final = reader.ranking(), max(0, written - 3)
        assert (len(ranking.groups), ranking.finished) == (min(written, 3), False)
        assert len(ranking.provisional) == len(ranking.groups) - final
    shown, listed = harness("show", "last").out, harness("show", "--rankings", "last").out
    assert ("provisional" in shown, "provisional" in listed) == ((written < 6,) * 2)
    assert harness("validate", str(run)).code == 0
    resumed = harness("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert places(resumed.json) == expected
    assert harness("validate", str(run)).code == 0


def test_a_final_line_that_is_gone_or_a_provisional_one_behind_the_footer_is_damage(harness: Harness, run: Path):
    rescored(harness)
    newest = max((run / "rankings").glob("*.jsonl"))
    before = newest.read_bytes().splitlines(keepends=True)
    newest.write_bytes(b"".join([*before[:4], *before[5:]]))
    done = harness("validate", str(run))
    assert (done.code, "it counts 3 groups, and there are 2" in done.out) == (5, True), done.out
    assert "the ranks of" not in done.out
