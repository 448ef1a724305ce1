"""A stranger's run may hold links, FIFOs, devices and folders in place of files: none is followed or waited for."""

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.archive.batch_log import BatchEnded, BatchMade
from harness.archive.checkpoints import KeptOutput
from harness.archive.lines import encode
from harness.archive.run_info import SEGMENTS
from harness.archive.store import RunStore
from harness.core.judge_profile import ProbedJudge
from harness.ranking.leanings import leanings_record, learn_leanings
from tests.builders import AT
from tests.fuzz.attacks import CANARY, Room
from tests.fuzz.attempts import Outcome, attempt
from tests.fuzz.snapshots import untouched

READING = (
    ("show",),
    ("show", "--rollout", "0"),
    ("stats",),
    ("report",),
    ("replay",),
    ("resume",),
    ("validate",),
    ("validate", "--repair"),
    ("rescore", "--free"),
    ("rescore", "--hide-instructions"),
)
RESCORE = ("rescore", "--free")
"""Judges again on the verdicts that the run holds."""
Place = Callable[[Path, Path], None]
"""Puts a strange thing in the place of a file; the second path leads to a place outside of the run."""


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room.make(tmp_path / "room")


@pytest.fixture
def run(room: Room) -> Path:
    folder = room.add_run(name="20260101T000000-search-abcdef")
    with RunStore(folder, AT) as store:
        store.add_batch_record(BatchMade(batch="1", at=AT, judge="m@host", form="text", keys=()))
        store.add_batch_record(BatchEnded(batch="1", at=AT, outcome="completed"))
        leanings = leanings_record(learn_leanings([]), 1)
        store.add_probed_judge(
            ProbedJudge(at=AT, judge="m@host", rubric="r@1 x", rendering=1, leanings=leanings, verdicts=())
        )
        store.checkpoint_key = "k"
        assert store.add_checkpoint(CUT_OFF)
        store.settle()
    (folder / "run.lock").unlink()
    return folder


CUT_OFF = KeptOutput(
    query="q1",
    index=0,
    attempt="a",
    call=0,
    call_id="c",
    output="o",
    started_at=AT.isoformat(),
    ended_at=AT.isoformat(),
)


def ended(room: Room, *line: str) -> Outcome:
    """Run a command; it must neither hang nor end in a traceback."""
    outcome = attempt(line, room.work, room.environ())
    assert outcome.faults() == []
    return outcome


def records_of(run: Path, name: str) -> Path:
    (path, *_) = sorted((run / name).glob("*.jsonl"))
    return path


def link(path: Path, outside: Path) -> None:
    """What stood there stands outside of the run now: the link leads to what would be good to read."""
    path.rename(outside)
    path.symlink_to(outside)


def dead_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside)


