"""`harness merge`: one run out of several, as one run would have been; what does not fit is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.archive.attestations import read_attestation
from harness.archive.folder_store import lock_folder
from harness.archive.lines import encode
from harness.archive.reader import RunReader
from harness.archive.run_info import list_runs
from harness.archive.store import RunStore
from harness.cli.app import app
from harness.core.errors import ArchiveDamaged, ArchiveLocked, UsageError
from harness.core.progress import Silent, now
from harness.pipeline.validation import validate_folder
from tests.api.test_runs import contents, settled

QUERIES = [{"id": f"q{number}", "query": f"What is number {number} of {number * 7}?"} for number in range(6)]
POOLED: dict[str, Any] = {"topology": "cyclic", "estimator": "pooled", "order": "both"}


def made(where: Path, **settings: Any) -> Path:
    return harness.run_sync("search", QUERIES, n=3, offline=True, runs_dir=where, **settings).path


def shards(where: Path, count: int, **settings: Any) -> list[Path]:
    return [made(where, shard=f"{number}/{count}", **settings) for number in range(1, count + 1)]


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory, user_folder: Path) -> list[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(user_folder / "state"))
        patch.setenv("XDG_CACHE_HOME", str(user_folder / "cache"))
        return shards(tmp_path_factory.mktemp("halves") / "runs", 2)


@pytest.fixture
def runs(halves: list[Path], tmp_path: Path) -> list[Path]:
    """Copies of two runs of different queries, for a test to change."""
    return [Path(shutil.copytree(run, tmp_path / "runs" / run.name)) for run in halves]


def records(run: Path) -> dict[str, list[str]]:
    """Return what a run holds, less ids, times and headers; of its ranking, the groups that count."""
    held = {
        name: lines for name, lines in contents(run).items() if name in {"queries", "rollouts", "verdicts", "blobs"}
    }
    kept = {name: sorted({line for line in lines if '"header"' not in line}) for name, lines in held.items()}
    groups = (group.model_dump(mode="json") for group in harness.open(run).ranking().groups)
    return kept | {"groups": sorted(json.dumps(settled(group)) for group in groups)}


def findings(run: Path) -> list[str]:
    return [finding.reason for finding in validate_folder(run, now).findings]


@pytest.mark.few(1)
@pytest.mark.parametrize(("count", "how"), [(3, {}), (2, {}), (3, POOLED)], ids=["3", "2", "pooled"])
def test_shards_merged_are_what_one_run_is_but_for_times(count: int, how: dict[str, Any], tmp_path: Path):
    whole = made(tmp_path / "one", **how)
    parts = shards(tmp_path / "runs", count, **how)
    merged = harness.merge(parts, output="all", runs_dir=tmp_path / "runs")
    assert (merged.id, merged.path) == ("all", tmp_path / "runs" / "all")
    ours, theirs = map(records, (merged.path, whole))
    assert ours == theirs
    info, one = (settled(json.loads((run / "run.json").read_text())) for run in (merged.path, whole))
    assert info == one
    assert findings(merged.path) == []
    assert harness.resume_sync(merged).ranking_id is None
    assert (merged.path / "report.html").is_file()
    assert list_runs(tmp_path / "runs")[-1] == merged.path


def test_what_is_torn_is_left_out_and_a_ranking_that_one_run_lacks_is_made_by_resume_for_nothing(runs: list[Path]):
    for path in (runs[1] / "rankings").iterdir():
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (last,) = (runs[0] / "verdicts").iterdir()
    last.write_bytes(last.read_bytes() + b'{"crc":"0000')
    notes: list[str] = []
    merged = harness.merge(runs, progress=Notes(notes))
    assert ["left out" in note for note in notes] == [True, False]
    assert notes[0].startswith("2 rankings were left out, as some run has no such ranking or did not finish its own: ")
    assert f"harness.resume('{merged.path}')" in notes[1]
    assert merged.rankings == ()
    before = verdicts(merged.path)
    assert len(list(harness.resume_sync(merged).ranking().groups)) == len(QUERIES)
    assert verdicts(merged.path) == before
    assert validate_folder(merged.path, now).damaged == 0


class Notes(Silent):
    """Hears notes, and nothing else."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def note(self, text: str) -> None:
        self._notes.append(text)


