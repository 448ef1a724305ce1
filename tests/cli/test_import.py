"""`harness import`: what was made elsewhere is ranked, rescored and shown like any run."""

import json
from pathlib import Path

import pytest

from harness.archive.reader import RunReader
from tests.conftest import Harness


def line(answer: str, query: str = "Why is the sky blue?", **more: object) -> str:
    messages = [{"role": "user", "content": query}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages} | more)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made.jsonl"
    answers = ["Because.", "Rayleigh scattering makes the sky blue.", "The sky is blue as short waves scatter more."]
    path.write_text("\n".join(line(a, reward=i / 2) for i, a in enumerate(answers)))
    return path


def test_it_is_ranked_without_an_anchor_rescored_for_nothing_and_shown(file: Path, harness: Harness, tmp_path: Path):
    made = harness("import", str(file), "--json")
    assert made.code == 0, made.err
    assert [g["rollouts"] for g in made.json["groups"]] == [3]
    first = harness("rescore", "--judge-model", "offline-features", "--json")
    assert first.code == 0, first.err
    (group,) = first.json["groups"]
    assert [r["role"] for r in group["rollouts"]] == ["sample"] * 3
    assert sorted(r["rank"] for r in group["rollouts"]) == [0.0, 1.0, 2.0]
    assert group["judged"] > 0
    again = harness("rescore", "--judge-model", "offline-features")
    assert "bought 0" in again.out
    assert "there is no anchor" in again.out
    assert "Rayleigh scattering makes the sky blue." in harness("show", "--rollout", "1").out
    assert "imported" in harness("ls").out
    with RunReader(tmp_path / made.json["path"]) as reader:
        rollouts = reader.group(next(reader.queries()))
    assert [r.given_reward for r in rollouts.rollouts] == [0.0, 0.5, 1.0]
    assert {r.requested.temperature for r in rollouts.rollouts} == {None}


def test_what_all_rollouts_of_a_query_share_becomes_its_metadata(tmp_path: Path, harness: Harness):
    path = tmp_path / "made.jsonl"
    kinds = [{"kind": "sky", "by": name, "tags": ["a"]} for name in "xy"] + [{"kind": "sky", "tags": ["a"], "n": 1}]
    alone = line("Salt.", "Why is the sea salty?", metadata={"kind": "sea"})
    path.write_text("\n".join([*(line(f"A{i}", metadata=kind) for i, kind in enumerate(kinds)), alone]))
    made = harness("import", str(path), "--json")
    assert made.code == 0, made.err
    with RunReader(tmp_path / made.json["path"]) as reader:
        queries = [*reader.queries()]
        rollouts = reader.group(queries[0]).rollouts
    assert [query.metadata for query in queries] == [{"kind": "sky"}, {"kind": "sea"}]
    assert [rollout.metadata for rollout in rollouts] == kinds


def test_with_first_is_anchor_each_group_is_played_against_its_first(file: Path, harness: Harness):
    assert harness("import", str(file), "--first-is-anchor").code == 0
    ranked = harness("rescore", "--judge-model", "offline-features", "--json")
    assert [r["role"] for r in ranked.json["groups"][0]["rollouts"]] == ["anchor", "sample", "sample"]


def test_without_a_judge_a_rescoring_says_how_to_name_one(file: Path, harness: Harness):
    assert harness("import", str(file)).code == 0
    for env in ({}, {"OPENAI_API_KEY": "sk-x"}):
        done = harness("rescore", env=env)
        assert done.code == 2
        assert "--judge-model" in done.err


def test_an_imported_run_cannot_be_replayed_and_says_why(file: Path, harness: Harness):
    assert harness("import", str(file)).code == 0
    done = harness("replay")
    assert done.code == 2
    assert "was imported" in done.err


def test_a_bad_line_leaves_no_run_behind(file: Path, harness: Harness, tmp_path: Path):
    file.write_text(file.read_text() + "\n{}")
    done = harness("import", str(file))
    assert done.code == 2
    assert "made.jsonl:4" in done.err
    assert not (tmp_path / "runs").exists()
    assert "did you mean 'atif'" in harness("import", str(file), "--format", "atfi").err


def test_what_fits_a_pattern_is_not_kept(harness: Harness, tmp_path: Path):
    (tmp_path / "made.jsonl").write_text(line("Call 555-0199.", "Who is at 555-0100?"))
    done = harness("import", "made.jsonl", "--redact", r"555-\d+")
    assert done.code == 0, done.err
    kept = "".join(p.read_text() for p in (tmp_path / "runs").rglob("*/*.jsonl"))
    assert "Call [redacted]." in kept
    assert "555-0" not in kept