def endless_device(path: Path, _: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def fifo(path: Path, _: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, _: Path) -> None:
    path.unlink()
    path.mkdir()


def unix_socket(path: Path, _: Path) -> None:
    path.unlink()
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 107 bytes
    try:
        with closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


PLACES: Mapping[Place, str] = {
    link: "a link",
    dead_link: "a link",
    endless_device: "a link",
    fifo: "a FIFO",
    folder: "a folder",
    unix_socket: "a socket",
}
every_place = pytest.mark.parametrize(("place", "what"), PLACES.items())


def damaged_by_all(room: Room, run: Path, strange: Path, what: str) -> None:
    """Every command that reads the run names the strange thing as damage; nothing changes, and `ls` goes on."""
    with untouched(room.top, leave_out=[room.home]):
        for command in READING:
            outcome = ended(room, *command, run.name)
            assert outcome.code == 5, command
            assert f"{strange.relative_to(room.work)}: {what}" in outcome.out_text + outcome.err_text, command
        listed = ended(room, "ls")
        assert listed.code == 0
        assert run.name in listed.err_text


@pytest.mark.few(7)
@pytest.mark.parametrize("segment", SEGMENTS)
@every_place
def test_a_strange_thing_in_the_place_of_a_file_of_records_is_damage(
    place: Place, what: str, segment: str, room: Room, run: Path
) -> None:
    path = records_of(run, segment)
    place(path, room.outside / path.name)
    damaged_by_all(room, run, path, what)


@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_linked_folder_of_records_is_damage_though_it_leads_to_good_records(
    segment: str, room: Room, run: Path
) -> None:
    link(run / segment, room.outside / segment)
    damaged_by_all(room, run, run / segment, "a link")


@every_place
def test_a_strange_thing_in_the_place_of_run_json_is_damage(place: Place, what: str, room: Room, run: Path) -> None:
    place(run / "run.json", room.outside / "run.json")
    damaged_by_all(room, run, run / "run.json", what)


def test_the_folder_of_runs_and_the_run_that_a_user_names_may_be_links(room: Room, run: Path) -> None:
    moved = room.top / "elsewhere"
    room.runs.rename(moved)
    room.runs.symlink_to(moved)
    (room.work / "mine").symlink_to(moved / run.name)
    for line in (("ls",), ("show", run.name), ("show", "mine"), (*RESCORE, "mine"), ("validate", run.name)):
        assert ended(room, *line).code == 0, line


def test_a_linked_run_in_the_folder_of_runs_is_damage_and_not_followed(room: Room, run: Path) -> None:
    kept = room.add_run()
    link(run, room.outside / run.name)
    with untouched(room.outside):
        listed = ended(room, "ls")
        assert (listed.code, listed.err_text.count("damaged: ")) == (0, 1)
        assert f"runs/{run.name}: a link stands where a run should be" in listed.err_text
        assert kept.name in ended(room, "ls", "--json").out_text
        for command in READING:
            assert ended(room, *command, run.name).code == 5
        assert ended(room, "show", "last").code == 0


@pytest.fixture(params=["link", "FIFO"])
def in_place(request: pytest.FixtureRequest, room: Room) -> Callable[[Path], None]:
    """Puts a link to a file outside, or a FIFO, where a command writes a file."""

    def put(path: Path) -> None:
        path.unlink(missing_ok=True)
        if request.param == "FIFO":
            os.mkfifo(path)
        else:
            path.symlink_to(room.outside / "canary")

    return put


@pytest.fixture
def canary(room: Room) -> Iterator[None]:
    """Nothing outside of the runs changes, and the file that links lead to least of all."""
    with untouched(room.top, leave_out=[room.runs, room.home]):
        yield
    assert (room.outside / "canary").read_text() == CANARY


@pytest.mark.few(5)
@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("line", [("report",), RESCORE, ("validate", "--repair")])
@pytest.mark.parametrize("name", ["run.lock", "report.html"])
def test_a_strange_lock_or_page_is_replaced_and_not_followed(
    line: tuple[str, ...], name: str, in_place: Callable[[Path], None], room: Room, run: Path
) -> None:
    in_place(run / name)
    checked = ended(room, "validate", run.name)
    assert checked.code == 5
    assert f"{name}: a " in checked.out_text
    assert ended(room, *line, run.name).code == 0
    if (name, line) != ("run.lock", ("report",)):  # which writes the page, and needs no lock
        assert not (run / name).is_symlink()
        assert not (run / name).is_fifo()
        assert ended(room, "validate", run.name).code == 0


@pytest.mark.usefixtures("canary")
def test_a_new_run_is_resumed_past_a_linked_lock(room: Room, run: Path) -> None:
    (run / "run.lock").symlink_to(room.outside / "canary")
    records_of(run, "rankings").unlink()
    assert ended(room, "resume", run.name).code == 0
    assert (run / "run.lock").lstat().st_size == 0


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("name", ["run.lock", "report.html", "damaged", "report"])
def test_what_no_command_replaces_is_damage_that_no_repair_mends(name: str, room: Room, run: Path) -> None:
    if name in {"damaged", "report"}:
        (run / name).symlink_to(room.outside / "folder")
    else:
        (run / name).unlink(missing_ok=True)
        (run / name).mkdir()
    broken(records_of(run, "verdicts"))
    with untouched(run):
        for line in (("validate",), ("validate", "--repair")):
            outcome = ended(room, *line, run.name)
            assert outcome.code == 5
            assert f"{run.name}/{name}: a " in outcome.out_text
            assert "by hand" in outcome.out_text
    if name in {"report.html", "report"}:
        assert ended(room, "report", run.name).code == 5
    if name == "run.lock":
        assert ended(room, *RESCORE, run.name).code == 5


def broken(path: Path) -> None:
    """Break the second line of a file of records."""
    head, second, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([head, second.replace(b'"', b"'", 1), *rest]))


@pytest.mark.usefixtures("canary")
def test_a_repair_writes_through_no_link(room: Room, run: Path) -> None:
    path = records_of(run, "verdicts")
    broken(path)
    (run / "damaged").mkdir()
    aside = run / "damaged" / f"verdicts-{path.name}"
    part = path.with_suffix(".part")
    aside.symlink_to(room.outside / "canary")
    part.symlink_to(room.outside / "canary")
    outcome = ended(room, "validate", "--repair", run.name)
    assert outcome.code == 5  # the link in damaged/ is for a person to remove
    assert not (run / "damaged" / f"verdicts-{path.stem}.2.jsonl").exists()
    aside.unlink()
    assert ended(room, "validate", "--repair", run.name).code == 0
    assert not part.is_symlink()
    assert aside.read_bytes().startswith(b"{'crc")