def verdicts(run: Path) -> list[str]:
    return sorted(line for path in (run / "verdicts").iterdir() for line in path.read_text().splitlines()[1:])


def changed_info(run: Path, **changes: Any) -> None:
    info = json.loads((run / "run.json").read_text())
    settings = info["settings"] | changes.pop("settings", {})
    (run / "run.json").write_text(json.dumps(info | changes | {"settings": settings}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"offline": False, "agent_offline": False}, "what they ran on: 'embedded models' and 'endpoints'"),
        ({"agent": "other"}, "their agent: 'search' and 'other'"),
        ({"settings": {"temperature": 0.5}}, "temperature: 0.8 and 0.5"),
        ({"settings": {"judge_model": ["a", "b"], "seed": 3}}, "judge_model: none and ('a', 'b')"),
        ({"judge": {"model": "other"}}, "`judge.model` of run.json: 'offline-features' and 'other'"),
        ({"rubric": "own@1 3c31abe7514e", "rubric_text": None}, "`rubric` of run.json"),
        ({"instructions": "Be short."}, "the text of their instructions: none and 'Be short.'"),
    ],
)
def test_runs_that_differ_are_refused_with_the_first_difference(changes: dict[str, Any], says: str, runs: list[Path]):
    changed_info(runs[1], **changes)
    there = sorted(runs[0].parent.iterdir())
    with pytest.raises(UsageError) as refused:
        harness.merge(runs, runs_dir=runs[0].parent)
    assert f"runs {runs[0].name} and {runs[1].name} differ in {says}" in str(refused.value)
    assert sorted(runs[0].parent.iterdir()) == there


def test_settings_that_decide_no_record_may_differ(runs: list[Path], tmp_path: Path):
    changed_info(runs[0], settings={"concurrency": 3, "runs_dir": "/elsewhere", "max_cost": 4.0})
    merged = harness.merge(runs, output=tmp_path / "out" / "all")
    assert len(merged.queries) == len(QUERIES)
    with RunReader(merged.path) as reader:
        places = [settings["runs_dir"] for settings in (reader.info.settings, reader.ranking().head.settings)]
    assert places == [str(tmp_path / "out")] * 2, "a run's settings say where the run is"


def test_runs_with_a_query_in_common_are_refused(runs: list[Path], tmp_path: Path):
    again = shutil.copytree(runs[1], tmp_path / "runs" / "again")
    changed_info(again, id="again")
    with pytest.raises(UsageError, match=rf"runs {runs[1].name} and again both hold the query 'q\d+'"):
        harness.merge([*runs, again])
    opened = harness.open(runs[0])
    for twice in ([*runs, runs[0].parent / "." / runs[0].name], [opened, opened], [runs[0], opened]):
        with pytest.raises(UsageError, match=f"run {runs[0].name} is named twice"):
            harness.merge(twice)
    assert not [path for path in runs[0].parent.iterdir() if path.name.startswith(".")]


def test_a_run_that_is_being_written_to_is_not_merged(runs: list[Path]):
    with RunStore(runs[1], now()), pytest.raises(ArchiveLocked):
        harness.merge(runs, runs_dir=runs[0].parent)
    assert len(list(runs[0].parent.iterdir())) == 2


@pytest.mark.parametrize("name", ["last", ".hidden", "a b", "", "-x", "x\n"])
def test_a_name_that_is_none_or_taken_is_refused(name: str, runs: list[Path]):
    with pytest.raises(UsageError, match="output="):
        harness.merge(runs, output=name, runs_dir=runs[0].parent)
    with pytest.raises(UsageError, match="is there already"):
        harness.merge(runs, output=runs[1].name, runs_dir=runs[0].parent)


