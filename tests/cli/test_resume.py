"""`harness resume`, as a user runs it: what is missing is done, what is there is kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.archive.run_info import list_runs
from tests.cli.test_sigkill import Bill, by_seed
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Script, Seen, fair_judge

AGENT = """
from agents import Agent, function_tool

@function_tool
def search(query: str) -> str:
    return f"found {query}"

agent = Agent(name="own", instructions="Search, then answer.", tools=[search], model="m")
EXAMPLES = ["Why?"]
"""
RUN = ("run", "--agent", "own.py:agent", "-n", "4", "-q")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(AGENT)
    return path


def failing(times: int, refusal: Reaction, after: Script, start: int = 0) -> Script:
    """Do as `after`, but refuse the calls from number `start` on, so many of them."""
    seen: list[Seen] = []

    def reply(one: Seen) -> Any:
        seen.append(one)
        return refusal if start < len(seen) <= start + times else after(one)

    return reply


def reader_of(tmp_path: Path) -> RunReader:
    (folder,) = list_runs(tmp_path / "runs")
    return RunReader(folder)


QUOTA = Refuse(429, "You exceeded your current quota", "insufficient_quota")
BROKEN = Refuse(400, "this one does not work")
CUT = Say("The answer is fo", finish="length")


def test_a_run_that_ran_out_of_money_is_finished_by_resume_and_buys_only_what_is_missing(
    harness: Harness, own: Path, tmp_path: Path
):
    with FakeEndpoint(failing(1, QUOTA, by_seed, start=3), fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        poor = harness(*RUN, "Why?", "--concurrency", "1", env=env)
        assert poor.code == 4, poor.err
        assert "harness resume" in poor.err
        done = harness("resume", "--json", "--concurrency", "3", "--judge-concurrency", "2", env=env)
        assert done.code == 0, done.err
        assert f"(agent: m@{endpoint.host}, judge: " in " ".join(done.err.split()), "the agent file's own model"
        bill = Bill(endpoint)
    settings = reader_of(tmp_path).ranking().head.settings
    assert (settings["concurrency"], settings["judge_concurrency"]) == (3, 2)
    assert (len(bill.rollouts), len(set(bill.rollouts))) == (5, 4)  # one was refused, so not billed
    assert len(bill.verdicts) == len(set(bill.verdicts))
    assert [r["status"] for r in done.json["groups"][0]["rollouts"]] == ["ok"] * 4
    with FakeEndpoint(by_seed, fair_judge()).serving() as endpoint:
        whole = harness(*RUN, "Why?", "--json", "--runs-dir", "w", env={"OPENAI_BASE_URL": endpoint.base_url})
    places = [[(r["index"], r["rank"]) for r in d.json["groups"][0]["rollouts"]] for d in (done, whole)]
    assert places[0] == places[1]


def test_resuming_a_finished_run_says_so_costs_nothing_and_writes_nothing(harness: Harness, own: Path, tmp_path: Path):
    with FakeEndpoint(by_seed, fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness(*RUN, env=env).code == 0
        asked = len(endpoint.requests)
        files = {p: p.read_bytes() for p in tmp_path.rglob("*.jsonl")}
        for word in ((), ("last",)):
            done = harness("resume", *word, env=env)
            assert (done.code, done.out.startswith("nothing to do:")) == (0, True)
        assert len(endpoint.requests) == asked
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.jsonl")} == files


def test_failed_rollouts_are_run_again_only_when_asked_and_the_newest_record_counts(
    harness: Harness, own: Path, tmp_path: Path
):
    with FakeEndpoint(failing(1, CUT, by_seed, start=3), fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness(*RUN, "--concurrency", "1", env=env).code == 1
        assert harness("resume", env=env).out.startswith("nothing to do")
        done = harness("resume", "last", "--retry-failed", "--json", env=env)
    assert done.code == 0, done.err
    assert [r["rank"] is not None for r in done.json["groups"][0]["rollouts"]] == [True] * 4
    assert {p.status for g in reader_of(tmp_path).index.rollouts.values() for p in g.values()} == {"ok"}


def test_verdicts_that_failed_are_asked_for_again_and_the_old_ranking_stays(
    harness: Harness, own: Path, tmp_path: Path
):
    with FakeEndpoint(by_seed, failing(1, BROKEN, fair_judge(), start=2)).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        short = harness(*RUN, env=env)
        assert short.code in {1, 3}, short.err
        asked = len(Bill(endpoint).rollouts)
        done = harness("resume", "--json", env=env)
        assert done.code == 0, done.err
        assert len(Bill(endpoint).rollouts) == asked
    assert done.json["groups"][0]["status"] == "complete"
    assert [r.finished for r in reader_of(tmp_path).rankings()] == [True, True]


@pytest.mark.few(1)
@pytest.mark.parametrize("change", ["Search, then reply.", "tool"])
def test_a_changed_agent_stops_resume_before_it_spends_unless_accepted_which_is_written_down(
    harness: Harness, own: Path, tmp_path: Path, change: str
):
    with FakeEndpoint(failing(1, QUOTA, by_seed, start=3), fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness(*RUN, "--concurrency", "1", env=env).code == 4
        asked = len(endpoint.requests)
        if change == "tool":
            own.write_text(AGENT.replace("query: str)", "query: str, top: int = 3)"))
        else:
            own.write_text(AGENT.replace("Search, then answer.", change))
        refused = harness("resume", env=env)
        assert refused.code == 2
        assert "--accept-changed-agent" in refused.err
        assert "Traceback" not in refused.err
        assert len(endpoint.requests) == asked
        done = harness("resume", "--accept-changed-agent", "--json", env=env)
        assert done.code == 0, done.err
    heads = [json.loads(p.read_text().splitlines()[0]) for p in sorted(tmp_path.glob("runs/*/rollouts/*.jsonl"))]
    assert [h["accepted"] for h in heads] == [[], ["changed agent"]]


def test_resume_goes_to_the_endpoint_of_the_run_wherever_the_environment_points_now(
    harness: Harness, own: Path, tmp_path: Path
):
    with (
        FakeEndpoint(failing(1, QUOTA, by_seed, start=3), fair_judge()).serving() as endpoint,
        FakeEndpoint(lambda _: Say("elsewhere")).serving() as other,
    ):
        assert harness(*RUN, "--concurrency", "1", env={"OPENAI_BASE_URL": endpoint.base_url}).code == 4
        done = harness("resume", "-q", env={"OPENAI_BASE_URL": other.base_url})
        assert done.code == 0, done.err
        assert other.requests == []


def test_all_queries_are_on_disk_before_the_first_call(harness: Harness, own: Path, tmp_path: Path):
    (tmp_path / "q.txt").write_text("".join(f"Why {i}?\n" for i in range(20)))
    there: list[int] = []

    def reply(seen: Seen) -> Any:
        with reader_of(tmp_path) as reader:
            there.append(len(list(reader.queries())))
        return by_seed(seen)

    with FakeEndpoint(reply, fair_judge()).serving() as endpoint:
        done = harness(
            *"run --agent own.py:agent -n 1 -q --queries q.txt".split(),
            env={"OPENAI_BASE_URL": endpoint.base_url},
        )
    assert done.code == 0, done.err
    assert set(there) == {20}


def test_an_agent_that_is_elsewhere_now_is_named_with_agent(harness: Harness, own: Path, tmp_path: Path):
    with FakeEndpoint(failing(1, QUOTA, by_seed, start=3), fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness(*RUN, "--concurrency", "1", env=env).code == 4
        own.rename(tmp_path / "moved.py")
        assert "own.py" in harness("resume", env=env).err
        done = harness("resume", "--agent", "moved.py:agent", "-q", env=env)
        assert done.code == 0, done.err


def test_a_disk_that_fills_up_is_one_clear_line_and_resume_goes_on_once_there_is_room(
    program: Harness, harness: Harness, own: Path
):
    with FakeEndpoint(by_seed, fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        full = program(*RUN, "Why?", "--concurrency", "1", env=env, room=6000)
        assert full.code == 2, full.err
        assert "cannot write to" in full.err
        assert "harness resume" in full.err
        assert "Traceback" not in full.err
        assert harness("validate").code == 0
        done = harness("resume", "--json", env=env)
        assert done.code == 0, done.err
    assert [r["status"] for r in done.json["groups"][0]["rollouts"]] == ["ok"] * 4


def test_damage_is_exit_5_repaired_on_demand_and_resume_buys_just_what_was_lost(
    harness: Harness, own: Path, tmp_path: Path
):
    with FakeEndpoint(by_seed, fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness(*RUN, "Why?", env=env).code == 0
        (path,) = tmp_path.glob("runs/*/verdicts/*.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([lines[0], lines[1].replace(b'"winner"', b'"Winner"'), *lines[2:]]))
        for command in ("show", "resume", "rescore"):
            broken = harness(command, "last", env=env)
            assert (broken.code, "verdicts" in broken.err, "Traceback" in broken.err) == (5, True, False), command
        found = harness("validate")
        assert (found.code, f"{path.name}:2: the checksum" in found.out) == (5, True)
        assert harness("validate", "--repair").code == 0
        asked = len(endpoint.requests)
        done = harness("resume", "--json", env=env)
        assert done.code == 0, done.err
        assert len(endpoint.requests) == asked + 1
    assert done.json["groups"][0]["status"] == "complete"
