"""`--judge ruler` and juries as a user runs them, against a server and offline."""

from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.core.rankings import Scored
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Seen, fair_judge, list_judge


def test_ruler_ranks_a_run_in_one_call_and_rescoring_buys_nothing(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    endpoint.judge = list_judge()
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = harness(
        "run", "Why?", "--model", "m", "-n", "5", "--judge", "ruler", "--judge-model", "j", "--json", env=env
    )
    assert done.code == 0, done.err
    assert "1 to 4 judge calls" in done.err
    (group,) = done.json["groups"]
    assert (group["topology"], group["estimator"], group["judged"], group["reused"]) == ("listwise", "ruler", 1, 0)
    for rollout in group["rollouts"]:
        assert rollout["score"] == sum(map(ord, rollout["answer"])) % 101 / 100
        assert rollout["explanation"] == f"said: {rollout['answer']}"
    (request,) = endpoint.of_judge
    assert request.body["response_format"]["type"] == "json_schema"
    assert "Why?" in request.user
    with RunReader(tmp_path / done.json["path"]) as reader:
        (verdict,) = reader.verdicts()
        assert isinstance(verdict, Scored)
        assert reader.scored(verdict.key) == verdict
        assert len(verdict.raw_replies) == 1
        again = harness("rescore", "--judge", "ruler", env=env)
        assert again.code == 0, again.err
        assert "reused 1, bought 0" in again.out
        assert len(endpoint.of_judge) == 1
        shown = harness("show")
        assert "judged in one list" in shown.out
        assert "why rollout" in shown.out
        page = (reader.folder / "report.html").read_text()
        assert "said: Answer number" in page
        assert "No match has been played" not in page


def test_a_run_of_pairs_is_rescored_by_ruler_and_back(harness: Harness, endpoint: FakeEndpoint):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    assert harness("run", "Why?", "--model", "m", "-n", "3", "--judge-model", "j", env=env).code == 0
    endpoint.judge = list_judge()
    done = harness("rescore", "--judge", "ruler", "--order", "single", env=env)
    assert done.code == 0, done.err
    assert "reused 0, bought 1" in done.out
    assert "--order does not apply to --judge ruler" in done.err
    back = harness("rescore", env=env)
    assert "bought 0" in back.out


def test_a_reply_that_scores_1_2_is_repaired_or_leaves_the_group_open(harness: Harness, endpoint: FakeEndpoint):
    endpoint.judge = list_judge(lambda _: 1.2)
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = harness("run", "Why?", "--model", "m", "-n", "3", "--judge", "ruler", env=env)
    assert done.code == 3
    assert "from 0 to 1" in done.out
    assert len(endpoint.of_judge) == 2
    endpoint.judge = list_judge()
    mended = harness("rescore", env=env)
    assert mended.code == 0, mended.err
    assert "reused 0, bought 1" in mended.out


def test_ruler_works_offline_from_end_to_end(harness: Harness):
    done = harness("run", "--agent", "search", "--offline", "--judge", "ruler", "--json")
    assert done.code == 0, done.err
    (group,) = done.json["groups"]
    assert (group["judged"], group["signal"], done.json["offline"]) == (1, "ok", True)
    assert len({r["score"] for r in group["rollouts"]}) > 4


def test_a_jury_s_verdicts_are_each_bought_once_and_its_agreement_is_told(harness: Harness, endpoint: FakeEndpoint):
    with FakeEndpoint(judge=fair_judge()).serving() as other:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "HARNESS_JUDGE_API_KEY": "sk-one,sk-two"}
        jury = ("--judge-model", "j", "--judge-model", "k", "--judge-base-url", endpoint.base_url)
        jury = (*jury, "--judge-base-url", other.base_url)
        done = harness("run", "Why?", "--model", "m", "-n", "3", *jury, "--json", env=env)
        assert done.code == 0, done.err
        (group,) = done.json["groups"]
        assert {(r.key, r.body["model"]) for r in endpoint.of_judge} == {("sk-one", "j")}
        assert {(r.key, r.body["model"]) for r in other.of_judge} == {("sk-two", "k")}
        assert group["judged"] == len(endpoint.of_judge) + len(other.of_judge)
        assert [a["kappa"] for a in group["agreement"]] in ([1.0], [None])
        again = harness("rescore", "--jury", "median", env=env)
        assert again.code == 0, again.err
        assert f"reused {group['judged']}, bought 0" in again.out
        assert "jurors j@" in again.out


def test_a_juror_that_fails_leaves_the_run_to_the_others(harness: Harness, endpoint: FakeEndpoint):
    fair = fair_judge()

    def judge(seen: Seen) -> Any:
        return Say("I cannot say.") if seen.body["model"] == "k" else fair(seen)

    endpoint.judge = judge
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = harness(
        "run", "Why?", "--model", "m", "-n", "3", "--judge-model", "j", "--judge-model", "k", "--json", env=env
    )
    assert done.code == 0, done.err
    (group,) = done.json["groups"]
    assert group["status"] == "complete"
    assert any("of juror k@" in note for note in group["notes"])
    assert done.json["failed_verdicts"] == {}


