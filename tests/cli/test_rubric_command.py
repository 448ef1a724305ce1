"""`harness rubric`, as a user runs it, and a run by a rubric of the user's own."""

import json
from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, block

OWN = """\
---
name: own
version: 3
path_weight: 0
answer_weight: 1
max_words: 200
caps:
  leaked_reasoning: {solved: 2}
dimensions:
  - {key: tools, title: Tools, block: path, description: The right ones.}
  - {key: solved, title: Solved, block: answer, description: It is solved.}
---
Mark by {{ name }}.
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.md"
    path.write_text(OWN)
    return path


def test_the_packaged_rubrics_are_listed(harness: Harness):
    done = harness("rubric", "show")
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines() if "0." in line] == ["research", "task", "writing"]
    listed = harness("rubric", "show", "--json").json
    assert [r["name"] for r in listed] == ["research", "task", "writing"]
    assert [r["path_weight"] for r in listed] == [0.5, 0.3, 0.4]


def test_a_rubric_is_shown_with_what_the_judge_is_told_its_dimensions_and_the_schema(harness: Harness, own: Path):
    done = harness("rubric", "show", "own.md")
    assert done.code == 0, done.err
    for told in (
        "own@3",
        "Mark by own.",
        "It is solved.",
        "at most solved 2",
        "more than 200 words",
        "weight 0",
        '"answer_scores"',
    ):
        assert told in done.out
    whole = harness("rubric", "show", "own.md", "--json").json
    assert (whole["left_out"], [d["key"] for d in whole["dimensions"]]) == (["tools"], ["solved"])
    assert list(whole["schema"]["properties"]) == ["analysis", "answer_scores", "combined_scores", "winner"]
    assert whole["instructions"] == "Mark by own."
    assert whole["prompt"].startswith("Mark by own.\n")


def test_a_good_rubric_passes_its_check_which_says_what_is_not_asked_for(harness: Harness, own: Path):
    done = harness("rubric", "check", "own.md")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("own.md: ok: own@3 ")
    assert "not asked for: tools" in done.out


def test_every_fault_is_told_on_a_line_with_file_and_line_number(harness: Harness, own: Path):
    own.write_text(
        OWN.replace("version: 3", "version: x").replace("key: solved", "kye: solved").replace("{{ name", "{{ nmae")
    )
    done = harness("rubric", "check", "own.md")
    assert done.code == 2
    assert "Traceback" not in done.err
    assert [line.split(": ")[0] for line in done.out.splitlines()] == [
        "own.md:3",
        "own.md:11",
        "own.md:11",
        "own.md:13",
    ]


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize(
    ("name", "said"), [("writting", "did you mean 'writing'?"), ("gone.md", "cannot be read"), (".", "cannot be read")]
)
def test_what_is_no_rubric_is_refused(harness: Harness, command: str, name: str, said: str):
    done = harness("rubric", command, name)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_run_by_a_faulty_rubric_is_refused_with_file_and_line_before_anything_is_spent(harness: Harness, own: Path):
    own.write_text(OWN.replace("answer_weight: 1", "answer_weight: 0.9"))
    done = harness("run", "--offline", "-n", "2", "--rubric", "own.md")
    assert (done.code, done.out) == (2, "")
    assert "own.md:5: path_weight 0 + answer_weight 0.9 must be 1" in done.err
    assert not (own.parent / "runs").exists()


def test_by_a_rubric_without_path_the_judge_sees_answers_alone_and_its_marks_are_capped(
    harness: Harness, endpoint: FakeEndpoint, own: Path
):
    endpoint.agent = lambda seen: Say(
        "So it is. <think>Is it?</think>" if "temperature" not in seen.body or seen.body["temperature"] else "It is so."
    )
    endpoint.judge = lambda seen: Say(json.dumps({"answer_scores": {"LLM_A": {"solved": 9}, "LLM_B": {"solved": 9}}}))
    done = harness(
        *"run --agent search -n 2 --estimator tiers --rubric own.md --base-url".split(),
        endpoint.base_url,
        "--model",
        "m",
        "--json",
        "Why?",
    )
    assert done.code == 0, done.err
    assert {block(r.user, "ANSWER_A") for r in endpoint.of_judge} == {"It is so.", "So it is. <think>Is it?</think>"}
    assert not any(
        "PATH_" in r.user or "path" in json.dumps(r.body.get("response_format", "")) for r in endpoint.of_judge
    )
    anchor, sample = done.json["groups"][0]["rollouts"]
    assert (anchor["flags"], anchor["rank"], anchor["score"]) == ([], 0, 9)
    assert [(f["kind"], f["place"], f["caps"], f["judge_marks"]) for f in sample["flags"]] == [
        ("leaked_reasoning", "answer", {"solved": 2}, {"solved": [9, 9]})
    ]
    assert (sample["rank"], sample["score"]) == (1, 2)
    shown = harness("show")
    assert "rollout 1 flagged: leaked reasoning (“<think>”); counts as at most solved 2 (judge: 9)" in " ".join(
        shown.out.split()
    )
    page = Path(done.json["path"])
    assert "So the rubric caps it: solved 9 counts as 2" in (own.parent / page / "report.html").read_text()


def test_the_embedded_judge_gives_verdicts_by_every_packaged_rubric(harness: Harness):
    for name in ("research", "task"):
        done = harness("run", "--offline", "-n", "2", "--rubric", name, "--json")
        assert done.code == 0, done.err
        assert done.json["rubric"].startswith(f"{name}@1")
