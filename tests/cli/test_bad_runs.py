"""One bad run breaks neither `ls` nor `resume` without RUN, and what is wrong with it is said."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt
from tests.fuzz.kinds.records import sealed

LATER = "29990101T000000-later-000000"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    room = Room.make(tmp_path / "room")
    room.add_run()
    return room


def harness(room: Room, *argv: str) -> Outcome:
    outcome = attempt(argv, room.work, room.environ())
    assert outcome.faults() == []
    return outcome


def with_info(run: Path, **changes: object) -> None:
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


def with_rollout(run: Path, **changes: object) -> Path:
    """Change the first rollout of a run, its checksum included; return the file."""
    return with_first(run, "rollouts", changes)


def with_first(run: Path, segment: str, changes: Mapping[str, object]) -> Path:
    (path,) = (run / segment).glob("*.jsonl")
    head, first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + sealed(json.dumps(json.loads(first) | changes).encode()) + b"".join(others))
    return path


DAMAGED: list[dict[str, object]] = [
    {"schema_version": None},
    {"schema_version": "1"},
    {"schema_version": True},
    {"schema_version": -1},
    {"schema_version": 10**30},
    {"id": "../../outside"},
    {"id": 7},
    {"created_at": "2026-07-21T14:03:20"},
    {"settings": {"n": [[[]]]}},
    {"settings": {"n": 10**9}},
    {"settings": [1]},
    {"judge": None},
]


@pytest.mark.parametrize("changes", DAMAGED, ids=str)
def test_a_damaged_run_is_listed_with_its_reason_beside_the_others(room: Room, changes: dict[str, object]):
    with_info(room.add_run(name=LATER), **changes)
    entries = json.loads(harness(room, "ls", "--json").out_text)
    assert [list(entry) for entry in entries[1:]] == [["id", "damaged"]]
    assert (entries[1]["id"], "run.json" in entries[1]["damaged"]) == (LATER, True)
    assert "agent" in entries[0]
    listed = harness(room, "ls")
    assert (listed.code, LATER in listed.out_text, "damaged: run.json: " in listed.out_text) == (0, True, True)


def test_a_run_of_an_older_harness_is_refused_with_one_line_and_listed_with_its_version(room: Room):
    run = room.add_run(name=LATER)
    with_info(run, versions={"arena-harness": "0.0.9"}, settings=None)  # whatever else is in it
    for argv in (("show", LATER), ("rescore", LATER, "--free"), ("validate", LATER), ("resume", LATER)):
        refused = harness(room, *argv)
        said = refused.err.decode()
        assert refused.code == 2, argv
        assert "run.json was written by version 0.0.9" in said, said
        assert said.count("error: ") == said.partition("error: ")[2].count("\n") == 1, said
    entries = json.loads(harness(room, "ls", "--json").out_text)
    assert entries[1] == {"id": LATER, "too_old": "0.0.9"}
    assert "written by version 0.0.9" in " ".join(harness(room, "ls").out_text.split())
    assert harness(room, "show").code == 2, "the newest run"


def test_a_run_of_a_later_harness_is_listed_with_the_version_that_it_needs(room: Room):
    with_info(room.add_run(name=LATER), schema_version=7)
    entries = json.loads(harness(room, "ls", "--json").out_text)
    assert entries[1] == {"id": LATER, "needs": 7}
    assert "needs schema version 7" in " ".join(harness(room, "ls").out_text.split())
    assert harness(room, "show", LATER).code == 2


@pytest.mark.parametrize(
    "changes", [{"schema_version": None}, {"schema_version": 7}, {"settings": {"n": "x"}}], ids=str
)
def test_resume_passes_over_a_bad_run_and_says_so(room: Room, changes: dict[str, object]):
    with_info(room.add_run(name=LATER), **changes)
    resumed = harness(room, "resume")
    assert resumed.code == 0
    assert "every run is finished" in resumed.out_text
    assert [line.split(":")[0] for line in resumed.err_text.splitlines() if LATER in line] == ["passed over"]


@pytest.mark.parametrize(
    "changes",
    [{"index": -1}, {"index": "first"}, {"started_at": None}, {"status": "fine"}, {"query": ["q"]}, {"failure": "no"}],
    ids=str,
)
def test_a_record_that_does_not_fit_is_damage_with_file_and_line(room: Room, changes: dict[str, object]):
    path = with_rollout(room.add_run(name=LATER), **changes)
    shown = harness(room, "show", LATER)
    assert (shown.code, f"{path.name}:2: no valid record: " in shown.err_text) == (5, True)
    found = harness(room, "validate", LATER, "--json")
    first = next(finding for finding in json.loads(found.out_text) if finding["kind"] == "damage")
    assert (found.code, Path(first["file"]).name, first["line"]) == (5, path.name, 2)


def test_a_kept_verdict_on_other_transcripts_than_its_key_stands_for_is_damage(room: Room):
    run = room.add_run("offline-ruler", LATER)
    (path,) = (run / "verdicts").glob("*.jsonl")
    hashes = json.loads(path.read_bytes().splitlines()[1])["transcripts"]
    with_first(run, "verdicts", {"transcripts": ["0" * 64, *hashes[1:]]})
    rescored = harness(room, "rescore", LATER, "--free")
    assert (rescored.code, "other transcripts" in rescored.err_text) == (5, True)


def test_marks_of_one_side_alone_are_shown_without_a_comparison(room: Room):
    run = room.add_run(name=LATER)
    (path,) = (run / "verdicts").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines[1:], 1):
        verdict = json.loads(line)
        verdict["b"]["dimensions"] = {}
        lines[number] = sealed(json.dumps(verdict).encode())
    path.write_bytes(b"".join(lines))
    assert harness(room, "show", LATER).code == 0


def without_query(run: Path, *, whole: bool) -> None:
    """Take the query `a` out of a run's file, or all of them."""
    (file,) = (run / "queries").iterdir()
    header, *queries = file.read_text("utf-8").splitlines(keepends=True)
    left = [] if whole else [line for line in queries if json.loads(line)["id"] != "a"]
    file.write_text("".join([header, *left]), "utf-8")


@pytest.mark.few(2)
@pytest.mark.parametrize("whole", [False, True], ids=["one", "all"])
@pytest.mark.parametrize("command", ["show", "stats", "export --format csv --allow-offline -o x", "report"])
def test_a_ranked_query_that_is_lost_is_named_and_nothing_is_told_of_the_rest_alone(
    command: str, whole: bool, harness: Harness, tmp_path: Path
):
    (tmp_path / "q.jsonl").write_text('{"id": "a", "query": "Why Lisp?"}\n{"id": "b", "query": "Why Scheme?"}\n')
    assert harness(*"run --offline --queries q.jsonl -n 2 -q".split()).code == 0
    (run,) = (tmp_path / "runs").iterdir()
    without_query(run, whole=whole)
    done = harness(*command.split())
    assert done.code == 5, done.out
    first = ("a", "b") if whole else ("a",)  # whichever group ended first
    assert any(f"run {run.name}: query '{name}', which is ranked, is no longer there; " in done.err for name in first)
    resumed = harness("resume", run.name)
    if whole:
        assert resumed.code == 5
        assert f"run {run.name} holds rollouts, and no query of them" in resumed.err
    else:
        assert harness("rescore", "--free", "-q").code == 0
        assert harness("show").code == 0
