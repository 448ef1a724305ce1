"""Damage in a comparison is named with file, line and reason, and a repair moves it aside."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.lines import encode
from harness.archive.store import ComparisonStore
from harness.archive.validation import Finding
from harness.core.progress import now
from harness.pipeline.validation import validate_folder
from tests.archive.comparing import a_filled_comparison
from tests.archive.making import lines_of, segment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_filled_comparison(tmp_path, queries=3)


def damage(folder: Path) -> list[tuple[str, int | None, str]]:
    return [
        told(finding) for finding in validate_folder(folder, now, ComparisonStore).findings if finding.kind == "damage"
    ]


def told(finding: Finding) -> tuple[str, int | None, str]:
    return finding.path.name, finding.line, finding.reason


def with_line(path: Path, number: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a line of a file, counted from 1, its checksum included."""
    lines = lines_of(path)
    members = json.loads(lines[number - 1])
    change(members)
    kind = members.pop("kind")
    del members["crc"], members["schema_version"]
    path.write_bytes(b"".join([*lines[: number - 1], encode(kind, json.dumps(members)), *lines[number:]]))


def in_match(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda query: query["matches"][0].update(changes)


def test_a_comparison_is_whole_without_its_runs(folder: Path) -> None:
    assert validate_folder(folder, now, ComparisonStore).findings == ()


def test_one_that_was_cut_short_has_a_notice_and_no_damage(tmp_path: Path) -> None:
    cut = a_filled_comparison(tmp_path, "cut", finish=False)
    (finding,) = validate_folder(cut, now, ComparisonStore).findings
    assert str(finding).startswith("notice: ")
    assert finding.reason == "this comparison was cut short; `harness resume` makes a new one"


@pytest.mark.parametrize(
    "change",
    [
        in_match(winner="first"),
        in_match(winner="tie"),
        in_match(score_first=7.0),
        in_match(scores=[[6.0, 8.0], [5.0, 8.0]]),
        in_match(shown_first=["second", "first"]),
        in_match(flipped=True),
        in_match(inconsistent=True),
        in_match(verdicts=["q2-ab", "q2-ba"]),
        in_match(verdicts=[], shown_first=[], scores=[], forfeit="first"),
    ],
)
def test_a_match_that_says_something_else_than_its_verdicts_is_damage(
    folder: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    path = segment(folder, "comparisons")
    with_line(path, 2, change)
    reason = "query 'q0': the match of rollout 1 of A and rollout 1 of B does not follow from its verdicts"
    assert damage(folder) == [(path.name, 2, reason)]


def test_a_changed_transcript_is_damage_also_where_its_blob_is_whole(folder: Path) -> None:
    path = segment(folder, "comparisons")
    with ComparisonReader(folder) as reader:
        other = next(iter(reader.queries())).rollouts[1][0].answer_blob
    with_line(path, 2, lambda query: query["rollouts"][0][0].update(answer_blob=other))
    (text, match) = damage(folder)
    assert text == (path.name, 2, "query 'q0': the transcript of rollout 1 of A does not match its hash")
    assert match[2].endswith("does not follow from its verdicts")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (in_match(verdicts=["gone", "q0-ba"]), "it refers to verdict gone, which is not there"),
        (
            lambda query: query["rollouts"][0][0].update(path_blob="0" * 64),
            f"it refers to blob {'0' * 64}, which is not there",
        ),
        (
            lambda query: query["rollouts"][0][0].update(path_blob=None),
            "query 'q0': rollout 1 of A was judged, and has no transcript",
        ),
    ],
)
def test_what_a_line_refers_to_and_is_missing_is_damage(
    folder: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    path = segment(folder, "comparisons")
    with_line(path, 2, change)
    assert damage(folder) == [(path.name, 2, reason)]


def test_a_verdict_with_other_scores_is_damage_in_the_match_that_rests_on_it(folder: Path) -> None:
    with_line(segment(folder, "verdicts"), 2, lambda verdict: verdict["a"].update(combined=9.0))
    ((name, line, reason),) = damage(folder)
    assert (name, line) == (segment(folder, "comparisons").name, 2)
    assert reason.endswith("does not follow from its verdicts")


def test_a_head_with_other_sides_and_a_footer_that_miscounts_are_damage(folder: Path) -> None:
    path = segment(folder, "comparisons")
    with_line(path, 1, lambda head: head["sides"][0].update(sha256="c" * 64))
    with_line(path, 5, lambda footer: footer.update(queries=7))
    assert damage(folder) == [
        (path.name, 1, "its sides are not those of compare.json"),
        (path.name, 5, "it counts 7 queries, and there are 3"),
    ]


@pytest.mark.parametrize("name", ["blobs", "verdicts", "comparisons"])
def test_a_repair_moves_damaged_lines_aside_and_what_refers_to_them_and_loses_nothing(folder: Path, name: str) -> None:
    path = segment(folder, name)
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"', b"'", 1), *lines[3:]]))
    validation = validate_folder(folder, now, ComparisonStore, repair=True)
    assert (validation.damaged, bool(validation.findings)) == (0, True)
    moved = [line for aside in (folder / "damaged").iterdir() for line in lines_of(aside)]
    assert lines[2].replace(b'"', b"'", 1) in moved
    assert damage(folder) == []


def test_a_changed_compare_json_is_damage_that_a_person_must_mend(folder: Path) -> None:
    (folder / "compare.json").write_text("{")
    validation = validate_folder(folder, now, ComparisonStore, repair=True)
    assert [(f.path.name, f.by_hand) for f in validation.remaining] == [("compare.json", True)]