def only_file(run: Path, segment: str) -> Path:
    (path,) = (run / segment).iterdir()
    return path


def damaged_line(run: Path) -> str:
    path = only_file(run, "rollouts")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"ok"', b'"OK"'), *lines[3:]]))
    return f"{path}:3: "


def with_record(run: Path, segment: str, number: int, **changes: Any) -> str:
    """Change a record, with a checksum that fits, and return its place."""
    path = only_file(run, segment)
    lines = path.read_bytes().splitlines(keepends=True)
    members = json.loads(lines[number - 1])
    kind = members.pop("kind")
    body = {name: value for name, value in members.items() if name not in {"crc", "schema_version"}} | changes
    lines[number - 1] = encode(kind, json.dumps(body))
    path.write_bytes(b"".join(lines))
    return f"{path}:{number}: "


def linked(run: Path) -> str:
    path = only_file(run, "verdicts")
    target = path.rename(run.parent.parent / "elsewhere.jsonl")
    path.symlink_to(target)
    return f"{path}: a link stands where"


def linked_beside(run: Path, segment: str) -> str:
    path = run / segment / "zz"
    path.symlink_to("/etc/passwd")
    return f"{path}: a link stands where"


ATTACKS: dict[str, Callable[[Path], str]] = {
    "a damaged line": damaged_line,
    "a link": linked,
    "a link that is no file of records": lambda run: linked_beside(run, "blobs"),
    "a link in a folder of records that nothing is copied from": lambda run: linked_beside(run, "rankings"),
    "a fifo": lambda run: (os.mkfifo(run / "blobs" / "x.jsonl"), f"{run / 'blobs' / 'x.jsonl'}: a FIFO")[1],
    "a rollout of another run's query": lambda run: with_record(run, "rollouts", 2, query=strange_query(run)),
    "a rollout that is none": lambda run: with_record(run, "rollouts", 2, trajectory={"path": 3}),
    "raw calls that are not there": lambda run: with_record(run, "rollouts", 2, raw_calls="0" * 64),
    "a ranking of a verdict that is not there": lambda run: with_record(
        run, "rankings", line_that_counts(run), matches=strange_match(run)
    ),
    "a time far off": lambda run: with_record(run, "verdicts", 2, started_at="9999-01-01T00:00:00Z"),
}


def strange_query(run: Path) -> str:
    return next(str(query["id"]) for query in QUERIES if str(query["id"]) not in RunReader(run).index.queries)


def line_that_counts(run: Path) -> int:
    """Return the number of the last line before the footer; earlier lines of its query are provisional."""
    return len(only_file(run, "rankings").read_bytes().splitlines()) - 1


def strange_match(run: Path) -> list[Any]:
    ranked = json.loads(only_file(run, "rankings").read_bytes().splitlines()[1])
    return [ranked["matches"][0] | {"verdicts": ["0" * 64, "1" * 64]}]


@pytest.mark.few(4)
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_strangers_run_is_refused_by_file_line_and_reason_and_nothing_is_left(attack: str, runs: list[Path]):
    place = ATTACKS[attack](runs[1])
    with pytest.raises(ArchiveDamaged) as refused:
        harness.merge(runs, output="all", runs_dir=runs[0].parent)
    assert str(refused.value).startswith(place)
    assert {path.name for path in runs[0].parent.iterdir()} == {run.name for run in runs}


