"""Pairs whose defect only the whole record shows: agents find it, models do not, flags find what is made up."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from agents import Agent

import harness
from harness.core.errors import UsageError
from harness.core.settings import OFFLINE_JUDGE
from harness.doctor.calibration import agreement_lines, count_calibration_calls, figure_rows
from harness.doctor.recorded_pairs import RecordedPair, planted_pairs, read_any_pairs
from harness.evidence.check import check_trajectory
from harness.judging.transcript_form import TranscriptForm
from tests.doctor.test_calibration import a_trial, calibrated, scored
from tests.judging.replies import text_of
from tests.pipeline.judging_agents import Calls, ScriptedModel

pytestmark = pytest.mark.anyio
SIDES = "A", "B"
FACTS = {
    "bridge": r"closed to traffic in (\d+)",
    "Lisse": r"Lisse has (\d+)",
    "packit": r"packit: (\S+) adds --dry-run",
    "chaired": r"the last under (\w+ \w+)",
}


def sides_of(pair: RecordedPair) -> tuple[Any, Any]:
    """The better record, the worse one."""
    a, b = pair.records
    return (a, b) if pair.label == "a" else (b, a)


def test_no_transcript_shows_the_defect_and_either_side_is_the_better_one_as_often():
    pairs = planted_pairs()
    assert [pair.label for pair in pairs] == ["a", "b"] * 6
    for pair in pairs:
        better, worse = sides_of(pair)
        shown = "\n".join(f"{side.path}\n{side.answer}" for side in pair.shown(TranscriptForm()))
        middle = better.path[0].tool_output.splitlines()[300]
        assert not middle or middle not in shown, pair.query
        assert all(text not in shown for text in pair.files)
        assert better.answer != worse.answer
    assert count_calibration_calls(pairs) == 24


@pytest.mark.parametrize("pair", [pair for pair in planted_pairs() if pair.group == "broken_file"])
def test_one_of_two_files_cannot_be_read(pair: RecordedPair):
    parse = json.loads if "json" in pair.query else ast.parse
    whole, broken = pair.files
    parse(whole)
    with pytest.raises((SyntaxError, ValueError)):
        parse(broken)


def test_flags_find_the_sources_that_are_made_up_and_nothing_else():
    for pair in planted_pairs():
        better, worse = (check_trajectory(side) or () for side in sides_of(pair))
        unsupported = [[claim.state == "unsupported" for claim in claims] for claims in (better, worse)]
        assert [any(side) for side in unsupported] == [False, pair.group == "false_source"], pair.query


def looks_further(question: str, outputs: list[str]) -> Calls | str:
    """Look up what the answers claim, and read the files."""
    answers = [re.search(rf"ANSWER_{side}[^\n]*\n(.*?)\n", question, re.DOTALL) for side in SIDES]
    said = [found[1] if found else "" for found in answers]
    if file := re.search(r"Write (\S+\.\w+)\.", question):
        if not outputs:
            return [("read_file", {"side": side, "path": file[1], "start": 0}) for side in SIDES]
        return text_of(*(9 if can_be_read(file[1], output) else 3 for output in outputs))
    fact = next((pattern for word, pattern in FACTS.items() if word in question), None)
    if not outputs:
        sought = ["of packit" if "packit" in question else "traffic in", "Lisse has", "the last under"]
        words = [next(w for w in sought if fact and w.split()[-1] in fact) if fact else claim(text) for text in said]
        return [("search_path", {"side": side, "text": word}) for side, word in zip(SIDES, words, strict=True)]
    if fact is None:
        return text_of(*(9 if "step 1," in output else 3 for output in outputs))
    right = next(found[1] for output in outputs if (found := re.search(fact, output)))
    return text_of(*(9 if right in text else 3 for text in said))


def claim(answer: str) -> str:
    found = re.search(r'"(.+)"|(\S+(?:@|/|_)\S*[a-z])', answer)
    assert found, answer
    return found[1] or found[2]


def can_be_read(name: str, text: str) -> bool:
    try:
        (json.loads if name.endswith("json") else ast.parse)(text)
    except (SyntaxError, ValueError):
        return False
    return True


async def test_an_agent_and_a_model_are_measured_on_the_same_pairs():
    agent = Agent(name="checker", instructions="Check.", model=ScriptedModel(looks_further))
    both = await harness.check_judge(judge_agent=agent, judge_model=OFFLINE_JUDGE)
    by_model, by_agent = both["judges"]
    planted = {"cut_fact", "broken_file", "false_source"}
    assert by_agent["judge"].startswith("checker-")
    assert {name: by_agent["classes"][name]["right"] for name in planted} == dict.fromkeys(planted, 4)
    assert {name: by_model["classes"][name]["pairs"] for name in planted} == dict.fromkeys(planted, 4)
    assert by_model["usd"] == 0
    (agreed,) = both["agreements"]
    assert agreed["judges"] == [0, 1]


async def test_the_judges_of_a_run_are_asked_about_planted_pairs_after_their_cost_is_told(tmp_path: Path):
    run = await harness.run("search", ["Why is the sky blue?"], n=3, offline=True, runs_dir=tmp_path / "runs")
    told = await harness.check_planted(run, dry_run=True)
    assert told == {"judges_at": [OFFLINE_JUDGE], "judge_calls": 24, "cost_usd": [0, 0]}
    assert harness.open(run.path).judges()["rankings"][0]["planted"] is None
    (ranking,) = (await harness.check_planted(runs_dir=tmp_path / "runs"))["rankings"]
    assert set(ranking["planted"]["classes"]) == {"cut_fact", "broken_file", "false_source"}
    with pytest.raises(UsageError, match="judge_agent"):
        await harness.check_planted(run, judge_agent="triage")


async def test_two_rollouts_of_a_run_are_a_pair_with_their_whole_records(tmp_path: Path):
    run = await harness.run("search", ["Why is the sky blue?"], n=3, offline=True, runs_dir=tmp_path / "runs")
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps({"run": run.path.name, "rollouts": [1, 2], "label": "b"}))
    (pair,) = read_any_pairs(file, tmp_path / "runs")
    assert isinstance(pair, RecordedPair)
    assert [record.answer for record in pair.records] == [
        rollout.trajectory.answer for rollout in run.rollouts(run.queries[0]) if rollout.index in {1, 2}
    ]
    checked = await harness.check_judge(file, judge_model=OFFLINE_JUDGE, runs_dir=tmp_path / "runs")
    assert (checked["pairs"], checked["judged"]) == (1, 1)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"run": "nowhere", "rollouts": [1, 2], "label": "a"}, "nowhere"),
        ({"run": "nowhere", "label": "a"}, "line 1: expected run, rollouts"),
        ({"run": "nowhere", "rollouts": [1], "label": "a"}, "line 1: expected run, rollouts"),
        ({"run": "nowhere", "rollouts": [1, 1], "label": "a"}, "two different numbers"),
        ({"run": "nowhere", "rollouts": [1, 2]}, "line 1: label missing"),
    ],
)
def test_a_line_that_names_no_two_rollouts_is_one_error(tmp_path: Path, line: dict[str, Any], told: str):
    (tmp_path / "pairs.jsonl").write_text(json.dumps(line))
    with pytest.raises(UsageError, match=told):
        read_any_pairs(tmp_path / "pairs.jsonl", tmp_path)


def test_judges_stand_side_by_side_with_what_a_verdict_cost():
    one = a_trial("a", scored("k1", 8, 4), scored("k2", 4, 8))
    first, second = calibrated(one), calibrated(one)
    rows = {row[0]: row[1:] for row in figure_rows([first, second])}
    assert rows["all pairs right"] == ["1 of 1", "1 of 1"]
    assert {"c", "flips", "failed verdicts", "cost a verdict", "seconds a verdict"} <= rows.keys()
    (line,) = agreement_lines([first, second])
    assert line.startswith("1 and 2: 100 % of 1 pair")


def test_only_records_that_are_equal_are_equal_texts():
    (pair, *_) = planted_pairs()
    a, _ = pair.records
    files = RecordedPair("q", (a, a.model_copy(update={"files": planted_pairs()[4].records[0].files})), "a", "c")
    first, second = files.sides
    assert first.hash != second.hash
