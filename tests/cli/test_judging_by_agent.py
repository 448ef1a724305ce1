"""--judge-agent as a user runs it: nothing is bought twice, and no code of a stranger's runs."""

import json
import os
import random
import re
import shutil
import signal
import threading
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from harness.judging.rubric import rubric_source
from tests.cli.test_endpoint_run import lines
from tests.conftest import Harness
from tests.doctor.test_recorded_pairs import looks_further
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, fair_judge, list_judge, verdict
from tests.nursery import Born, Nursery

JUDGE = """
from pathlib import Path
from agents import Agent
Path({mark!r}).touch()
judge = Agent(name="checker", model="judge-m", instructions="Mark LLM_A and LLM_B. {more}")
"""
RUN = ("run", "Why?", "--model", "m", "-n", "2", "--judge-agent", "checks.py:judge")


def looking_judge(answer: Any = None) -> Any:
    """Read a step of each side, then judge."""

    def reply(seen: Seen) -> Any:
        if not seen.tool_outputs and any("read_step" in str(tool) for tool in seen.body.get("tools", ())):
            return Say(calls=tuple(("read_step", {"side": side, "n": 1, "start": 0}) for side in "AB"), usage=(500, 20))
        return (answer or fair_judge())(seen)

    return reply


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that is there once the judge's file was loaded."""
    mark = tmp_path / "mark"
    for name in ("checks.py", "twin.py"):
        (tmp_path / name).write_text(JUDGE.format(mark=str(mark), more=""))
    return mark


def test_what_an_agent_judged_is_ranked_again_without_a_call_and_is_whole(harness: Harness, mark: Path, tmp_path: Path):
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        first = harness(*RUN, "--price", "judge-m=10/100", "--json", env=env)
        assert first.code == 0, first.err
        assert "counts only where" not in first.err, "the price is that of the judge's model"
        before, (group,) = len(endpoint.requests), first.json["groups"]
        assert len(endpoint.of_judge) == 2 * group["judged"]
        assert group["judge_usd"] == pytest.approx(group["judged"] * (1_500 * 10 + 220 * 100) / 1e6)
        mark.unlink()
        for again in (("rescore", "--json"), ("rescore", "--free", "--json")):
            done = harness(*again, env=env)
            assert done.code == 0, done.err
            (now,) = done.json["groups"]
            assert (now["judged"], now["rollouts"]) == (0, group["rollouts"])
        assert len(endpoint.requests) == before
        shown = harness("show", "--match", "1", "--brief", env=env)
        whole = harness("validate", env=env)
    assert 'looked at: 1. read_step {"side": "A", "n": 1, "start": 0}' in shown.out
    assert "looked at" in (tmp_path / first.json["path"] / "report.html").read_text().lower()
    assert (whole.code, whole.out.split()[-1]) == (0, "whole"), whole.out
    assert {v["form"] for v in lines(tmp_path / first.json["path"], "verdicts")} == {"agent"}


def test_both_orders_are_asked_and_an_agent_that_likes_the_first_side_flips(harness: Harness, mark: Path):
    del mark
    with FakeEndpoint(judge=looking_judge(lambda _: Say(verdict(8, 4)))).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness(*RUN, env=env).code == 0
        matches = harness("show", "--matches", "--json", env=env).json
    assert matches
    assert all(match["flipped"] and len(match["verdicts"]) == 2 for match in matches)


UNSURE = ("--judge-model", "m2", "--judge-agent-when", "unsure")


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("more", [(), UNSURE], ids=["alone", "behind a model"])
def test_after_a_kill_resume_buys_only_what_never_reached_the_disk(
    harness: Harness, nursery: Nursery, mark: Path, tmp_path: Path, seed: int, more: tuple[str, ...]
) -> None:
    del mark
    rng, answer = random.Random(seed), fair_judge()
    running: list[Born] = []
    fatal = rng.randint(3, 9 + 9 * bool(more))

    def judge(seen: Seen) -> Any:
        if len(endpoint.of_judge) == fatal:
            threading.Timer(rng.uniform(0, 0.02), os.kill, [running[0].pid, signal.SIGKILL]).start()
        return Say(verdict(7, 4)) if seen.body["model"] == "m2" else answer(seen)

    endpoint = FakeEndpoint(judge=judge)
    with endpoint.serving():
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        running.append(nursery.start([*RUN, *more, "-n", "4", "--judge-concurrency", "2"], tmp_path, env))
        assert nursery.wait(running[0]).code == -signal.SIGKILL
        (folder,) = (tmp_path / "runs").iterdir()
        on_disk, asked = {v["key"] for v in lines(folder, "verdicts")}, len(endpoint.of_judge)
        again = harness("resume", "--json", env=env)
    assert again.code == 0, again.err
    keys = [v["key"] for v in lines(folder, "verdicts")]
    assert len(keys) == len(set(keys))
    assert len(endpoint.of_judge) - asked == len(set(keys) - on_disk)


