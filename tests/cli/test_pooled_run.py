"""`pooled`, and beside `tiers`: what is provisional until all groups are in; a kill on the way is resumed exactly."""

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

from harness.archive.reader import RunReader
from harness.report.learnt_judges import judge_profiles
from harness.report.summary.pooled_fit import pair_odds
from harness.report.summary.why import explain_pair, find_pair
from tests.cli.test_endpoint_run import lines
from tests.conftest import Done, Harness

ROOT = Path(__file__).parents[2]
QUERIES = ("Why was Lisp first?", "Who made C?", "When did Prolog come?")
KILLED = """
import os, signal, sys
from harness.archive.store import RunStore
from harness.archive.store import RankingWriter

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
def run(harness_once: Harness, tmp_path: Path) -> Path:
    """A run of three queries, ranked by `tiers`."""
    asked = [json.dumps({"id": f"q{i}", "query": query}) for i, query in enumerate(QUERIES)]
    (tmp_path / "q.jsonl").write_text("\n".join(asked))
    done = harness_once(*"run --offline --queries q.jsonl -n 5 -q --json --estimator tiers".split())
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


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_places_by_tiers_count_before_all_groups_are_in_and_only_their_probabilities_are_called_provisional(
    harness: Harness, run: Path
):
    whole = harness("show", "--json").json
    args = [sys.executable, "-c", KILLED, "4", "rescore", "-q"]
    subprocess.run(args, cwd=run.parents[1], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    cut_short = harness("show", "--json").json
    assert [g["provisional"] for g in cut_short["groups"]].count(True) == 2
    for told, group in zip(cut_short["groups"], whole["groups"], strict=True):
        assert [(r["rank"], r["reward"]) for r in told["rollouts"]] == [
            (r["rank"], r["reward"]) for r in group["rollouts"]
        ]
        assert told["secondary_fit"] == ("margins" if told["provisional"] else "pooled")
    assert "probabilities provisional" in harness("show", "--rankings").out
    shown = harness("show").out
    assert "probabilities provisional" in shown
    assert "provisional: these places count" in shown
    assert harness("validate", str(run)).code == 0
    assert places(harness("resume", "--json").json) == places(whole)


def test_who_is_above_whom_is_told_by_the_judge_of_all_groups_wherever_it_is_told(run: Path):
    with RunReader(run) as reader:
        ranking = reader.ranking()
        odds = pair_odds(ranking)
        for query in reader.queries():
            group = ranking.stored(query.id)
            assert group.secondary_fit == "pooled"
            why = explain_pair(reader, ranking, find_pair(reader, ranking, query))
            if group.signal == "none":
                assert why.p_above == 0.5
                continue
            above = odds(group)
            assert why.p_above == pytest.approx(above[why.a.index, why.b.index], abs=1e-6)
            margins = [r.margin for r in group.rollouts if r.index in {why.a.index, why.b.index}]
            assert abs(why.difference or 0) == pytest.approx(abs((margins[0] or 0) - (margins[1] or 0)), abs=1e-5)


def test_a_final_line_that_is_gone_or_a_provisional_one_behind_the_footer_is_damage(harness: Harness, run: Path):
    rescored(harness)
    newest = max((run / "rankings").glob("*.jsonl"))
    before = newest.read_bytes().splitlines(keepends=True)
    newest.write_bytes(b"".join([*before[:4], *before[5:]]))
    done = harness("validate", str(run))
    assert (done.code, "it counts 3 groups, and there are 2" in done.out) == (5, True), done.out
    assert "the ranks of" not in done.out


def test_who_won_the_final_and_is_not_first_is_told_with_the_reason(harness: Harness):
    shown = harness(*"run --agent search -n 8 --seed 3 -q".split())
    assert shown.code == 0, shown.err
    assert "note: rollout 1 won the final; pooled goes by the scores of all 12 matches: rollout 3 is first" in shown.out
    tiers = harness(*"rescore --estimator tiers --free".split())
    assert "won the final" not in tiers.out


def test_a_dry_run_tells_what_the_better_design_takes_and_gains(harness: Harness):
    of_arena, of_auto = (harness("run", "--offline", "--dry-run", *more) for more in ((), ("--topology", "auto")))
    assert "--topology auto: cyclic, 26 judge calls a query; rank correlation .78" in of_arena.out
    assert "cyclic: 26 of the 28 pairs, evenly spread, in one order" in of_auto.out
    assert "auto: cyclic, 52 judge calls" in harness(*"run --offline --dry-run --judge-repeats 2".split()).out
    assert "--topology auto" not in harness(*"run --offline --dry-run -n 5".split()).out
