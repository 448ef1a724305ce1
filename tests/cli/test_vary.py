"""`run --vary`: what is kept in the run holds when it goes on, is replayed, and is refused in one line."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.core.errors import UsageError
from harness.core.records import Rollout
from tests.cli.test_agent_file_and_instructions import Command, command, instructions_of, without_its_last_rollout
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge

__all__ = ["command"]
VARIANTS = "Sources first.\n---\nreplace:\nBe brief.\n"
PREFIXED, BRIEF = "Sources first.\n\nYou sum up.", "Be brief."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "variants.txt").write_text(VARIANTS)
    return tmp_path


def the_run(folder: Path) -> Path:
    (run,) = (path.parent for path in (folder / "runs").glob("*/run.json"))
    return run


def rollouts_of(run: Path) -> list[Rollout]:
    with RunReader(run) as reader:
        return [rollout for query in reader.queries() for rollout in reader.group(query).rollouts]


def settings_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())["settings"]


@pytest.mark.parametrize(
    "more", ["", pytest.param(" --isolate process", marks=[pytest.mark.process, pytest.mark.nightly])]
)
def test_variants_of_a_file_are_kept_in_the_run_and_hold_when_it_goes_on(command: Command, folder: Path, more: str):
    command(f"run --agent mine --offline -n 5 -q --vary instructions=variants.txt{more}")
    run = the_run(folder)
    before = instructions_of(run)
    assert before[0] == "You sum up."
    assert sorted(map(str, before[1:])) == [BRIEF, BRIEF, PREFIXED, PREFIXED]
    assert settings_of(run)["vary"] == f"instructions={json.dumps(['Sources first.', f'replace:{chr(10)}{BRIEF}'])}"
    (folder / "variants.txt").unlink()
    without_its_last_rollout(run)
    command("resume last -q")
    assert instructions_of(run) == before
    assert rollouts_of(run)[0].recipe is None


def test_paraphrases_are_kept_in_the_run_and_hold_when_it_goes_on(command: Command, folder: Path):
    plan = command("run --agent mine --offline -n 5 --vary instructions=2 --dry-run -q")
    assert "instructions=2: replace: Put another way (2): You sum up.\n" in plan
    command("run --agent mine --offline -n 5 -q --vary instructions=2")
    before = instructions_of(run := the_run(folder))
    assert Counter(before[1:]) == {f"Put another way ({at}): You sum up.": 2 for at in (1, 2)}
    assert "all identical" in command("replay last")
    without_its_last_rollout(run)
    command("resume last -q")
    assert instructions_of(run) == before


def test_the_embedded_model_varies_by_temperature_where_any_way_will_do(command: Command, folder: Path):
    command("run --agent mine --offline -n 3 -q --vary auto")
    assert settings_of(the_run(folder))["vary"] == "temperature"


def test_a_dry_run_says_which_model_is_asked_first_and_what_that_costs(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    at = "--model gpt-4.1 --base-url https://api.openai.com/v1 -n 3 -q --dry-run"
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    plan = command(f"run --agent mine {at} --vary auto")
    assert "samples vary by the first that works of temperature, effort and 4 paraphrases" in plan
    assert "gpt-4.1@api.openai.com is asked before the first rollout, cost $" in plan


def test_a_replay_has_each_rollout_s_variant(command: Command, folder: Path):
    command("run --agent mine --offline -n 3 -q --vary instructions=variants.txt")
    assert "3 of 3" in (text := command("replay last")) or "identical" in text


def test_a_run_without_vary_holds_nothing_of_it(command: Command, folder: Path):
    command("run --agent mine --offline -n 2 -q")
    run = the_run(folder)
    assert "vary" not in settings_of(run)
    assert not any(b'"recipe"' in path.read_bytes() for path in (run / "rollouts").glob("*.jsonl"))


@pytest.mark.parametrize(
    ("vary", "more", "complaint"),
    [
        ("instructions=none.txt", "", r"^--vary: instructions=none\.txt: cannot be read"),
        ("instructions=empty.txt", "", r"^--vary: instructions=empty\.txt: variant 1 of the instructions is empty"),
        ("instructions=variants.txt", " --redact Sources", r"^--vary: a key, or what --redact takes out, stands in it"),
        ("effort=low", "", r"^--vary: effort changes nothing of the embedded model; vary instructions or temperature"),
        ("effort=slow", "", r"^--vary 'effort=slow': effort=slow: no level of reasoning effort; the levels are none,"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_there_is_a_run(
    command: Command, folder: Path, vary: str, more: str, complaint: str
):
    (folder / "empty.txt").write_text("\n")
    with pytest.raises(UsageError, match=complaint):
        command(f"run --agent mine --offline -n 3 -q --vary {vary}{more}")
    assert not (folder / "runs").exists()


@pytest.fixture
def varied(command: Command, folder: Path) -> Path:
    command("run --agent mine --offline -n 5 --vary instructions=variants.txt -q")
    return the_run(folder)


def test_show_json_and_the_page_name_each_sample_s_recipe(command: Command, varied: Path):
    shown = command("show last")
    assert shown.count("instructions=1") == shown.count("instructions=2") == 2
    (group,) = json.loads(command("show last --json"))["groups"]
    recipes = {each["index"]: each.get("recipe") for each in group["rollouts"]}
    assert recipes == {r.index: r.recipe and r.recipe.name for r in rollouts_of(varied)}
    assert group["anchor_is_greedy"] is None
    assert "rollout 0 (anchor, the agent as it stands)" in command("show last --rollout 0")
    page = (varied / "report.html").read_text()
    assert "<bdi>instructions=1</bdi>, temperature of its own" in page
    assert "temperature not known" not in page


@pytest.mark.usefixtures("varied")
def test_tables_name_each_sample_s_recipe(command: Command):
    command("export last --format csv -o table --allow-offline -q")
    head, *rows = (row.split(",") for row in Path("table/train.csv").read_text().splitlines())
    assert sorted(row[head.index("recipe")] for row in rows) == ["", *["instructions=1"] * 2, *["instructions=2"] * 2]


def test_a_comparison_names_the_recipe_of_each_sample(command: Command, varied: Path, tmp_path: Path):
    command("run --agent mine --offline -n 5 -q --seed 2")
    (plain,) = (path.parent for path in tmp_path.glob("runs/*/run.json") if path.parent.name != varied.name)
    command(f"compare {plain} {varied} --pairs 16 --csv pairs.csv --allow-offline -q")
    rows = list(csv.DictReader((tmp_path / "pairs.csv").read_text().splitlines()))
    assert {row["first_recipe"] for row in rows} == {""}
    assert {row["second_recipe"] for row in rows} == {"", "instructions=1", "instructions=2"}
    assert all((row["role"] == "anchor") == (row["second_recipe"] == "") for row in rows)
    (comparison,) = (path.parent for path in tmp_path.glob("runs/*/compare.json"))
    assert "<bdi>instructions=2</bdi>" in (comparison / "report.html").read_text()


@pytest.mark.usefixtures("folder")
def test_a_dry_run_names_the_recipes_and_shows_how_each_variant_begins(command: Command):
    plan = command("run --agent mine --offline -n 5 --vary instructions=variants.txt --dry-run -q")
    assert "samples vary by 2 recipes: instructions=1, instructions=2\n" in plan
    assert "instructions=1: Sources first.\ninstructions=2: replace: Be brief.\n" in plan


@pytest.mark.usefixtures("varied")
def test_stats_has_the_diversity_of_a_run_that_varies(command: Command):
    (ranking,) = json.loads(command("stats --json"))["rankings"]
    assert ranking["diversity"]["answers"]["value"] == 1, "the embedded model does not read instructions"
    assert ranking["diversity"]["distance"]["value"] == 0
    recipes = ranking["diversity"]["recipes"]
    assert [each["name"] for each in recipes] == ["instructions=1", "instructions=2"]
    assert not any(each["drop"] for each in recipes)
    assert "Gain of instructions=1" in command("stats")


def test_a_plan_by_a_pilot_run_drops_the_useless_recipe_and_says_how_many_rollouts_are_enough(
    command: Command, tmp_path: Path
):
    marks = {"low": "2", "high": "8"}

    def answering(seen: Seen) -> Say:
        return Say(marks.get(seen.body.get("reasoning_effort", ""), "5"))

    (tmp_path / "q.txt").write_text("\n".join(f"Why {n}?" for n in range(12)))
    with FakeEndpoint(answering, fair_judge(int)).serving() as endpoint:
        at = f"--agent mine --queries q.txt --base-url {endpoint.base_url} --model m --api chat --judge-model j"
        command(f"run {at} -n 5 --vary effort=low,high -q")
    told = json.loads(command("plan --json"))
    assert (told["n"], told["most"], told["vary"], told["drop"]) == (2, 3, "effort=high", ["effort=low"])
    assert told["gain"] == pytest.approx(told["gain_of_most"], rel=0.01)
    said = command("plan --vary auto")
    assert said.startswith("next run: -n 2 --vary effort=high\n")
    assert "drop it: score of its best sample" in said


@pytest.mark.usefixtures("varied")
def test_a_plan_by_a_single_query_says_that_it_tells_no_number(command: Command):
    told = json.loads(command("plan --json"))
    assert {name: told[name] for name in ("n", "drop")} == {"n": None, "drop": []}
    assert "not told, for fewer than 10 queries have a judged anchor" in command("plan")