def test_in_a_jury_the_plain_model_is_asked_as_it_is_alone_and_what_it_said_before_counts(harness: Harness, mark: Path):
    del mark
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        alone = harness(*RUN[:-2], "--judge-model", "m2", "--topology", "round_robin", "--json", env=env)
        assert alone.code == 0, alone.err
        before = len(endpoint.of_judge)
        both = harness("rescore", "--judge-agent", "checks.py:judge", "--judge-model", "m2", "--json", env=env)
        assert both.code == 0, both.err
        (old,), (new,) = alone.json["groups"], both.json["groups"]
        assert (new["reused"], new["judged"]) == (old["judged"], old["judged"])
        assert len(endpoint.of_judge) - before == 2 * new["judged"]
        assert harness("validate", env=env).code == 0


def test_only_pairs_on_which_the_model_is_unsure_go_to_the_agent(harness: Harness, mark: Path, tmp_path: Path):
    del mark
    marks = {"Answer number 1.": 2, "Answer number 2.": 8, "Answer number 3.": 5}

    def judge(seen: Seen) -> Any:
        sides = [block(seen.user, f"ANSWER_{side}") for side in "AB"]
        if seen.body["model"] == "m2" and "Answer number 2." not in sides:
            return Say(verdict(7, 4))  # it likes whoever stands first
        return fair_judge(marks.__getitem__)(seen)

    with FakeEndpoint(judge=looking_judge(judge)).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        unsure = (*UNSURE, "--topology", "round_robin", "-n", "3")
        planned = harness(*RUN, *unsure, "--dry-run", env=env)
        assert "6 to 12 judge calls" in planned.out, planned.out
        done = harness(*RUN, *unsure, "--json", env=env)
        assert done.code == 0, done.err
        models = [seen.body["model"] for seen in endpoint.of_judge]
        assert (models.count("m2"), models.count("judge-m")) == (6, 4)
        (group,) = done.json["groups"]
        assert (group["judged"], group["status"]) == (8, "complete")
        assert not any("juror" in note for note in group["notes"])
        ranks = {rollout["index"]: rollout["rank"] for rollout in group["rollouts"]}
        again = harness("rescore", "--json", env=env)
        whole = harness("validate", env=env)
        assert len(endpoint.of_judge) == len(models)
        alone = harness("rescore", "--judge-agent", "checks.py:judge", "--json", env=env)
        assert (alone.json["groups"][0]["judged"], alone.json["groups"][0]["reused"]) == (4, 2), alone.err
        models_alone = harness("rescore", "--judge-model", "m2", "--json", env=env)
        assert (models_alone.code, models_alone.json["groups"][0]["reused"]) == (0, 6), models_alone.err
    assert (again.json["groups"][0]["judged"], whole.code) == (0, 0), whole.out
    assert sorted(ranks.values()) == [0, 1, 2]
    by_judge = [v["judge"].partition("@")[0].partition("-")[0] for v in lines(tmp_path / done.json["path"], "verdicts")]
    assert (by_judge.count("m2"), by_judge.count("checks")) == (6, 2 + 4)


def test_a_ceiling_holds_an_agent_back_and_resume_buys_the_rest(harness: Harness, mark: Path):
    del mark
    prices = ("--price", "m=1/1", "--price", "judge-m=10/10")
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        held = harness(*RUN, "-n", "4", *prices, "--max-cost", "0.05", "--json", env=env)
        (group,) = held.json["groups"]
        assert (held.code, group["status"]) == (4, "incomplete"), held.err
        assert 0 < group["judge_usd"] <= 0.05
        asked = len(endpoint.of_judge)
        whole = harness("resume", "--max-cost", "5", "--json", env=env)
    assert (whole.code, whole.json["groups"][0]["status"]) == (0, "complete"), whole.err
    assert len(endpoint.of_judge) == 2 * (group["judged"] + whole.json["groups"][0]["judged"]) > asked


