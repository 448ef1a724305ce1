"""The main job with no key at all, as a user runs it: a real process in an empty folder."""

import json
import statistics
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.conftest import Done, Harness

QUERY = "Write an essay on the evolution of programming languages."


@pytest.fixture
def first(harness_once: Harness) -> Done:
    return harness_once("run", "--agent", "search", "--json")


def test_the_first_command_ranks_eight_distinct_rollouts_and_says_that_it_is_a_self_test(first: Done):
    assert first.code == 0, first.err
    (group,) = first.json["groups"]
    rollouts = group["rollouts"]
    assert first.json["offline"] is True
    assert group["query"] == QUERY
    assert (group["status"], group["signal"]) == ("complete", "ok")
    assert [r["temperature"] for r in rollouts] == [0.0] + [0.8] * 7
    assert [r["role"] for r in rollouts] == ["anchor"] + ["sample"] * 7
    assert len({r["answer"] for r in rollouts}) == 8
    assert sorted(r["rank"] for r in rollouts) == list(range(8))
    assert sorted(r["reward"] for r in rollouts) == pytest.approx([i / 7 for i in range(8)])
    advantages = [r["advantage"] for r in rollouts]
    assert statistics.fmean(advantages) == pytest.approx(0, abs=1e-9)
    assert statistics.pstdev(advantages) == pytest.approx(1, abs=1e-6)
    assert "OFFLINE SELF-TEST" in first.err
    assert "say nothing of any LLM" in first.err


def test_the_archive_alone_tells_what_the_run_printed(first: Done, harness: Harness):
    shown = harness("show", "last", "--json")
    assert shown.code == 0
    assert shown.json == first.json


def test_rescoring_with_the_same_settings_buys_nothing(first: Done, harness: Harness):
    again = harness("rescore", "last")
    assert again.code == 0, again.err
    assert "reused 22, bought 0" in again.out
    ranks = [r["rank"] for r in harness("show", "--json").json["groups"][0]["rollouts"]]
    assert ranks == [r["rank"] for r in first.json["groups"][0]["rollouts"]]


def test_rescoring_by_another_rubric_buys_everything_and_leaves_the_rollouts_alone(
    first: Done, harness: Harness, tmp_path: Path
):
    folder = Path(tmp_path / first.json["path"])
    before = {p: p.read_bytes() for p in (folder / "rollouts").iterdir()}
    (tmp_path / "short.md").write_text(
        "---\nname: short\nversion: 1\npath_weight: 0\nanswer_weight: 1\ndimensions:\n"
        "  - {key: clarity, title: Clarity, block: answer, description: Easy to follow.}\n---\nMark the answers.\n"
    )
    again = harness("rescore", "--rubric", "short.md", "--json")
    assert again.code == 0, again.err
    (group,) = again.json["groups"]
    assert group["reused"] == 0
    assert group["judged"] >= 22
    assert {p: p.read_bytes() for p in (folder / "rollouts").iterdir()} == before


def test_rescoring_in_one_order_reuses_what_both_orders_bought(first: Done, harness: Harness):
    again = harness("rescore", "--order", "single", "--json")
    (group,) = again.json["groups"]
    assert group["judged"] == 0
    assert group["reused"] > 0


def test_the_table_names_next_commands_and_a_page_that_is_there(harness: Harness, tmp_path: Path):
    done = harness("run", "--agent", "search")
    assert done.code == 0
    for said in ("place", "reward", "advantage", "signal clear", "judge: ", "$0.00", "OPENAI_API_KEY=", "--base-url"):
        assert said in done.out
    page = next(line for line in done.out.splitlines() if line.startswith("page: ")).removeprefix("page: ")
    assert (tmp_path / page).read_text("utf-8").startswith("<!doctype html>")


def test_two_runs_give_the_same_ranking_and_the_anchor_the_same_answer(first: Done, harness: Harness):
    again = harness("run", "--agent", "search", "--json")
    assert again.json["groups"] == first.json["groups"]
    assert again.json["run"] != first.json["run"]


def test_one_rollout_carries_no_signal_and_asks_no_judge(harness: Harness):
    done = harness("run", "--agent", "search", "-n", "1")
    assert done.code == 0, done.err
    assert "carries no signal" in done.out
    assert "judge: 0 calls" in done.out
    (group,) = harness("show", "--json").json["groups"]
    (rollout,) = group["rollouts"]
    assert (rollout["rank"], rollout["reward"], rollout["advantage"]) == (0, 0, 0)
    assert group["signal"] == "none"


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [2, 3, 5, 13])
def test_any_number_of_rollouts_is_ranked(harness: Harness, n: int):
    done = harness("run", "--agent", "search", "-n", str(n), "--json")
    assert done.code == 0, done.err
    ranks = [r["rank"] for r in done.json["groups"][0]["rollouts"]]
    assert sum(ranks) == n * (n - 1) / 2