def test_other_verdicts_on_the_same_texts_leave_the_rankings_out(runs: list[Path]):
    lines = only_file(runs[0], "verdicts").read_bytes().splitlines(keepends=True)[1:]
    line = next(line for line in lines if json.loads(line)["winner"] != "tie")
    path = only_file(runs[1], "verdicts")
    path.write_bytes(path.read_bytes() + line)
    assert len(harness.merge(runs, output="same", runs_dir=runs[0].parent).rankings) == 1
    number = len(path.read_bytes().splitlines())
    with_record(runs[1], "verdicts", number, a=json.loads(line)["b"], b=json.loads(line)["a"])
    notes: list[str] = []
    merged = harness.merge(runs, output="other", runs_dir=runs[0].parent, progress=Notes(notes))
    assert merged.rankings == ()
    assert "other verdicts" in notes[0]
    assert validate_folder(merged.path, now).damaged == 0


@pytest.mark.few(2)
@pytest.mark.parametrize("place", ["rank", "reward", "advantage", "score"])
def test_ranks_that_no_match_gives_are_not_taken_over(runs: list[Path], place: str):
    path = only_file(runs[1], "rankings")
    number, group = next(
        (number, group)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (group := json.loads(line)).get("provisional") is False and len({r[place] for r in group["rollouts"]}) > 1
    )
    first, *others = group["rollouts"]
    other = next(rollout for rollout in others if rollout[place] != first[place])
    first[place], other[place] = other[place], first[place]
    damaged = with_record(runs[1], "rankings", number, rollouts=group["rollouts"])
    with pytest.raises(ArchiveDamaged, match=f"{damaged}the ranks of .* do not follow"):
        harness.merge(runs, output="all", runs_dir=runs[0].parent)
    assert not (runs[0].parent / "all").exists()


def test_what_a_killed_merge_left_is_removed_by_the_next_and_what_a_living_one_makes_is_kept(runs: list[Path]):
    runs_dir = runs[0].parent
    killed, living, strange = (runs_dir / f".{name}.0123abcd" for name in ("all", "other", "strange"))
    for folder in (killed, living):
        folder.mkdir()
        (folder / "run.lock").touch()
    strange.mkdir()
    held = lock_folder(living)
    try:
        harness.merge(runs, output="all", runs_dir=runs_dir)
    finally:
        held.release()
    assert {path.name for path in runs_dir.iterdir() if path.name.startswith(".")} == {living.name, strange.name}


@pytest.mark.nightly
def test_keys_may_go_where_the_parts_could_send_them_only_if_all_were_made_here(runs: list[Path]):
    environ = dict(os.environ)
    with RunReader(harness.merge(runs, output="ours", runs_dir=runs[0].parent).path) as reader:
        assert read_attestation(reader, environ)
    kept = only_file(runs[1], "queries").read_bytes()
    with_record(runs[1], "queries", 2, text="Another question?")  # which makes it a stranger's
    notes: list[str] = []
    with RunReader(harness.merge(runs, output="x", runs_dir=runs[0].parent, progress=Notes(notes)).path) as reader:
        assert read_attestation(reader, environ) is None
    only_file(runs[1], "queries").write_bytes(kept)
    changed_info(runs[1], agent_word=None)  # which does so, too
    with RunReader(harness.merge(runs, output="y", runs_dir=runs[0].parent, progress=Notes(notes)).path) as reader:
        assert read_attestation(reader, environ) is None
    assert ["not all of the runs were made here" in note for note in notes] == [True, True]


def test_the_command_merges_and_says_what_is_missing(runs: list[Path], capsys: pytest.CaptureFixture[str]):
    words = ["merge", str(runs[1]), "-o", str(runs[0].parent / "half"), "--json"]
    app.main(words, standalone_mode=False, obj=dict(os.environ))
    printed = capsys.readouterr()
    counts = json.loads(printed.out)
    with RunReader(runs[1]) as reader:
        assert (counts["run"], counts["queries"], counts["rankings"]) == ("half", len(reader.index.queries), 1)
    assert "note: shard 1/2 is not among the merged runs" in printed.err
    with pytest.raises(UsageError):
        app.main(["merge", str(runs[0]), "nowhere"], standalone_mode=False, obj=dict(os.environ))
