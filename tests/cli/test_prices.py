"""--price and --price-by-name, from the estimate to the archive: `--max-cost` holds with them, and runs keep them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.test_buying_once import lines, spent
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Refuse

ALL = ("run", "Why?", "--model", "my-model", "-n", "4", "--json")
PRICED = (*ALL, "--price", "my-model=0.15/0.6")
"""What gpt-4o-mini costs: a rollout 0.000054 USD, a verdict 0.00027."""


@pytest.fixture
def env(endpoint: FakeEndpoint) -> dict[str, str]:
    return {"OPENAI_BASE_URL": endpoint.base_url}


def test_a_ceiling_holds_with_the_users_prices_and_resume_and_rescore_price_alike(
    harness: Harness, env: dict[str, str], tmp_path: Path
):
    plan = [word for word in PRICED if word != "--json"]
    assert "; --max-cost 0.001 is less" in harness(*plan, "--max-cost", "0.001", "--dry-run", env=env).out
    stopped = harness(*PRICED, "--max-cost", "0.001", env=env)
    assert stopped.code == 4, stopped.err
    folder = tmp_path / stopped.json["path"]
    assert json.loads((folder / "run.json").read_text())["settings"]["prices"] == ["my-model=0.15/0.6"]
    assert spent(folder) == pytest.approx(4 * 0.000054 + 2 * 0.00027)
    resumed = harness("resume", "--max-cost", "1", "--json", env=env)
    assert (resumed.code, resumed.json["groups"][0]["status"]) == (0, "complete"), resumed.err
    verdicts = spent(folder) - 4 * 0.000054
    assert verdicts == pytest.approx(0.00027 * round(verdicts / 0.00027))
    again = harness("rescore", "--judge-label", "anew", "--max-cost", "1", "--dry-run", "--json", env=env)
    assert again.json["cost_usd"][0] > 0, again.err
    other = ("rescore", "--judge-model", "dear", "--max-cost", "1", "--json")
    refused = harness(*other, env=env)
    assert refused.code == 2
    assert "--price dear=IN/OUT" in refused.err
    assert harness(*other, "--price", "dear=1/2", env=env).code == 0


def test_a_run_begun_without_prices_goes_on_with_them(harness: Harness, env: dict[str, str], endpoint: FakeEndpoint):
    free = harness(*ALL, "--topology", "none", env=env)
    assert free.code == 0, free.err
    priced = harness("rescore", "--topology", "arena", "--price", "my-model=1000/1000", "--max-cost", "0.5", env=env)
    assert priced.code == 4, priced.err
    calls = len(endpoint.of_judge)
    resumed = harness("resume", "--price", "my-model=0/0", "--max-cost", "0.5", "--json", env=env)
    assert (resumed.code, resumed.json["groups"][0]["status"]) == (0, "complete"), resumed.err
    assert len(endpoint.of_judge) > calls


def test_by_name_a_gateway_takes_the_list_price_and_the_plan_says_whose(harness: Harness, env: dict[str, str]):
    plan = ("run", "Why?", "--model", "gpt-4o-mini", "--dry-run")
    unknown = harness(*plan, env=env)
    assert "estimated cost: unknown" in unknown.out
    assert "--price MODEL=IN/OUT" in unknown.out
    known = harness(*plan, "--price-by-name", env=env)
    assert "estimated cost: $" in known.out
    assert "(--price-by-name): gpt-4o-mini: OpenAI's list price of gpt-4o-mini" in known.out
    as_json = harness(*plan, "--price-by-name", "--json", env=env).json
    assert as_json["prices_by_name"] == ["gpt-4o-mini: OpenAI's list price of gpt-4o-mini"]
    refused = harness("run", "Why?", "--model", "gpt-4o-mini", "--max-cost", "1", env=env)
    assert refused.code == 2
    assert "OpenAI's list price with --price-by-name" in refused.err
    assert harness("run", "Why?", "--model", "gpt-4o-mini", "--max-cost", "1", "--price-by-name", env=env).code == 0


def test_best_takes_prices_and_a_bad_one_costs_nothing(harness: Harness, env: dict[str, str], endpoint: FakeEndpoint):
    for command in ("run", "best"):
        for bad in ("my-model=1", "=1/2", "my-model=-1/2"):
            refused = harness(command, "Why?", "--model", "my-model", "--price", bad, env=env)
            assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
            assert "--price" in refused.err
    assert not endpoint.requests
    best = harness("best", "Why?", "--model", "my-model", "--price", "my-model=1/2", "-n", "2", env=env)
    assert best.code == 0, best.err
    assert "estimated cost: $" in best.err


def test_a_price_of_a_model_that_nobody_is_to_ask_is_named_with_the_nearest_one(harness: Harness, env: dict[str, str]):
    slip = harness(*ALL, "--price", "my-modell=1/2", "--judge-model", "other", "--dry-run", env=env)
    assert "--price 'my-modell' counts only where an endpoint replies with that name" in slip.err
    assert "did you mean 'my-model'?" in slip.err
    fits = harness(*ALL, *"--price my-model=1/2 --price other=1/2 --judge-model other --dry-run".split(), env=env)
    assert "--price" not in fits.err


def test_a_run_judged_at_the_flex_tier_costs_half_and_its_verdicts_serve_the_ordinary_tier(
    harness: Harness, env: dict[str, str], endpoint: FakeEndpoint, tmp_path: Path
):
    judge = endpoint.judge
    endpoint.judge = lambda seen: replace(judge(seen), tier=seen.body.get("service_tier"))  # pyright: ignore[reportArgumentType]
    by_name = ("run", "Why?", "--model", "gpt-5-mini", "--price-by-name", "-n", "3", "--json")
    flex = harness(*by_name, "--judge-tier", "flex", env=env)
    assert flex.code == 0, flex.err
    bought = lines(tmp_path / flex.json["path"], "verdicts")
    assert {(verdict.get("tier"), round(verdict["price_usd"], 6)) for verdict in bought} == {("flex", 0.000325)}
    again = harness("rescore", flex.json["run"], "--judge-tier", "default", "--dry-run", "--json", env=env)
    assert again.json["would_buy"] == [0, 0], again.err
    endpoint.judge = lambda _: Refuse(400, "Unsupported service_tier: flex")
    refused = harness(*by_name, "--judge-tier", "flex", env=env)
    assert (refused.code, "has no tier flex" in refused.err) == (2, True), refused.err