def test_stats_counts_the_failed_verdicts_of_a_juror_for_whom_the_others_stand(
    harness: Harness, endpoint: FakeEndpoint
):
    fair = fair_judge()
    endpoint.judge = lambda seen: Say("I cannot say.") if seen.body["model"] == "k" else fair(seen)
    jury = ("--judge-model", "j", "--judge-model", "k", "--topology", "round_robin")
    done = harness("run", "Why?", "--model", "m", "-n", "3", *jury, env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 0, done.err
    (ranking,) = harness("stats", "--json").json["rankings"]
    failed = {judge["judge"].split("@")[0]: judge["failed"] for judge in ranking["judges"]}
    assert failed == {"j": 0, "k": 6}
    said = ranking["judges"][1]["readings"]["failed"]
    assert said == "the other jurors' verdicts stand; `harness rescore` asks again"


@pytest.mark.nightly
def test_a_jury_ranks_by_pooled_with_each_juror_learnt_by_itself_also_where_one_fails(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    fair, noise = fair_judge(), fair_judge(lambda text: sum(map(ord, text[::3])) % 11)

    def judge(seen: Seen) -> Any:
        if seen.body["model"] == "j":
            return fair(seen)
        return Say("I cannot say.") if "Number 2" in seen.user else noise(seen)

    endpoint.judge = judge
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    jury = ("--judge-model", "j", "--judge-model", "k", "--estimator", "pooled", "--topology", "round_robin")
    (tmp_path / "queries.txt").write_text("Number 1?\nNumber 2?\nNumber 3?\n")
    done = harness("run", "--queries", "queries.txt", "--model", "m", "-n", "4", *jury, "--json", env=env)
    assert done.code == 0, done.err
    with RunReader(tmp_path / done.json["path"]) as reader:
        seats = [{seat for match in group.matches for seat in match.jurors} for group in reader.rankings()[-1].groups]
    assert sorted(map(sorted, seats)) == [[0], [0, 1], [0, 1]], "juror k gave no verdict on the second query"
    (stats,) = harness("stats", "last", "--json").json["rankings"]
    assert sum(stats["jury"]["shares"].values()) == pytest.approx(1)
    assert 0 < stats["jury"]["shared"] <= 1
    said = harness("stats", "last").out
    assert said.count("of what the jury says from it") == len(stats["jury"]["shares"]) == 2
    assert "all jurors see" in said
    checked = harness("validate", "last")
    assert checked.code == 0, checked.out
    again = harness("rescore", "last", "--free", "--json", env=env)
    places = [[r["score"] for r in group["rollouts"]] for group in done.json["groups"]]
    assert [[r["score"] for r in group["rollouts"]] for group in again.json["groups"]] == places


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--judge-model", "j", "--judge-base-url", "http://a/v1", "--judge-base-url", "http://b/v1"), "for one judge"),
        (("--judge-model", "j", "--judge-model", "j"), "sits in the jury twice"),
        (("--judge-model", "j", "--judge-model", "k", "--judge-label", "x"), "--judge-label names one judge"),
        (("--judge", "ruler", "--rubric", "research"), "--rubric research"),
        (("--jury", "mode"), "--jury 'mode'"),
        (("--judge", "coin"), "--judge 'coin'"),
    ],
)
def test_what_fits_no_judge_is_refused_before_anything_is_spent(
    harness: Harness, endpoint: FakeEndpoint, args: tuple[str, ...], said: str
):
    done = harness("run", "Why?", "--model", "m", *args, env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert not endpoint.requests


def test_a_jury_with_a_member_whose_key_is_refused_says_which(harness: Harness, endpoint: FakeEndpoint):
    fair = fair_judge()
    endpoint.judge = lambda seen: Refuse(404, "no such model") if seen.body["model"] == "k" else fair(seen)
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = harness("run", "Why?", "--model", "m", "-n", "2", "--judge-model", "j", "--judge-model", "k", env=env)
    assert done.code == 2
    assert "'k'" in done.err


def test_a_run_whose_listwise_judge_had_no_money_is_finished_by_resume(harness: Harness, endpoint: FakeEndpoint):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    endpoint.judge = lambda _: Refuse(429, "no quota", code="insufficient_quota")
    assert harness("run", "Why?", "--model", "m", "-n", "3", "--judge", "ruler", "-q", env=env).code == 4
    endpoint.judge = list_judge()
    done = harness("resume", "--json", env=env)
    assert done.code == 0, done.err
    (group,) = done.json["groups"]
    assert (group["topology"], group["status"]) == ("listwise", "complete")