def test_a_listwise_agent_scores_a_group_at_once(harness: Harness, mark: Path):
    del mark

    def judge(seen: Seen) -> Say:
        if not seen.tool_outputs:
            return Say(calls=(("read_step", {"side": "2", "n": 1, "start": 0}),))
        said = list_judge()(seen)
        assert isinstance(said, Say)
        return said

    with FakeEndpoint(judge=judge).serving() as endpoint:
        done = harness(*RUN, "--judge", "ruler", "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
        outputs = [seen.tool_outputs for seen in endpoint.of_judge if seen.tool_outputs]
    assert done.code == 0, done.err
    assert outputs
    assert all(output[0].startswith("Step 1 ") for output in outputs)


def test_a_comparison_is_judged_by_an_agent_and_nothing_is_bought_twice(
    harness: Harness, mark: Path, tmp_path: Path
) -> None:
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env, by_agent = {"OPENAI_BASE_URL": endpoint.base_url}, ("--judge-agent", "checks.py:judge", "--json")
        rolled_out = ("--queries", "q.txt", "-n", "2", "--pairs", "1", "--model", "m")
        (tmp_path / "q.txt").write_text("Why?\n")
        sides = ("poet.py", "search", *rolled_out)
        (tmp_path / "poet.py").write_text('from agents import Agent\nagent = Agent(name="poet")\n')
        done = harness("compare", *sides, *by_agent, env=env)
        assert done.code == 0, done.err
        assert done.json["judge"].startswith("checks-"), done.json["judge"]
        asked = len(endpoint.of_judge)
        assert asked == 2 * 2 * 2, "two pairs in both orders, and a look into the record for each"
        runs = [side["run"] for side in done.json["sides"]]
        again = harness("compare", *runs, "--pairs", "1", *by_agent, env=env)
        assert (again.code, again.json["comparison"], len(endpoint.of_judge)) == (0, done.json["comparison"], asked)
        for part in ("verdicts", "comparisons"):
            shutil.rmtree(tmp_path / done.json["path"] / part)
        mark.unlink()
        stranger = env | {"XDG_STATE_HOME": str(tmp_path / "elsewhere")}
        refused = harness("resume", done.json["comparison"], env=stranger)
        assert (refused.code, mark.exists()) == (2, False), refused.err
        resumed = harness("resume", done.json["comparison"], "--json", env=env)
        assert (resumed.code, len(endpoint.of_judge)) == (0, 2 * asked), resumed.err


def test_a_model_with_and_without_flags_and_an_agent_stand_side_by_side(harness: Harness, mark: Path, tmp_path: Path):
    del mark
    text = rubric_source("writing").replace("\n---\n", "\nevidence: yes\n---\n", 1)
    (tmp_path / "evidence.md").write_text(text)
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env, prices = {"OPENAI_BASE_URL": endpoint.base_url}, ("--price", "m2=1/1", "--price", "judge-m=10/10")
        first = harness("run", "Why?", "--model", "m", "-n", "2", "--judge-model", "m2", *prices, "--json", env=env)
        answers = [rollout["answer"] for rollout in first.json["groups"][0]["rollouts"]]
        label = {"query": "Why?", "a": answers[0], "b": answers[1], "label": "a"}
        (tmp_path / "labels.jsonl").write_text(json.dumps(label))
        for judge in (("--rubric", "evidence.md"), ("--judge-agent", "checks.py:judge")):
            assert harness("rescore", *judge, *prices, "-q", env=env).code == 0
        side = harness("judges", "--labels", "labels.jsonl", "--json", env=env).json
        shown = harness("judges", env=env).out
        asked = ("--judge-model", "m2", "--judge-agent", "checks.py:judge", "--rubric", "evidence.md")
        pair = {"run": first.json["run"], "rollouts": [0, 1], "label": "b"}
        (tmp_path / "pairs.jsonl").write_text(json.dumps(pair))
        doctor = harness("doctor", "--judge", "--pairs", "pairs.jsonl", *asked, env=env)
        checks = harness("doctor", "--judge-agent", "checks.py:judge", "--model", "m", "--live", "--ports", "", env=env)
    plain, flags, agent = side["rankings"]
    assert plain["usd_each"]["value"] == flags["usd_each"]["value"] < agent["usd_each"]["value"]
    assert all(each["right"]["labels"] and each["seconds"]["value"] >= 0 for each in side["rankings"])
    assert len(side["agreements"]) == 3
    assert "cost a verdict" in shown
    assert (doctor.code, "6 calls for 1 pair" in doctor.err) == (0, True), doctor.err
    assert [line.split("rubric")[0].split()[:1] for line in doctor.out.splitlines()[:3]] == [["1"], ["2"], ["3"]]
    assert "with evidence" in doctor.out
    assert checks.code == 0, checks.out
    assert "agent checks, on judge-m at" in checks.out
    assert "the agent's verdict fits" in checks.out


@pytest.mark.nightly
def test_judges_say_how_many_planted_defects_each_finds_and_what_that_cost_once(
    harness: Harness, mark: Path, tmp_path: Path
):
    text = rubric_source("writing").replace("\n---\n", "\nevidence: yes\n---\n", 1)
    (tmp_path / "evidence.md").write_text(text)

    def judge(seen: Seen) -> Any:
        if seen.body["model"] == "m2":
            blocks = [block(seen.user, f"PATH_{side}") + block(seen.user, f"ANSWER_{side}") for side in "AB"]
            made_up = ["in no tool output of this agent" in text for text in blocks]
            return Say(
                verdict(*((3 if flag else 9) for flag in made_up)) if any(made_up) else verdict(8, 4), usage=(100, 10)
            )
        if "Why?" in seen.user:
            return fair_judge()(seen)
        said = looks_further(seen.user, list(seen.tool_outputs))
        return Say(said) if isinstance(said, str) else Say(calls=tuple(said), usage=(500, 20))

    with FakeEndpoint(judge=judge).serving() as endpoint:
        env, prices = {"OPENAI_BASE_URL": endpoint.base_url}, ("--price", "m2=1/1", "--price", "judge-m=10/10")
        first = harness("run", "Why?", "--model", "m", "-n", "2", "--judge-model", "m2", *prices, "-q", env=env)
        assert first.code == 0, first.err
        for other in (("--rubric", "evidence.md"), ("--judge-agent", "checks.py:judge")):
            assert harness("rescore", *other, *prices, "-q", env=env).code == 0
        before, planted = len(endpoint.of_judge), ("judges", "--planted", "--judge-agent", "checks.py:judge")
        quoted = harness(*planted, "--dry-run", "--json", env=env).json
        assert (quoted["judge_calls"], len(endpoint.of_judge)) == (72, before)
        assert 0 < quoted["cost_usd"][0] < quoted["cost_usd"][1]
        said = harness(*planted, "--dry-run", env=env).out
        assert re.search(r"m2@127\S+, \S+ about .*: at most 72 calls, .*; estimated cost: \$0\.\d+ to \$", said), said
        done = harness(*planted, "--json", env=env)
        assert done.code == 0, done.err
        asked = len(endpoint.of_judge)
        shown = harness(*planted, env=env)
        assert (asked - before, len(endpoint.of_judge)) == (24 + 24 + 2 * 24, asked)
        plain, ids = harness("judges", env=env), [ranking["ranking"] for ranking in done.json["rankings"]]
        without = harness(*planted, "--ranking", ids[0], "--ranking", ids[1], env=env)
        assert (without.code, "has an agent as its only judge" in without.err) == (2, True), without.err
        whole = harness("validate", env=env)
        mark.unlink()
        unnamed = harness(*planted[:2], env=env)
        shutil.rmtree(tmp_path / done.json["path"] / "verdicts")
        elsewhere = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "sk-mine"}
        stranger = harness(*planted, env=elsewhere | {"XDG_STATE_HOME": str(tmp_path / "elsewhere")})
        assert (stranger.code, len(endpoint.of_judge)) == (2, asked), stranger.out
        assert "--trust-archive" in stranger.err, stranger.err
    of_plain, of_flags, of_agent = (ranking["planted"] for ranking in done.json["rankings"])
    right = [{name: each["count"] for name, each in of["classes"].items()} for of in (of_plain, of_flags, of_agent)]
    classes = ("cut_fact", "broken_file", "false_source")
    by_flags = dict.fromkeys(classes, 0) | {"false_source": 4}
    assert right == [dict.fromkeys(classes, 0), by_flags, dict.fromkeys(classes, 4)]
    assert of_plain["usd_each"] == pytest.approx(110e-6)
    assert of_agent["usd_each"] > of_plain["usd_each"]
    assert re.search(r"planted: all +0 of 12 +4 of 12 +12 of 12", shown.out), shown.out
    assert "planted" not in plain.out
    assert whole.code == 0, whole.out
    assert (unnamed.code, "--judge-agent" in unnamed.err, mark.exists()) == (2, True, False), unnamed.err