def test_a_question_that_the_corpus_cannot_answer_is_answered_by_saying_so(harness: Harness):
    done = harness("run", "How do I fry an egg?", "-n", "2", "--json")
    assert "The corpus has nothing on" in done.json["groups"][0]["rollouts"][0]["answer"]


def test_the_search_tool_reads_a_corpus_of_the_users_own(harness: Harness, tmp_path: Path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "eggs.txt").write_text(
        "To fry an egg, heat butter in a pan until it foams. Fry the egg gently."
    )
    done = harness("run", "How do I fry an egg?", "--corpus", "notes", "-n", "2", "--json")
    assert "heat butter" in done.json["groups"][0]["rollouts"][0]["answer"]


def test_many_queries_end_in_a_summary(harness: Harness, tmp_path: Path):
    (tmp_path / "q.jsonl").write_text(
        "\n".join(json.dumps({"query": f"History of {x}"}) for x in ("Lisp", "Fortran", "COBOL", "Python"))
    )
    done = harness("run", "--queries", "q.jsonl", "-n", "2")
    assert done.code == 0, done.err
    assert "4 queries, 8 rollouts: 8 ok, 0 failed" in done.out
    assert "samples above their anchor" in done.out
    rescored = harness("rescore")
    assert "bought 0" in rescored.out


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(harness: Harness, tmp_path: Path):
    done = harness("run", "--dry-run")
    assert done.code == 0
    who = "(agent: offline-extractive, judge: offline-features, rubric: writing)"
    assert f"1 query: 8 agent runs, 22 to 26 judge calls {who}\n" in done.out
    assert "OFFLINE SELF-TEST" in done.err
    told = harness("run", "--dry-run", "--json", "-q")
    assert told.json == {
        "queries": 1,
        "agent_runs": 8,
        "judge_calls": [22, 26],
        "judge": "offline-features",
        "agent_at": "offline-extractive",
        "judge_at": "offline-features",
        "cost_usd": [0, 0],
        "prices_by_name": [],
        "offline": True,
    }
    best = harness("best", "--dry-run", "--json")
    assert best.json["agent_runs"] == 8
    assert not (tmp_path / "runs").exists()


def test_what_an_agents_file_prints_does_not_stand_in_the_plan(program: Harness, tmp_path: Path):
    (tmp_path / "own.py").write_text("from agents import Agent\nprint('loading')\nagent = Agent(name='a')\n")
    done = program("run", "Why?", "--agent", "own.py:agent", "--offline", "--dry-run", "--json")
    assert done.json["queries"] == 1
    assert "loading" in done.err


def test_the_version_is_told(harness: Harness):
    assert harness("--version").out == f"arena-harness {version('arena-harness')}\n"


def test_a_free_dry_run_says_what_it_would_leave_open(harness: Harness):
    harness("run", "-n", "2")
    done = harness("rescore", "--free", "--judge-label", "another", "--dry-run")
    assert done.out == "reused 0, would buy 0 (--free), would miss 2\n"
    told = harness("rescore", "--free", "--judge-label", "another", "--dry-run", "--json").json
    assert (told["would_buy"], told["would_miss"], told["cost_usd"]) == ([0, 0], 2, [0, 0])


def test_options_that_come_to_nothing_are_named(harness: Harness):
    done = harness("run", "--dry-run", "--offline", "--model", "gpt-5.2", "--judge-when", "tied")
    told = " ".join(done.err.split())
    assert "note: the embedded model has no use for --model" in told
    assert "note: agent 'search' has no reward(), so --judge-when tied leaves all of its rollouts to the judge" in told
    assert "note" not in harness("run", "--dry-run", "--offline").err


def test_a_misspelt_name_in_the_environment_is_named_and_another_tools_is_not(harness: Harness):
    env = {"HARNESS_TEMPERATUR": "1", "HARNESS_JUDGE_APIKEY": "k", "HARNESS_ACCOUNT_ID": "1", "HARNESS_N": "4"}
    done = harness("run", "--dry-run", env=env)
    notes = [line for line in done.err.splitlines() if line.startswith("note")]
    assert notes == [
        "note: HARNESS_JUDGE_APIKEY is no setting; did you mean 'HARNESS_JUDGE_API_KEY'?",
        "note: HARNESS_TEMPERATUR is no setting; did you mean 'HARNESS_TEMPERATURE'?",
    ]
    assert "4 agent runs" in done.out


def test_the_help_of_rescore_says_that_settings_default_to_the_runs_own(harness: Harness):
    told = " ".join(harness("rescore", "--help").out.split())
    assert "A packaged rubric's name, or your own FILE.md. [default: the run's own]" in told
    assert "Where runs are kept. [default: runs]" in told
    assert "[default: arena" not in told
    assert "[default: arena; cyclic with --budget]" in " ".join(harness("run", "--help").out.split())


def test_one_rollouts_path_can_be_read_in_the_terminal(first: Done, harness: Harness):
    shown = harness("show", "--rollout", "3")
    assert shown.code == 0
    assert "rollout 3 (sample, temperature 0.8), ok" in shown.out
    assert "input: " in shown.out
    assert "Answer" in shown.out
