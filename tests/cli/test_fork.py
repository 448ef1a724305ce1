"""`harness fork`, as a user runs it."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.test_improvement_commands import an_improvement
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen
from tests.nursery import Born, Nursery
from tests.rollouts.test_checkpoints import marks, noting_file, stepping


def test_a_run_is_forked_shown_and_credited(harness: Harness, tmp_path: Path):
    assert harness("run", "--agent", "search", "-n", "3").code == 0
    planned = harness("fork", "--at", "all", "--dry-run", "--json")
    plan = json.loads(planned.out)
    assert len(plan["branches"]) > 2
    assert plan["calls"] >= len(plan["branches"])
    assert "about" in harness("fork", "--at", "tools", "--dry-run").out
    done = harness("fork", "--at", "1", "-r", "1", "--branches", "2", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)["groups"][0]["rollouts"]
    assert sorted(rollout["branch"]["call"] for rollout in told if "branch" in rollout) == [1, 1]
    assert "a branch of rollout 1 after model call 1" in harness("show", "--rollout", "4").out
    assert re.search(r"\n +4 +a branch of rollout 1 after model call 1 ", harness("why", "0", "4").out)
    assert [rollout["index"] for rollout in credited(harness) if "branch" in rollout] == [3, 4]
    forks = [line.split()[0] for line in harness("ls").out.splitlines() if "fork of" in line]
    assert len(forks) == 1
    parent = next(run["id"] for run in json.loads(harness("ls", "--json").out) if run["id"] not in forks)
    assert re.search(f"forks of this run tell more of its steps: .*credit {forks[0]}\n", harness("why", parent).out)
    assert "forks of this run" not in harness("why", forks[0]).out
    file = tmp_path / "edit.json"
    file.write_text(json.dumps({"call": 1, "output": "nothing was found"}))
    edited = harness("fork", "--edit", str(file), "-r", "0")
    assert edited.code == 0, edited.err
    hints = re.findall(r"\nnext: (.*)", edited.out)
    assert len(hints) == len({*hints})
    assert re.search(r"next: .* credit \S+\nnext: .* show \S+ --rollout 5\n", edited.out)
    assert "branch of 0, edited" in edited.out
    assert "rollout 5 (branch of 0, edited)" in harness("credit").out
    assert [r["branch"]["edit"]["output"] for r in credited(harness) if "edit" in r.get("branch", {})] == [
        "nothing was found"
    ]
    assert "with another output there" in harness("show", "--rollout", "5").out
    exported = harness("export", "--format", "csv", "-o", "out", "--allow-offline")
    assert "a person edited a step of it (--include-edited takes it)" in exported.err
    newer = an_improvement(tmp_path / "runs").rename(tmp_path / "runs" / "20990101T000000-improve-poet-bbbbbb")
    for command in ("credit", "why"):
        told_of = harness(command)
        assert re.search("^run 2", told_of.out, re.MULTILINE)
        assert f"{newer.name} is newer, but an improvement: 'last' is the run 2" in told_of.err


def credited(harness: Harness) -> list[dict[str, Any]]:
    return json.loads(harness("credit", "--json").out)["groups"][0]["rollouts"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--at", "1", "--dry-run", "--judge-base-url", "http://localhost:9/v1"], "takes a judge elsewhere"),
        (["--at", "1", "--dry-run", "--base-url", "http://localhost:9/v1"], "`resume` and `fork` go on there"),
        (["--at", "90"], "past its end"),
        (["--at", "1", "--budget", "1"], "--budget 1: the first branch"),
        (["--at", "auto"], "give --budget CALLS"),
        (["--edit", "none.json", "-r", "0"], "none.json"),
        (["--edit", "list.json", "-r", "0"], "one JSON object"),
    ],
)
@pytest.mark.few(2)
def test_bad_input_is_one_error(harness: Harness, tmp_path: Path, words: list[str], why: str):
    (tmp_path / "list.json").write_text("[]")
    assert harness("run", "--agent", "search", "-n", "2").code == 0
    refused = harness("fork", *words)
    assert refused.code == 2
    assert why in refused.err
    assert refused.err.count("error:") == 1


def test_what_a_dry_run_leaves_out_names_the_query(harness: Harness, tmp_path: Path):
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"id": name, "query": f"{name}?"}) + "\n" for name in "ab"))
    assert harness("run", "--agent", "search", "--queries", "q.jsonl", "-n", "1").code == 0
    told = harness("fork", "--at", "1,90", "--dry-run")
    assert [line.partition(" cannot")[0] for line in told.out.splitlines() if "past its end" in line] == [
        "left out: query a: rollout 0",
        "left out: query b: rollout 0",
    ]


@pytest.mark.parametrize("fatal", range(1, 6))
@pytest.mark.few(2)
def test_a_kill_in_a_fork_loses_the_calls_in_flight_alone(
    harness: Harness, nursery: Nursery, tmp_path: Path, fatal: int
):
    file, answer, running = noting_file(tmp_path / "agent"), stepping(), list[Born]()
    with FakeEndpoint(answer).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-" + "a" * 40}
        once = ["run", "Go on?", "--agent", str(file), "--model", "m", "-n", "1", "--topology", "none"]
        assert harness(*once, env=env).code == 0
        asked = len(endpoint.requests)

        def reply(seen: Seen) -> Reaction:
            if len(endpoint.requests) == asked + fatal:
                os.kill(running[0].pid, signal.SIGKILL)
            return answer(seen)

        endpoint.agent = reply
        running.append(nursery.start(["fork", "--at", "1,2"], tmp_path, env))
        assert nursery.wait(running[0]).code == -signal.SIGKILL
        endpoint.agent = answer
        again = harness("resume", env=env)
        assert again.code == 0, again.err
        assert 5 <= len(endpoint.requests) - asked <= 5 + 2
        assert harness("validate", env=env).code == 0
        assert harness("replay", env=env).code == 0
        assert len(marks(file)) <= 3 + (2 + 1) + 2


@pytest.mark.parametrize(
    ("share", "cached", "says"),
    [(0.5, 150, "first requests have 300 tokens (150 were cached);"), (None, None, "first requests have 300 tokens;")],
)
def test_a_dry_run_tells_the_tokens_of_the_prefixes_and_how_many_a_cache_gave(
    command: Command, served: FakeEndpoint, tmp_path: Path, share: float | None, cached: int | None, says: str
):
    file, answer = noting_file(tmp_path / "agent"), stepping()

    def reply(seen: Seen) -> Say:
        tokens = 50 + 50 * len(seen.tool_outputs)
        said = answer(seen)
        assert isinstance(said, Say)
        return replace(said, usage=(tokens, 20), cached=share and int(share * tokens))

    served.agent = reply
    command(f"run Why? --agent {file} --model m -n 1 --topology none -q")
    plan = json.loads(command("fork --at 1,3 --dry-run --json"))
    assert (plan["calls"], plan["prefix_tokens"], plan["cached_tokens"]) == (3 + 1, 100 + 200, cached)
    assert says in command("fork --at 1,3 --dry-run")


def test_a_fork_that_is_killed_and_resumed_keeps_to_its_budget(harness: Harness, nursery: Nursery, tmp_path: Path):
    file, running = noting_file(tmp_path / "agent"), list[Born]()
    with FakeEndpoint(stepping()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-" + "a" * 40}
        once = ["run", "Go on?", "--agent", str(file), "--model", "m", "-n", "1", "--topology", "none"]
        assert harness(*once, env=env).code == 0
        endpoint.requests.clear()

        def without_end(seen: Seen) -> Reaction:
            if len(endpoint.requests) == 2 and len(running) == 1:
                running.append(running[0])
                os.kill(running[0].pid, signal.SIGKILL)
            return Say(calls=(("note", {"text": f"step {len(seen.tool_outputs)}"}),))

        endpoint.agent = without_end
        running.append(nursery.start(["fork", "--at", "2", "--budget", "3"], tmp_path, env))
        assert nursery.wait(running[0]).code == -signal.SIGKILL
        for _ in range(2):
            harness("resume", env=env)
            assert len(endpoint.requests) == 3 + 1, "the call in flight was lost"
        (branch,) = [r for r in json.loads(harness("show", "--json").out)["groups"][0]["rollouts"] if "branch" in r]
        assert branch["failure"]["kind"] == "budget"
        assert "all 3 are made" in branch["failure"]["message"]
        assert harness("validate", env=env).code == 0


def test_an_imported_rollout_is_refused_with_why(harness: Harness, tmp_path: Path):
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    (tmp_path / "made.jsonl").write_text(json.dumps({"messages": said}))
    assert harness("import", "made.jsonl").code == 0
    refused = harness("fork", "--at", "0")
    assert refused.code == 2
    assert "cannot be taken up again: another program made its calls (" in refused.err
    assert refused.err.count("error:") == 1