def test_what_makes_two_meet_names_the_agent_that_judged(harness: Harness, mark: Path):
    del mark
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness("run", "Why?", "--model", "m", "-n", "4", "--judge-model", "m2", "-q", env=env).code == 0
        by_agent = ("--judge-agent", "checks.py:judge", "--topology", "single", "--order", "single")
        assert harness("rescore", *by_agent, "-q", env=env).code == 0
        met = {frozenset((m["a"], m["b"])) for m in harness("show", "--matches", "--json", env=env).json}
        a, b = next(pair for pair in combinations(range(4), 2) if frozenset(pair) not in met)
        offered = harness("why", "last", str(a), str(b), env=env).out
        words = re.search(r"rescore \S+ (--include .*)", offered)
        assert words, offered
        assert "--judge-agent checks.py:judge" in words[1]
        assert "--judge-model" not in words[1]


def test_no_code_of_the_judges_is_loaded_because_a_strangers_run_names_it(harness: Harness, mark: Path, tmp_path: Path):
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        first = harness(*RUN, "--json", env=env)
        assert first.code == 0, first.err
        mark.unlink()
        elsewhere = env | {"XDG_STATE_HOME": str(tmp_path / "elsewhere")}
        again = harness("rescore", "--json", env=elsewhere)
        assert (again.code, again.json["groups"][0]["judged"]) == (0, 0), again.err
        more = harness("rescore", "--judge-repeats", "2", env=elsewhere)
        assert (more.code, mark.exists()) == (2, False), more.err
        assert "--judge-agent" in more.err
        named = harness("rescore", "--judge-repeats", "2", "--judge-agent", "checks.py:judge", "--json", env=elsewhere)
    assert named.code == 0, named.err
    assert named.json["groups"][0]["judged"] == first.json["groups"][0]["judged"]


