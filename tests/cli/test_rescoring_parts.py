"""`rescore` of some rollouts only, and of several runs at once."""

import itertools
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.core.progress import now
from harness.pipeline.trust import what_is_kept
from harness.pipeline.validation import validate_folder
from tests.cli.test_buying_once import priced
from tests.conftest import Done, Harness
from tests.fake_endpoint import FakeEndpoint, Hang, Reaction, Seen, fair_judge
from tests.nursery import Nursery

RUN = ("run", "--offline", "-n", "4", "-q", "--json")


def ranks(group: dict[str, Any]) -> dict[int, float | None]:
    return {r["index"]: r["rank"] for r in group["rollouts"]}


@pytest.fixture
def two(harness_once: Harness, tmp_path: Path) -> Done:
    (tmp_path / "q.jsonl").write_text('{"id": "1", "query": "Why Lisp?"}\n{"id": "b", "query": "Why Scheme?"}\n')
    done = harness_once(*RUN, "--queries", "q.jsonl", "--topology", "round_robin")
    assert done.code == 0, done.err
    return done


def test_rollouts_that_are_left_out_have_no_place_and_nothing_is_bought_for_the_others(
    harness: Harness, two: Done, tmp_path: Path
):
    done = harness("rescore", "--exclude", "2", "--exclude", "b/3", "--json", "--free")
    assert done.code == 0, done.err
    first, second = done.json["groups"]
    assert [i for i, rank in ranks(first).items() if rank is None] == [2]
    assert [i for i, rank in ranks(second).items() if rank is None] == [2, 3]
    assert "left out, as --include or --exclude asks: rollouts 2, 3" in second["notes"]
    assert sum(r for r in ranks(first).values() if r is not None) == 0 + 1 + 2  # ties share the mean
    assert validate_folder(tmp_path / two.json["path"], now).findings == ()
    again = harness("resume")
    assert (again.code, "is finished" in again.out) == (0, True)
    page = (tmp_path / two.json["path"] / "report.html").read_text()
    assert "eft out, as --include or --exclude asks" in page


def test_only_the_rollouts_that_are_included_are_ranked_and_a_query_can_be_named(harness: Harness, two: Done):
    done = harness("rescore", "--include", "1/", "--exclude", "1/0", "--json")
    assert done.code == 0, done.err
    first, second = done.json["groups"]
    assert [i for i, rank in ranks(first).items() if rank is None] == [0]
    assert set(ranks(second).values()) == {None}
    assert second["status"] == "complete"
    assert any("there is no anchor" in note for note in first["notes"])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("word", "said"),
    [("x", "expected a rollout's index K"), ("9", "no rollout 9"), ("c/1", "no query 'c'"), ("/1x", "expected")],
)
def test_a_part_that_is_not_there_is_refused(harness: Harness, two: Done, word: str, said: str):
    done = harness("rescore", "--exclude", word)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_several_runs_are_judged_again_each_with_a_ranking_of_its_own(harness: Harness, tmp_path: Path):
    runs = [harness(*RUN, query).json for query in ("Why Lisp?", "Why Scheme?")]
    done = harness("rescore", *(r["run"] for r in runs), "--topology", "anchor", "--json")
    assert done.code == 0, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [one["run"] for one in told] == [r["run"] for r in runs]
    assert all(one["groups"][0]["topology"] == "anchor" for one in told)
    assert all(f"{r['run']}: reused" in " ".join(done.err.split()) for r in runs)
    nothing = harness("rescore", runs[0]["run"], "nosuchrun")
    assert (nothing.code, nothing.out) == (2, "")
    assert len(list((tmp_path / runs[0]["path"] / "rankings").iterdir())) == 2


