"""`harness show`, as a user runs it, of an archived run."""

import json
import re
from pathlib import Path

import pytest

from harness.cli.app import app
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block

LANGUAGES = ("lisp", "fortran", "cobol", "python")


@pytest.fixture
def four(harness_once: Harness, tmp_path: Path) -> list[dict[str, object]]:
    """Archive a run of four queries, more than get a table each; return its groups."""
    lines = (json.dumps({"id": name, "query": f"History of {name}"}) for name in LANGUAGES)
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    done = harness_once("run", "--queries", "q.jsonl", "-n", "2", "--json")
    assert done.code == 0, done.err
    return done.json["groups"]


def test_where_every_verdict_failed_no_rollout_has_a_place_in_any_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with FakeEndpoint(
        agent=lambda seen: Say(f"{len(seen.raw)}"), judge=lambda _: Say("Both are fine.")
    ).serving() as server:
        argv = ["run", "Why?", "--model", "m", "--base-url", server.base_url, "-n", "2", "--no-report", "-q", "--wide"]
        assert app.main(argv, standalone_mode=False, obj={}) == 3
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if re.search(r" (anchor|sample) ", line)]
    assert [row[0] for row in rows] == ["–", "–"]
    assert [row[7] for row in rows] == ["–", "–"], rows


def test_a_reward_that_raises_is_told_with_the_result_and_later(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    reward = "def reward(rollout, query):\n    raise ValueError('no table')\n"
    Path("marked.py").write_text(f"from agents import Agent\nagent = Agent(name='marked')\n{reward}")
    with FakeEndpoint().serving() as server:
        argv = ["run", "Why?", "--agent", "marked.py", "--model", "m", "--base-url", server.base_url, "-n", "1", "-q"]
        app.main([*argv, "--no-report"], standalone_mode=False, obj={})
    told = "rollout 0 has no verifiable reward: reward raised ValueError: no table"
    assert told in capsys.readouterr().out
    app.main(["show"], standalone_mode=False, obj={})
    assert told in capsys.readouterr().out
    app.main(["show", "--rollout", "0"], standalone_mode=False, obj={})
    assert "note: reward raised ValueError: no table" in capsys.readouterr().out


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


@pytest.mark.nightly
def test_the_transcript_is_the_very_text_that_the_judge_saw(harness: Harness):
    """The judge's prompt holds it whole, cut or not."""

    def agent(seen: Seen) -> Say:
        if not seen.tool_outputs:
            return Say(calls=(("search", {"query": "programming languages"}),), reasoning="I search. " * 100)
        return Say(f"My number is {seen.body.get('seed')}.")

    with FakeEndpoint(agent).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        done = harness("run", "Why?", "--model", "m", "-n", "2", "--judge-budget", "600", "--json", env=env)
        assert done.code == 0, done.err
        shown = [harness("show", "--rollout", str(k), "--transcript", "--json") for k in range(2)]
    assert all(s.json["cut"] and not s.json["answer_cut"] and "characters cut …]" in s.json["path"] for s in shown)
    request = endpoint.of_judge[0]
    seen = {(block(request.user, f"PATH_{s}"), block(request.user, f"ANSWER_{s}")) for s in "AB"}
    assert seen == {(s.json["path"], s.json["answer"]) for s in shown}
    printed = harness("show", "--rollout", "1", "--transcript").out
    told = shown[1].json
    assert printed == f"[PATH]\n{told['path']}\n[/PATH]\n\n[ANSWER]\n{told['answer']}\n[/ANSWER]\n"


def test_a_transcript_is_shown_of_one_rollout_only(harness: Harness):
    assert harness("run", "--offline", "-n", "2").code == 0
    shown = harness("show", "--transcript")
    assert (shown.code, shown.out) == (2, "")
    assert "--rollout K" in shown.err


@pytest.mark.few(1)
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
    assert "harness resume" in shown.err


def cut_short(tmp_path: Path) -> None:
    """Leave of the ranking its header and its first two groups."""
    (ranking,) = tmp_path.glob("runs/*/rankings/*.jsonl")
    ranking.write_text("".join(ranking.read_text().splitlines(keepends=True)[:3]))


def test_of_a_ranking_cut_short_the_terminal_tells_what_was_ranked_and_no_more(four, harness: Harness, tmp_path: Path):
    cut_short(tmp_path)
    shown, stats = harness("show", "last"), harness("stats", "last", "--json").json
    assert shown.code == 0, shown.err
    assert "agent: 4 runs" in shown.out
    assert "queries are noise" not in shown.out
    (one,) = stats["rankings"]
    assert (one["groups"], sum(one["signals"].values())) == (2, 2)


def test_of_a_ranking_cut_short_a_query_that_was_ranked_is_shown_alone(four, harness: Harness, tmp_path: Path):
    cut_short(tmp_path)
    shown = harness("show", "last", "--query", "lisp")
    assert shown.code == 0, shown.err
    assert "agent: 2 runs" in shown.out


@pytest.mark.parametrize("words", ["show --credit", "credit --rollout 1", "credit -r 1"])
def test_who_asks_for_the_credit_of_one_rollout_is_told_how_to_get_it(words: str, harness: Harness):
    asked = harness(*words.split())
    assert asked.code == 2
    says = "harness credit` has the steps of all" if words == "show --credit" else "`harness show --rollout K` shows"
    assert says in asked.err
