"""`compare` and `gate` with people's labels: whose word counts, which labels fit, and which judge may not gate."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.run_info import append_label
from harness.comparison.outcomes import paired_rollouts
from harness.judging.rubric import rubric_source
from harness.pipeline.comparing.labels import drawn_pairs
from harness.pipeline.comparing.outcome import comparison_of
from tests.cli.desk import Desk
from tests.fake_endpoint import FakeEndpoint

Says = Callable[[int], str]
"""What people say of the pair of so many: a, b or tie; `a` is of the first side."""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, *tuple[str, ...]]]:
    """A comparison of 24 queries in which the judge prefers B in every pair."""
    with FakeEndpoint().serving() as endpoint:
        desk = Desk(tmp_path_factory.mktemp("labels") / "room", endpoint)
        (desk.work / "many.txt").write_text("\n".join(f"What is {number}?" for number in range(24)))
        runs = [desk.run(model, queries="many.txt") for model in ("weak", "strong")]
        assert desk("compare", *runs, "--judge-model", "judge").code == 0
        yield desk, *runs


def write_labels(desk: Desk, says: Says, *, every: int = 1, only: int = 1000, **more: object) -> Path:
    """Write labels of some of the pairs, in turn with either side as `a`."""
    lines: list[str] = []
    with ComparisonReader(desk.room.runs / desk.last_comparison()) as reader:
        of_queries = [(query, match) for query in reader.queries() for match in query.pairs((0, 1))]
        for at, (query, match) in enumerate(of_queries[::every][:only]):
            texts = [reader.blobs.get(r.answer_blob) for r in paired_rollouts(query, match) if r and r.answer_blob]
            said = says(at)
            if at % 2:
                texts, said = texts[::-1], {"a": "b", "b": "a"}.get(said, said)
            a, b = texts
            lines.append(json.dumps({"query": query.text, "a": a, "b": b, "label": said, **more}))
    file = desk.work / "labels.jsonl"
    file.write_text("\n".join(lines))
    return file


def test_what_people_would_say_stands_beside_the_judges_word_and_decides(compared: tuple[Desk, *tuple[str, ...]]):
    desk, *runs = compared
    before = json.loads(desk("compare", *runs, "--judge-model", "judge", "--json").out)
    assert "Clear winner: `strong`" in before["sentence"]
    file = write_labels(desk, lambda at: "a" if at % 4 < 2 else "b", every=2)
    said = json.loads(desk("compare", *runs, "--judge-model", "judge", "--labels", str(file), "--json").out)
    (result,) = said["results"]
    assert result["win_rate"] == before["results"][0]["win_rate"] == 1
    assert result["people"]["labels"] == 24
    assert result["people"]["rate"]["low"] < 0.5 < result["people"]["rate"]["high"]
    assert "; by people, with 24 labelled pairs, in 50 % [" in said["sentence"]
    assert "No clear winner" in said["sentence"]
    assert said["calibration"]["judge"].startswith("judge@")
    shown = desk("compare", *runs, "--judge-model", "judge", "--labels", str(file)).out_text
    assert "people " in shown
    assert "judge agrees" in shown
    assert "By people" in (desk.room.runs / desk.last_comparison() / "report.html").read_text()


def test_labels_hold_for_another_judge_whose_calibration_is_its_own(compared: tuple[Desk, *tuple[str, ...]]):
    desk, *runs = compared
    file = write_labels(desk, lambda at: "b" if at % 8 else "a", every=2)
    labelled = ("compare", *runs, "--judge-model", "judge", "--labels", str(file), "--json")
    ours, other = json.loads(desk(*labelled).out), desk(*labelled, "--judge-label", "other")
    theirs = json.loads(other.out)
    assert theirs["calibration"]["judge"] == "other"
    assert ours["calibration"]["labels"] == theirs["calibration"]["labels"] == 24
    assert ours["comparison"] != theirs["comparison"]


def test_labels_that_are_too_few_or_about_other_answers_leave_the_judges_word(compared: tuple[Desk, *tuple[str, ...]]):
    desk, *runs = compared
    few = write_labels(desk, lambda _: "a", every=2, only=5)
    with few.open("a") as file:
        file.write('\n{"query": "What is 1?", "a": "one", "b": "two", "label": "a"}\n')
    said = json.loads(desk("compare", *runs, "--judge-model", "judge", "--labels", str(few), "--json").out)
    assert "Clear winner: `strong`" in said["sentence"]
    assert any("5 of 6 labels are about two answers that are compared" in note for note in said["notes"])
    assert any("5 clusters with a label" in note for note in said["notes"])
    assert said["results"][0]["people"]["rate"] is None


def test_a_gate_goes_by_people_where_they_labelled_enough(compared: tuple[Desk, *tuple[str, ...]]):
    desk, *runs = compared
    gate = ("gate", *runs, "--judge-model", "judge", "--json")
    assert json.loads(desk(*gate).out)["finding"] == "not worse"
    file = write_labels(desk, lambda at: "a" if at % 3 else "b", every=2)
    judged = desk(*gate, "--labels", str(file), "--min-agreement", "0")
    gated = json.loads(judged.out)
    assert (judged.code, gated["finding"]) == (1, "cannot tell")
    assert gated["looks"][-1]["labels"] == 24
    assert "preferred by people, with 24 labelled pairs, in 33 %" in gated["sentence"]


def test_a_judge_that_surely_contradicts_people_informs_and_does_not_gate(compared: tuple[Desk, *tuple[str, ...]]):
    desk, *runs = compared
    file = write_labels(desk, lambda _: "a")
    refused = desk("gate", *runs, "--judge-model", "judge", "--labels", str(file), "--json")
    assert refused.code == 2
    assert "informs and does not gate" in refused.err_text
    informed = json.loads(desk("compare", *runs, "--judge-model", "judge", "--labels", str(file), "--json").out)
    assert any("informs and does not gate" in note for note in informed["notes"])
    assert "Clear winner: `weak`" in informed["sentence"]


def test_the_labels_kept_with_a_comparison_count_without_an_option(compared: tuple[Desk, *tuple[str, ...]]):
    desk = compared[0]
    kept = desk.room.runs / desk.last_comparison() / "labels.jsonl"
    kept.write_text(write_labels(desk, lambda _: "a").read_text())
    try:
        assert json.loads(desk("show", kept.parent.name, "--json").out)["results"][0]["people"]["labels"] == 48
        assert desk("validate", kept.parent.name).code == 0
    finally:
        kept.unlink()


def test_two_people_who_differ_count_as_one_half_and_of_one_the_last_word_counts(
    compared: tuple[Desk, *tuple[str, ...]],
):
    desk, *runs = compared
    lines = [
        write_labels(desk, says, by=name).read_text() for says, name in ((lambda _: "b", "ann"), (lambda _: "a", "bo"))
    ]
    file = desk.work / "both.jsonl"
    compare = ("compare", *runs, "--judge-model", "judge", "--json", "--labels", str(file))
    file.write_text("\n".join(lines))
    assert json.loads(desk(*compare).out)["results"][0]["people"]["rate"]["value"] == pytest.approx(0.5)
    file.write_text("\n".join(line.replace('"ann"', '"bo"') for line in lines))
    assert json.loads(desk(*compare).out)["results"][0]["people"]["rate"]["value"] == 0


def test_the_pairs_to_label_next_are_drawn_for_everyone_alike_and_their_weights_are_kept(
    compared: tuple[Desk, *tuple[str, ...]],
):
    folder = compared[0].room.runs / compared[0].last_comparison()
    with ComparisonReader(folder) as reader:

        def asked(by: str) -> list[tuple[str, frozenset[int]]]:
            return [(pair.query_id, frozenset(pair.rollouts)) for pair in drawn_pairs(reader, random.Random(1), by)]

        everything, kept = asked("ann"), folder / "labels.jsonl"
        try:
            for pair in islice(drawn_pairs(reader, random.Random(0), "ann"), 8):
                append_label(folder, pair.line("tie", "answers", "ann"))
            assert asked("ann") == everything[8:]
            assert asked("bo") == everything
            lines = [json.loads(line) for line in kept.read_text().splitlines()]
            assert {line["by"] for line in lines} == {"ann"}
            assert all(0.5 < line["drawing_weight"] < 2.2 for line in lines)
            people = comparison_of(reader).results[0].people
            assert people
            assert (people.labels, people.clusters) == (8, 8)
        finally:
            kept.unlink()


def test_labels_that_cannot_be_read_are_named_before_anything_is_spent(compared: tuple[Desk, *tuple[str, ...]]):
    desk, *runs = compared
    (desk.work / "bad.jsonl").write_text('{"query": "q"}')
    refused = desk("compare", *runs, "--judge-model", "judge", "--labels", "bad.jsonl")
    assert refused.code == 2
    assert "--labels bad.jsonl, line 1: a and b and label missing" in refused.err_text


@pytest.mark.process
def test_labels_of_plain_answers_fit_where_the_judge_also_reads_what_became_of_their_claims(
    compared: tuple[Desk, *tuple[str, ...]],
):
    desk, *runs = compared
    file, rubric = write_labels(desk, lambda _: "b", every=2), desk.work / "evidence.md"
    rubric.write_text(rubric_source("writing").replace("\n---\n", "\nevidence: yes\n---\n", 1))
    by_evidence = ("compare", *runs, "--judge-model", "judge", "--rubric", str(rubric), "--json")
    said = json.loads(desk(*by_evidence, "--labels", str(file)).out)
    try:
        assert said["results"][0]["people"]["labels"] == 24
        with ComparisonReader(desk.room.runs / desk.last_comparison()) as reader:
            read = reader.blobs.get(next(iter(reader.queries())).rollouts[0][1].answer_blob or "")
            blind = next(drawn_pairs(reader, random.Random(0)))
        assert "Checked by machine: " in read
        assert not any("Checked by machine" in text.answer for text in blind.texts)
        append_label(reader.folder, blind.line("a", "answers"))
        assert json.loads(desk(*by_evidence).out)["results"][0]["people"]["labels"] == 1
    finally:  # the others' last comparison is the plain one
        shutil.rmtree(desk.room.runs / desk.last_comparison())