@pytest.mark.parametrize("kind", ["link", "FIFO"])
@pytest.mark.parametrize("with_line", [False, True])
def test_a_repair_says_what_it_removed_and_which_lines_it_moved(room: Room, run: Path, kind: str, with_line: bool):
    path = records_of(run, "verdicts")
    part = path.with_suffix(".part")
    part.symlink_to("nowhere") if kind == "link" else os.mkfifo(part)
    if with_line:
        broken(path)
    outcome = ended(room, "validate", "--repair", run.name)
    assert outcome.code == 0
    said = outcome.out_text.splitlines()[-1]
    assert f"what stood at {part.relative_to(room.work)} was removed" in said
    assert ("less the lines now in damaged/" in said, "resume" in said) == (with_line, with_line)
    assert not os.path.lexists(part)


@pytest.mark.usefixtures("canary")
def test_a_repair_does_not_add_to_a_file_that_has_another_name_outside(room: Room, run: Path) -> None:
    path = records_of(run, "verdicts")
    broken(path)
    (run / "damaged").mkdir()
    os.link(room.outside / "canary", run / "damaged" / f"verdicts-{path.name}")
    assert ended(room, "validate", "--repair", run.name).code == 0
    assert (run / "damaged" / f"verdicts-{path.stem}.2.jsonl").is_file()


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize(
    ("ranking_id", "finding", "left"),
    [("../../../../outside/canary", "1: no valid record: id: ", 2), ("another", "2: the ranks", 1)],
    ids=["a path", "another ranking's"],
)
def test_a_ranking_whose_id_is_not_its_name_leads_a_repair_to_its_own_file(
    room: Room, run: Path, ranking_id: str, finding: str, left: int
) -> None:
    path = records_of(run, "rankings")
    head, group, footer = path.read_bytes().splitlines(keepends=True)
    named = {"id": ranking_id}
    ranks = {"rollouts": [ranked | {"rank": 0.0} for ranked in json.loads(group)["rollouts"]]}
    path.write_bytes(changed(head, named) + changed(group, ranks) + footer)
    outcome = ended(room, "validate", "--repair", run.name)
    assert outcome.code == 0
    assert f"{path.relative_to(room.work)}:{finding}" in outcome.out_text
    assert len(path.read_bytes().splitlines()) == left


def changed(line: bytes, members: dict[str, Any]) -> bytes:
    """Return a record with other members and a checksum that fits."""
    record: dict[str, Any] = json.loads(line) | members
    body = {name: value for name, value in record.items() if name not in {"crc", "schema_version", "kind"}}
    return encode(record["kind"], json.dumps(body))


@pytest.mark.usefixtures("canary")
def test_a_link_of_any_name_in_a_run_is_damage(room: Room, run: Path) -> None:
    (run / "notes").symlink_to(room.outside / "canary")
    (run / "verdicts" / "notes").symlink_to(room.outside / "canary")
    for line in (("validate",), ("validate", "--repair")):
        outcome = ended(room, *line, run.name)
        assert outcome.code == 5
        assert outcome.out_text.count("a link stands where") == 2
    assert ended(room, "show", run.name).code == 0


@pytest.mark.usefixtures("canary")
def test_a_file_named_for_the_end_of_time_stops_no_command_but_one_that_must_write_after_it(
    room: Room, run: Path
) -> None:
    path = records_of(run, "verdicts")
    path.rename(path.with_name("99999999T999999999999-1-1.jsonl"))
    assert ended(room, *RESCORE, run.name).code == 0
    stopped = ended(room, "rescore", "--hide-instructions", run.name)
    assert stopped.code == 5
    assert "no name of a file comes after 99999999T999999999999; rename that file" in stopped.err_text
    path.with_name("99999999T999999999999-1-1.jsonl").rename(path)
    path = records_of(run, "rollouts")
    path.rename(path.with_name("20269999T999999999999-1-1.jsonl"))
    assert ended(room, "resume", run.name).code == 0


def test_a_new_folder_of_runs_is_for_its_owner_only_and_one_that_was_there_stays_as_it_is(room: Room) -> None:
    (room.work / "made").mkdir(mode=0o755)
    for name in ("made", "deep/runs"):
        run = ("run", "--agent", "search", "--offline", "-n", "2", "Why is the sky blue?")
        assert ended(room, *run, "--runs-dir", name).code == 0
    modes = {name: (room.work / name).stat().st_mode & 0o777 for name in ("deep/runs", "made")}
    assert modes == {"deep/runs": 0o700, "made": 0o755}