def test_an_agent_that_has_changed_judges_anew_where_it_is_named_and_else_not(
    harness: Harness, mark: Path, tmp_path: Path
):
    with FakeEndpoint(judge=looking_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        first = harness(*RUN, "--json", env=env)
        (tmp_path / "checks.py").write_text(JUDGE.format(mark=str(mark), more="Look well."))
        kept = harness("rescore", "--json", env=env)
        assert (kept.code, kept.json["groups"][0]["judged"]) == (0, 0), kept.err
        more = harness("rescore", "--judge-repeats", "2", env=env)
        assert (more.code, "--judge-agent" in more.err) == (2, True), more.err
        anew = harness("rescore", "--judge-agent", "checks.py:judge", "--json", env=env)
    assert anew.json["groups"][0]["judged"] == first.json["groups"][0]["judged"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--judge-agent", "checks.py:judge", "--judge-agent", "checks.py:judge"), "sits in the jury twice"),
        (("--judge-agent", "checks.py:judge", "--judge-agent", "twin.py:judge"), "sits in the jury twice"),
        (("--judge-agent", "nothing.py:judge"), "--judge-agent nothing.py:judge: no file"),
        (("--judge-agent", "checks.py:mark"), "--judge-agent checks.py:mark"),
        (("--judge-agent", "checks.py:judge", "--judge-batch"), "--judge-batch"),
        (("--judge-agent", "checks.py:judge", "--judge-agent-when", "unsure"), "--judge-model"),
        (("--judge-model", "m2", "--judge-agent-when", "unsure"), "name it with --judge-agent"),
        (("--judge-agent", "checks.py:judge", *UNSURE, "--judge", "ruler"), "--judge ruler has no pairs"),
        (("--judge-agent", "checks.py:judge", "--max-cost", "1"), "the price of the judge (judge-m"),
    ],
)
def test_what_cannot_judge_is_one_error_before_anything_is_asked(
    harness: Harness, mark: Path, tmp_path: Path, words: tuple[str, ...], told: str
):
    del mark
    with FakeEndpoint().serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        done = harness("run", "Why?", "--model", "m", "--price", "m=1/2", *words, env=env)
        assert (done.code, len(endpoint.requests)) == (2, 0), done.err
    assert told in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "runs").exists()