@pytest.mark.nightly
def test_one_ceiling_holds_for_several_runs_together(harness: Harness, endpoint: FakeEndpoint):
    env = priced(endpoint)
    model = ("--model", "gpt-4o-mini", "--judge-model", "gpt-4o-mini")
    runs = [harness("run", query, "-n", "4", *model, "-q", "--json", env=env).json["run"] for query in ("A?", "B?")]
    whole = harness("rescore", *runs, "--judge-label", "dear", "--json", env=env)
    spent = [sum(g["judge_usd"] for g in json.loads(line)["groups"]) for line in whole.out.splitlines()]
    assert spent[0] > 0
    ceiling = spent[0] * 1.2
    capped = harness("rescore", *runs, "--judge-label", "other", "--max-cost", str(ceiling), "--json", env=env)
    assert capped.code == 4, capped.err
    told = [json.loads(line) for line in capped.out.splitlines()]
    assert [one["groups"][0]["status"] for one in told] == ["complete", "incomplete"]
    assert sum(g["judge_usd"] for one in told for g in one["groups"]) <= ceiling


def cut(ranking: Path) -> None:
    """Leave a ranking as a process that is stopped after its first group does."""
    ranking.write_text("".join(ranking.read_text("utf-8").splitlines(keepends=True)[:2]), "utf-8")


@pytest.mark.few(1)
@pytest.mark.parametrize("free", [False, True])
def test_of_a_rescoring_that_was_cut_short_the_queries_that_are_ranked_are_told(
    free: bool, harness: Harness, two: Done, tmp_path: Path
):
    run = tmp_path / two.json["path"]
    earlier = set(run.glob("rankings/*.jsonl"))
    assert what_is_kept(run) == f"{run} is whole, and no ranking in it was cut short"
    assert harness("rescore", "--topology", "anchor", "-q", *(("--free",) if free else ())).code == 0
    (newest,) = set(run.glob("rankings/*.jsonl")) - earlier
    cut(newest)
    kept = what_is_kept(run)
    if free:  # which `resume` leaves as it is
        whole = "The new ranking has 1 of 2 queries in full, and is kept in"
        assert kept == f"{whole} {run}; rank again for the others"
    else:
        whole = "The new ranking has 1 of 2 queries in full; it and all verdicts that were bought are kept in"
        assert kept == f"{whole} {run}; `harness resume {run}` does what is missing"
    assert ("nothing to do" in harness("resume").out) == free


def test_of_a_run_that_was_cut_short_while_it_was_judged_the_rollouts_are_told(two: Done, tmp_path: Path):
    run = tmp_path / two.json["path"]
    (only,) = run.glob("rankings/*.jsonl")
    cut(only)
    assert what_is_kept(run).startswith("8 of 8 rollouts that were begun ended well; all are kept in")


def test_an_interrupted_rescoring_says_how_far_it_came_and_resume_does_the_rest(
    harness: Harness, nursery: Nursery, endpoint: FakeEndpoint, tmp_path: Path
):
    environ = {"OPENAI_BASE_URL": endpoint.base_url}
    (tmp_path / "q.jsonl").write_text('{"id": "1", "query": "Why Lisp?"}\n{"id": "b", "query": "Why Scheme?"}\n')
    assert harness(*"run --queries q.jsonl --model m -n 2 --topology anchor -q".split(), env=environ).code == 0
    judged, stuck = itertools.count(1), threading.Event()

    def judge(seen: Seen) -> Reaction:
        if next(judged) <= 3:
            return fair_judge()(seen)
        stuck.set()
        return Hang(100)

    endpoint.judge = judge
    rescore = "rescore --judge-model other --judge-concurrency 1 --topology anchor --grace 0 -q"
    born = nursery.start(rescore.split(), tmp_path, environ)
    assert stuck.wait(60)
    os.kill(born.pid, signal.SIGINT)
    done = nursery.wait(born)
    assert done.code == 130
    assert "interrupted. The new ranking has 1 of 2 queries in full; it and all verdicts that were bought" in done.err
    endpoint.judge = fair_judge()
    endpoint.requests.clear()
    assert harness("resume", "-q", env=environ).code == 0
    assert len(endpoint.of_judge) == 1
