"""What judging costs, through a real socket: nothing is bought twice, nothing beyond a ceiling."""

import json
from pathlib import Path

import pytest

from tests.cli.test_endpoint_run import lines
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Say, Seen, fair_judge
from tests.nursery import Nursery

ALL = ("run", "Why?", "--model", "m", "-n", "3", "--json")


def no_json_schema(seen: Seen) -> Reaction:
    if seen.body.get("response_format", {}).get("type") == "json_schema":
        return Refuse(400, "json_schema is not supported", param="response_format")
    return fair_judge()(seen)


@pytest.mark.few(1)
@pytest.mark.parametrize("judge", [fair_judge(), no_json_schema], ids=["json_schema", "json_schema refused"])
def test_the_same_judging_in_a_new_process_sends_nothing_at_all(nursery: Nursery, tmp_path: Path, judge) -> None:
    with FakeEndpoint(judge=judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        first = nursery.wait(nursery.start(ALL, tmp_path, env))
        assert first.code == 0, first.err
        before = len(endpoint.requests)
        again = nursery.wait(nursery.start(("rescore", "--json"), tmp_path, env))
    assert again.code == 0, again.err
    assert len(endpoint.requests) == before
    (old,), (new,) = first.json["groups"], again.json["groups"]
    assert (new["judged"], new["reused"], new["judge_usd"]) == (0, old["judged"], 0.0)
    assert new["rollouts"] == old["rollouts"]


def test_two_identical_transcripts_cost_one_call(harness: Harness):
    with FakeEndpoint(agent=lambda _: Say("The same.")).serving() as endpoint:
        done = harness(*ALL, env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 0, done.err
    assert len(endpoint.of_judge) == 1


def test_repeats_are_bought_beside_the_verdicts_that_are_there_and_recorded_as_such(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    first = harness(*ALL, env=env)
    again = harness("rescore", "--judge-repeats", "3", "--json", env=env)
    assert again.code == 0, again.err
    (old,), (new,) = first.json["groups"], again.json["groups"]
    assert (new["judged"], new["reused"]) == (2 * old["judged"], old["judged"])
    repeats = [v["repeat"] for v in lines(tmp_path / again.json["path"], "verdicts")]
    assert {k: repeats.count(k) for k in range(3)} == dict.fromkeys(range(3), old["judged"])


def test_cached_tokens_are_reported(harness: Harness):
    def judge(seen: Seen) -> Say:
        said = fair_judge()(seen)
        assert isinstance(said, Say)
        return Say(said.text, usage=(1000, 200), cached=640)

    with FakeEndpoint(judge=judge).serving() as endpoint:
        done = harness(*ALL, env={"OPENAI_BASE_URL": endpoint.base_url})
        (group,) = done.json["groups"]
        assert group["judge_usage"]["cached"] == 640 * group["judged"]
        shown = harness("show")
    assert f"{640 * group['judged']:,} input tokens from the provider's cache" in " ".join(shown.out.split())


# ---- --reuse


def test_verdicts_of_another_run_are_used_and_copied_so_that_each_run_is_whole(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    env = {"OPENAI_BASE_URL": endpoint.base_url}

    def agent(seen: Seen) -> Say:
        return Say(f"My number is {seen.body.get('seed')}.")

    endpoint.agent = agent
    first = harness(*ALL, env=env)
    asked = len(endpoint.of_judge)
    second = harness(*ALL, "--reuse", "last", "--runs-dir", "runs", env=env)
    assert second.code == 0, second.err
    assert len(endpoint.of_judge) == asked
    (group,) = second.json["groups"]
    assert (group["judged"], group["reused"]) == (0, first.json["groups"][0]["judged"])
    (tmp_path / first.json["path"]).rename(tmp_path / "gone")
    copied = lines(tmp_path / second.json["path"], "verdicts")
    blobs = {b["sha256"] for b in lines(tmp_path / second.json["path"], "blobs")}
    assert {v["source"] for v in copied} == {first.json["run"]}
    assert all(set(v["raw_replies"]) <= blobs for v in copied)
    assert "bought 0" in harness("rescore", env=env).out


@pytest.mark.parametrize("command", [ALL, ("rescore",)])
def test_an_unknown_run_to_reuse_is_refused_before_anything_is_spent(command, harness: Harness, endpoint: FakeEndpoint):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    harness(*ALL, env=env)
    before = len(endpoint.requests)
    done = harness(*command, "--reuse", "nosuchrun", env=env)
    assert (done.code, done.out) == (2, "")
    assert "no run 'nosuchrun'" in done.err
    assert len(endpoint.requests) == before


# ---- --dry-run and --free


def test_a_dry_run_of_rescore_tells_what_it_would_reuse_and_buy_and_writes_nothing(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    first = harness(*ALL, env=env)
    judged, before = first.json["groups"][0]["judged"], len(endpoint.requests)
    files = {p: p.stat().st_size for p in (tmp_path / "runs").rglob("*")}
    same = harness("rescore", "--dry-run", env=env)
    assert (same.code, same.out) == (
        0,
        f"reused {judged}, would buy 0 (judge: m@{endpoint.host}); estimated cost: $0.00\n",
    )
    other = harness("rescore", "--dry-run", "--judge-label", "another", "--json", env=env)
    assert (other.json["run"], other.json["reused"]) == (first.json["run"], 0)
    low, high = other.json["would_buy"]
    assert files == {p: p.stat().st_size for p in (tmp_path / "runs").rglob("*")}
    assert len(endpoint.requests) == before
    done = harness("rescore", "--judge-label", "another", "--json", env=env)
    assert f"would buy {low} to {high} (judge: m@{endpoint.host}); estimated cost: unknown" in " ".join(
        done.err.split()
    )
    assert low <= done.json["groups"][0]["judged"] <= high


def test_what_will_be_reused_is_told_without_the_raw_replies_which_nothing_needs(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    folder = tmp_path / harness(*ALL, env=env).json["path"]
    for path in (folder / "blobs").iterdir():
        path.unlink()
    done = harness("rescore", "--estimator", "bt", env=env)
    assert (done.code, "would buy 0" in done.err) == (0, True), done.err


def test_free_buys_nothing_and_leaves_incomplete_what_would_need_it(harness: Harness, endpoint: FakeEndpoint):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    harness(*ALL, env=env)
    before = len(endpoint.requests)
    same = harness("rescore", "--free", "--json", env=env)
    other = harness("rescore", "--free", "--judge-label", "another", "--json", env=env)
    assert len(endpoint.requests) == before
    assert (same.code, same.json["groups"][0]["status"]) == (0, "complete")
    assert (other.code, other.json["groups"][0]["status"]) == (3, "incomplete")


# ---- --max-cost


def priced(endpoint: FakeEndpoint) -> dict[str, str]:
    """The fake at an address for which the price library lists prices: it looks for Azure's name anywhere."""
    return {"OPENAI_BASE_URL": f"http://localhost:{endpoint.host.split(':')[1]}/x.openai.azure.com/v1"}


DEAR = ("run", "Why?", "--model", "gpt-4o-mini", "-n", "4", "--json")
"""A rollout costs 0.000054 USD, a verdict 0.00027."""


def spent(path: Path) -> float:
    return sum(r["price_usd"] for folder in ("rollouts", "verdicts") for r in lines(path, folder) if r["price_usd"])


def test_the_estimate_is_told_before_anything_is_spent(harness: Harness, endpoint: FakeEndpoint):
    done = harness(*DEAR, "--dry-run", env=priced(endpoint))
    told = harness(*DEAR[:-1], "--dry-run", env=priced(endpoint)).out
    assert done.code == 0, done.err
    low, high = done.json["cost_usd"]
    assert 0 < low < high
    assert "estimated cost: $" in told
    assert "assuming 500 to 50,000 tokens in" in told
    assert "a judge call" in told
    assert not endpoint.requests
    unknown = harness(*ALL, "--dry-run", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert unknown.json["cost_usd"] is None


def test_a_ceiling_on_what_has_no_price_is_refused(harness: Harness, endpoint: FakeEndpoint):
    done = harness(*ALL, "--max-cost", "1", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert (done.code, done.out) == (2, "")
    assert "the price of the agent's model (m at http://127.0.0.1" in done.err
    assert not endpoint.requests


def test_a_ceiling_reached_while_judging_keeps_what_was_paid_for_and_rescore_buys_only_the_rest(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    env = priced(endpoint)
    done = harness(*DEAR, "--max-cost", "0.001", env=env)
    assert done.code == 4, done.err
    (group,) = done.json["groups"]
    folder = tmp_path / done.json["path"]
    assert (group["status"], len(group["rollouts"]), group["judged"]) == ("incomplete", 4, 2)
    assert 0 < spent(folder) <= 0.001
    assert "stopped: the next judge call could exceed --max-cost 0.001: $" in done.err
    assert "--max-cost 0.002` does what is missing" in done.err
    assert len(endpoint.of_judge) == 2
    again = harness("rescore", "--max-cost", "1", "--json", env=env)
    assert again.code == 0, again.err
    assert again.json["groups"][0]["reused"] == 2
    keys = [v["key"] for v in lines(folder, "verdicts")]
    assert len(endpoint.of_judge) == len(keys) == len(set(keys))


def test_a_ceiling_reached_while_rolling_out_begins_no_further_rollout(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    done = harness(*DEAR, "--max-cost", "0.0002", env=priced(endpoint))
    assert done.code == 4, done.err
    assert len(lines(tmp_path / done.json["path"], "rollouts")) == 3
    assert not endpoint.of_judge
    (group,) = done.json["groups"]
    assert group["status"] == "incomplete"
    assert group["notes"] == ["--max-cost left 1 rollout not begun"]


def test_a_ceiling_that_suffices_is_not_felt(harness: Harness, endpoint: FakeEndpoint):
    done = harness(*DEAR, "--max-cost", "1", env=priced(endpoint))
    assert done.code == 0, done.err
    assert json.dumps(done.json).count('"incomplete"') == 0
