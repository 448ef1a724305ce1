"""The same command against a server: what it saw is what the archive states."""

import json
from itertools import count
from pathlib import Path

import pytest

from harness.archive.reader import RunReader
from harness.rollouts.examples import AGENT_MODEL
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Page, Refuse, Say, Seen, searching_agent, verdict


def lines(path: Path, folder: str) -> list[dict]:
    found = [json.loads(line) for p in sorted((path / folder).iterdir()) for line in p.read_text().splitlines()]
    return [r for r in found if r["kind"] != "header"]


def test_chat_completions_carries_the_temperatures_and_tools_that_the_archive_states(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    done = harness("run", "Why?", "--model", "m", "-n", "4", "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 0, done.err
    assert done.json["offline"] is False
    assert {r.path for r in endpoint.requests} == {"/v1/chat/completions"}
    rollouts = lines(tmp_path / done.json["path"], "rollouts")
    stated = sorted(c["temperature"] for r in rollouts for c in r["calls"])
    assert stated == sorted(r.body["temperature"] for r in endpoint.of_agent) == [0.0] * 2 + [0.8] * 6
    assert all(r["effective"]["uniform"] for r in rollouts)
    assert all(r.body["tools"][0]["function"]["name"] == "search" for r in endpoint.of_agent)
    for rollout in rollouts:
        (step,) = [s for s in rollout["trajectory"]["path"] if s["kind"] == "tool"]
        assert (step["tool_name"], json.loads(step["tool_input"])) == ("search", {"query": "programming languages"})
        assert step["reasoning"] == "I should search first."
        assert any(step["tool_output"] in r.tool_outputs for r in endpoint.of_agent)
        assert rollout["usage"]["input"] == 200
        assert rollout["price_usd"] is None
    assert all(r.body["temperature"] == 0 for r in endpoint.of_judge)
    assert (
        len(endpoint.of_judge)
        == len(lines(tmp_path / done.json["path"], "verdicts"))
        == done.json["groups"][0]["judged"]
    )


def test_the_responses_api_searches_the_web_and_its_call_is_a_step(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    done = harness(
        *"run Why? --api responses --base-url".split(),
        endpoint.base_url,
        "-n",
        "4",
        "--json",
        env={"OPENAI_API_KEY": "sk-agent"},
    )
    assert done.code == 0, done.err
    assert {r.path for r in endpoint.requests} == {"/v1/responses"}
    assert sorted(r.body["temperature"] for r in endpoint.of_agent) == [0.0, 0.8, 0.8, 0.8]
    for request in endpoint.of_agent:
        assert request.body["model"] == AGENT_MODEL
        assert "reasoning" not in request.body, "no temperature was refused"
        assert [t["type"] for t in request.body["tools"]] == ["web_search"]
    for rollout in lines(tmp_path / done.json["path"], "rollouts"):
        (step,) = rollout["trajectory"]["path"]
        assert (step["tool_name"], step["tool_type"]) == ("web_search", "hosted")
        assert "programming languages" in step["tool_input"]


def test_the_judge_has_an_address_a_key_and_a_model_of_its_own(harness: Harness, endpoint: FakeEndpoint):
    keys = {"OPENAI_API_KEY": "sk-agent", "HARNESS_JUDGE_API_KEY": "sk-judge"}
    with FakeEndpoint().serving() as other:
        done = harness(
            *"run Why? --model m -n 3 --judge-base-url".split(),
            other.base_url,
            "--judge-model",
            "j",
            env={"OPENAI_BASE_URL": endpoint.base_url} | keys,
        )
    assert done.code == 0, done.err
    assert {(r.key, r.body["model"]) for r in endpoint.requests} == {("sk-agent", "m")}
    assert {(r.key, r.body["model"]) for r in other.requests} == {("sk-judge", "j")}
    assert not endpoint.of_judge
    assert not other.of_agent


def test_no_key_ever_reaches_the_archive(harness: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-very-secret", "HARNESS_JUDGE_API_KEY": "sk-hush"}
    assert harness("run", "Why?", "--model", "m", "-n", "2", env=env).code == 0
    for path in (p for p in (tmp_path / "runs").rglob("*") if p.is_file()):
        data = path.read_bytes()
        assert b"sk-very-secret" not in data
        assert b"sk-hush" not in data


def test_the_judge_sees_task_query_and_both_transcripts_and_never_role_or_temperature(
    harness: Harness, endpoint: FakeEndpoint
):
    assert (
        harness("run", "Why is it so?", "--model", "m", "-n", "2", env={"OPENAI_BASE_URL": endpoint.base_url}).code == 0
    )
    assert len(endpoint.of_judge) == 2
    for request in endpoint.of_judge:
        for said in (
            "[QUERY ",
            "Why is it so?",
            "[TASK ",
            "research assistant",
            "Tools: search",
            "[PATH_A ",
            "[ANSWER_B ",
        ):
            assert said in request.user
        for never in ("anchor", "temperature", "call_", "rollout"):
            assert never not in request.user
    first, second = (r.user for r in endpoint.of_judge)
    assert first != second


def test_a_reference_from_the_queries_file_is_shown_to_the_judge(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    (tmp_path / "q.jsonl").write_text('{"id": "one", "query": "Why?", "reference": "Because of the moon."}\n')
    done = harness("run", "--queries", "q.jsonl", "--model", "m", "-n", "2", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 0, done.err
    assert all("Because of the moon." in r.user for r in endpoint.of_judge)
    assert not any("Because of the moon." in json.dumps(r.body) for r in endpoint.of_agent)


def test_rescore_with_another_judge_asks_that_judge_alone(harness: Harness, endpoint: FakeEndpoint):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    assert harness("run", "Why?", "--model", "m", "-n", "3", env=env).code == 0
    before = len(endpoint.of_agent)
    endpoint.requests.clear()
    again = harness("rescore", "--judge-model", "other", "--json", env=env)
    assert again.code == 0, again.err
    assert {r.body["model"] for r in endpoint.requests} == {"other"}
    assert again.json["groups"][0]["judged"] == len(endpoint.requests)
    assert again.json["groups"][0]["reused"] == 0
    assert before > 0
    endpoint.requests.clear()
    assert "bought 0" in harness("rescore", env=env).out
    assert not endpoint.requests


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_judge_without_json_schema_is_asked_in_simpler_forms_and_that_is_remembered(
    harness: Harness, api: str, tmp_path: Path
):
    def judge(seen: Seen) -> Say | Refuse:
        wanted = seen.body.get("response_format") or seen.body.get("text", {}).get("format")
        if wanted:
            return Refuse(400, f"{wanted['type']} is not supported here")
        return Say(f"Let me think.\n```json\n{verdict(7, 6)}\n```")

    with FakeEndpoint(judge=judge).serving() as endpoint:
        args = ("run", "Why?", "--model", "m", "-n", "3", "--api", api, "--json")
        done = harness(*args, env={"OPENAI_BASE_URL": endpoint.base_url})
        assert done.code == 0, done.err
        assert len(endpoint.of_judge) == 2 + done.json["groups"][0]["judged"]
    assert {v["form"] for v in lines(tmp_path / done.json["path"], "verdicts")} == {"text"}


def test_a_judge_that_refuses_temperature_is_asked_without_it(harness: Harness):
    def judge(seen: Seen) -> Say | Refuse:
        if "temperature" in seen.body:
            return Refuse(400, "Unsupported parameter: 'temperature'", "unsupported_parameter", "temperature")
        assert seen.body["response_format"]["type"] == "json_schema"
        return Say(verdict(7, 6))

    with FakeEndpoint(judge=judge).serving() as endpoint:
        done = harness("run", "Why?", "--model", "m", "-n", "3", "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
        assert done.code == 0, done.err
        assert sum("temperature" in r.body for r in endpoint.of_judge) == 1


def test_an_unusable_verdict_is_repaired_once_and_both_replies_are_kept(harness: Harness, tmp_path: Path):
    def judge(seen: Seen) -> Say:
        return Say(verdict(7, 6) if "cannot be used" in json.dumps(seen.body) else verdict(11, 6))

    with FakeEndpoint(judge=judge).serving() as endpoint:
        done = harness("run", "Why?", "--model", "m", "-n", "2", "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 0, done.err
    verdicts = lines(tmp_path / done.json["path"], "verdicts")
    assert [(v["status"], v["repaired"], len(v["raw_replies"])) for v in verdicts] == [("ok", True, 2)] * 2
    blobs = RunReader(tmp_path / done.json["path"]).blobs
    assert all(blobs.get(raw) for v in verdicts for raw in v["raw_replies"])


def group_keys(verdicts: list[dict]) -> set[str]:
    return {v["key"] for v in verdicts}


def test_a_failed_verdict_is_no_score_and_rescore_asks_for_it_again(harness: Harness, tmp_path: Path):
    broken = {"now": True}

    def judge(seen: Seen) -> Say:
        return Say("I would rather not." if broken["now"] else verdict(7, 6))

    with FakeEndpoint(judge=judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        done = harness("run", "Why?", "--model", "m", "-n", "3", "--json", env=env)
        assert done.code == 3
        (group,) = done.json["groups"]
        assert group["status"] == "incomplete"
        assert {r["rank"] for r in group["rollouts"]} == {None}
        failed = lines(tmp_path / done.json["path"], "verdicts")
        assert {v["status"] for v in failed} == {"failed"}
        assert not any("a" in v or "winner" in v for v in failed)
        assert done.json["failed_verdicts"] == {"it holds no JSON object with the scores.": len(group_keys(failed))}
        shown = harness("show")
        assert "it holds no JSON object with the scores." in shown.out
        assert "signal –" in shown.out
        broken["now"] = False
        again = harness("rescore", "--json", env=env)
    assert again.code == 0, again.err
    assert again.json["groups"][0]["status"] == "complete"


def test_a_rollout_that_fails_is_archived_with_its_cause_and_steps_and_the_group_goes_on(
    harness: Harness, tmp_path: Path
):
    answers, asked = searching_agent(), count()

    def agent(seen: Seen) -> Say | Refuse:
        if seen.tool_outputs and next(asked) in {1, 2}:
            return Refuse(400, "the server does not like this one")
        return answers(seen)

    with FakeEndpoint(agent=agent).serving() as endpoint:
        done = harness("run", "Why?", "--model", "m", "-n", "4", "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 1
    rollouts = done.json["groups"][0]["rollouts"]
    failed = [r for r in rollouts if r["status"] == "failed"]
    assert [f["failure"]["kind"] for f in failed] == ["api", "api"]
    assert "does not like" in failed[0]["failure"]["message"]
    assert all(f["steps"] >= 1 and f["rank"] is None for f in failed)
    assert sorted(r["rank"] for r in rollouts if r["status"] == "ok") == [0, 1]
    assert harness("rescore", "--max-failures", "2").code == 0


def test_too_many_turns_is_a_failure_of_the_agents_making_and_ranks_last(harness: Harness):
    answers, numbers = searching_agent(), count()

    def agent(seen: Seen) -> Say:
        if seen.body["temperature"] == 0:
            return answers(seen)
        return Say(calls=(("search", {"query": f"again {next(numbers)}"}),))

    with FakeEndpoint(agent=agent).serving() as endpoint:
        done = harness(
            *"run Why? --model m -n 3 --max-turns 4 --json".split(),
            env={"OPENAI_BASE_URL": endpoint.base_url},
        )
    assert done.code == 1
    anchor, *samples = done.json["groups"][0]["rollouts"]
    assert anchor["rank"] == 0
    assert [(s["failure"]["kind"], s["steps"], s["rank"]) for s in samples] == [("max_turns", 4, 1.5)] * 2


def test_a_slow_rollout_times_out_and_keeps_its_steps(harness: Harness):
    answers, released = searching_agent(), __import__("threading").Event()

    def agent(seen: Seen) -> Say:
        if seen.body["temperature"] and seen.tool_outputs:
            released.wait(0.5)
            return Say(calls=(("search", {"query": "once more"}),))
        return answers(seen)

    with FakeEndpoint(agent=agent).serving() as endpoint:
        args = ("run", "Why?", "--model", "m", "-n", "2", "--timeout", "2", "--max-turns", "100", "--json")
        done = harness(*args, env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 1
    _, sample = done.json["groups"][0]["rollouts"]
    assert sample["failure"]["kind"] == "timeout"
    assert sample["steps"] >= 1


def test_a_temperature_beyond_the_models_range_goes_out_at_its_end_and_that_is_told_once(harness: Harness):
    def agent(seen: Seen) -> Say | Refuse:
        if seen.body["temperature"] > 1:
            return Refuse(400, "temperature must be between 0 and 1", "invalid_request_error", None)
        return Say(f"Answer {seen.body['seed']}.")

    with FakeEndpoint(agent=agent).serving() as endpoint:
        args = ("run", "Why?", "--model", "m", "-n", "4", "--temperature", "1.3", "--json")
        done = harness(*args, env={"OPENAI_BASE_URL": endpoint.base_url})
        sent = [seen.body["temperature"] for seen in endpoint.of_agent if seen.body["temperature"] <= 1]
    assert done.code == 0, done.err
    assert sorted(sent) == [0, 1, 1, 1]
    assert done.json["groups"][0]["anchor_is_greedy"] is True
    assert done.err.count("takes temperature from 0 to 1: calls that ask for 1.3 go out with 1") == 1


def test_a_refused_temperature_is_told_once_on_stderr_and_in_the_results(harness: Harness, tmp_path: Path):
    def agent(seen: Seen) -> Say | Refuse:
        if "temperature" in seen.body:
            return Refuse(400, "Unsupported value: 'temperature'", "unsupported_value", "temperature")
        return Say(f"Answer {seen.body['seed']}.")

    with FakeEndpoint(agent=agent).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        done = harness("run", "Why?", "--model", "m", "-n", "4", "--json", env=env)
        strict = harness("run", "Why?", "--model", "m", "-n", "4", "--strict-temperature", env=env)
    assert done.code == 0, done.err
    assert done.json["groups"][0]["anchor_is_greedy"] is False
    assert done.err.count("refuses the setting temperature") == 1
    assert "anchor was not greedy" in harness("show").out
    page = next((tmp_path / "runs").glob("*/report.html")).read_text("utf-8")
    assert "anchor was not greedy" in page
    assert strict.code == 2
    assert "refuses the setting temperature, and --strict-temperature is on" in strict.err


def test_a_failed_anchor_leaves_the_others_ranked_or_the_group_unranked_as_asked(harness: Harness):
    def agent(seen: Seen) -> Say | Refuse:
        greedy = seen.body["temperature"] == 0
        return Refuse(400, "not greedily", "bad") if greedy else Say(f"Answer {seen.body['seed']}.")

    def warmed(seen: Seen) -> Say | Refuse:
        return Say(calls=(("search", {"query": "x"}),)) if not seen.tool_outputs else agent(seen)

    with FakeEndpoint(agent=warmed).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        done = harness("run", "Why?", "--model", "m", "-n", "5", "--json", env=env)
        stopped = harness("rescore", "--anchor-failed", "stop", "--json", env=env)
    assert done.code == 1
    (group,) = done.json["groups"]
    assert group["topology"] == "single"
    assert sorted(r["rank"] for r in group["rollouts"][1:]) == [0, 1, 2, 3]
    assert "the anchor failed" in group["notes"][0]
    assert {r["rank"] for r in stopped.json["groups"][0]["rollouts"]} == {None}
    assert stopped.code == 3


def test_what_a_tool_prints_does_not_stand_among_the_results(program: Harness, endpoint: FakeEndpoint, tmp_path: Path):
    (tmp_path / "loud.py").write_text(
        "from agents import Agent, function_tool\n"
        "@function_tool\ndef search(query: str) -> str:\n    print('noise')\n    return 'found'\n"
        "agent = Agent(name='loud', tools=[search])\n"
    )
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    done = program("run", "Why?", "--agent", "loud.py", "--model", "m", "-n", "2", "--json", env=env)
    assert done.code == 0, done.err
    assert done.json["groups"]
    assert "noise" in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_error_page_instead_of_a_verdict_is_a_failed_verdict_that_is_kept(
    harness: Harness, tmp_path: Path, api: str
):
    with FakeEndpoint(judge=lambda _: Page()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        done = harness("run", "Why?", "--model", "m", "-n", "2", "--api", api, "--retries", "1", "--json", env=env)
    assert done.code == 3, done.err
    assert "Traceback" not in done.err
    for failed in lines(tmp_path / done.json["path"], "verdicts"):
        assert failed["failure"]["kind"] == "api"
        assert "Bad gateway" in failed["failure"]["message"]
        assert len(failed["raw_replies"]) == 1
