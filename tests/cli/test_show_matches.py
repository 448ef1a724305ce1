"""`show --matches` and `show --match`: who met whom, every mark, what the judge said, what it read."""

from pathlib import Path

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, list_judge


def test_the_matches_and_each_one_with_its_marks_words_and_transcripts_can_be_shown(
    harness: Harness, tmp_path: Path
) -> None:
    assert harness("run", "Tell me about Lisp.", "--agent", "search", "-n", "3", "-q").code == 0
    listed = harness("show", "last", "--matches")
    assert listed.code == 0, listed.err
    assert "arena, ranked by pooled" in listed.out
    assert "Seeding" in listed.out
    assert "Final" in listed.out
    every = harness("show", "last", "--matches", "--json").json
    one = harness("show", "last", "--match", "1")
    assert f"rollout {every[0]['a']} {every[0]['score_a']:.2f} v rollout {every[0]['b']}" in one.out
    assert "shown first: " in one.out
    verdict = every[0]["verdicts"][0]
    assert verdict["status"] == "ok"
    assert all(remark.split()[0] in one.out for remark in verdict["analysis"].values())
    for index in (every[0]["a"], every[0]["b"]):
        shown = harness("show", "last", "--rollout", str(index), "--transcript", "--json").json
        assert shown["answer"][:60] in " ".join(one.out.split())
    (alone,) = harness("show", "last", "--match", "1", "--json").json
    assert alone == every[0]


def test_a_match_that_is_not_there_is_named_with_how_many_there_are(harness: Harness) -> None:
    assert harness("run", "--agent", "search", "-n", "2", "-q").code == 0
    done = harness("show", "last", "--match", "9")
    assert (done.code, done.out) == (2, "")
    assert "there is no match 9: the ranking has 2, numbered from 1" in done.err


def test_a_rollout_and_its_matches_are_not_asked_for_together(harness: Harness) -> None:
    assert harness("run", "--offline", "-n", "2", "-q").code == 0
    done = harness("show", "--rollout", "0", "--matches")
    assert (done.code, done.out) == (2, "")
    assert "give one of them" in done.err


def test_a_listwise_ranking_has_no_matches_and_says_where_its_scores_are(harness: Harness) -> None:
    with FakeEndpoint(judge=list_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness("run", "Why?", "--model", "m", "--judge", "ruler", "-n", "2", "-q", env=env).code == 0
        done = harness("show", "--matches", env=env)
    assert (done.code, done.out) == (2, "")
    assert "scored the group as a whole" in done.err
