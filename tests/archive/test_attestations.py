"""This machine's own record of a run counts for that run alone, and a hostile record or id does nothing."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive import attestations
from harness.archive.attestations import (
    AgentOrigin,
    attest,
    attest_addresses,
    attests_queries,
    read_attestation,
    withdraw,
)
from harness.archive.reader import RunReader
from harness.core.errors import CannotWrite
from tests.archive.making import a_run

URL = "https://models.example/v1"
Damage = Callable[[Path], object]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def run(tmp_path: Path, environ: dict[str, str]) -> RunReader:
    with a_run(tmp_path / "runs") as store:
        attest(store.reader, environ, [URL], AgentOrigin("mine.py:agent", here=tmp_path))
        return RunReader(store.folder)


def record_of(environ: dict[str, str]) -> Path:
    (path,) = (Path(environ["XDG_STATE_HOME"]) / "arena-harness" / "runs").iterdir()
    return path


def test_a_run_made_here_is_attested_until_it_is_taken_away(run: RunReader, environ: dict[str, str], tmp_path: Path):
    record = read_attestation(run, environ)
    assert record
    assert (record.run, record.agent_word, record.here) == ("run-1", "mine.py:agent", tmp_path.resolve())
    attest_addresses(record, environ, ["http://other:1/v1", URL])
    more = read_attestation(run, environ)
    assert more
    assert more.addresses == (URL, "http://other:1/v1")
    withdraw("run-1", environ)
    assert read_attestation(run, environ) is None


def test_the_record_is_the_users_alone(run: RunReader, environ: dict[str, str]):
    path = record_of(environ)
    assert path.name == "run-1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_run_json_with_another_byte_or_another_runs_record_does_not_count(run: RunReader, environ: dict[str, str]):
    path = run.folder / "run.json"
    path.write_bytes(path.read_bytes() + b"\n")
    assert read_attestation(RunReader(run.folder), environ) is None


def test_the_queries_are_attested_as_they_stand(run: RunReader, environ: dict[str, str]):
    path = run.folder / "queries" / "1.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"one\ntwo\n")
    record = attest(run, environ)
    assert attests_queries(record, run)
    path.write_bytes(b"one\nTwo\n")
    assert not attests_queries(record, run)
    path.write_bytes(b"one\ntwo\n")
    (path.parent / "0.jsonl").write_bytes(b"one\n")
    assert not attests_queries(record, run)


def link(path: Path) -> None:
    target = path.with_suffix(".there")
    path.rename(target)
    path.symlink_to(target)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        link,
        fifo,
        folder,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff" + path.read_bytes()),
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(path.read_bytes() + b" " * 1_000_000),
        lambda path: path.write_text(path.read_text().replace('"addresses":[', '"addresses":[5,')),
    ],
)
def test_a_damaged_or_hostile_record_does_not_count(run: RunReader, environ: dict[str, str], damage: Damage):
    damage(record_of(environ))
    assert read_attestation(run, environ) is None


@given(st.text())
def test_no_id_of_an_archive_leads_out_of_the_folder_of_records(run_id: str):
    home = Path("/state/arena-harness/runs")
    for id_ in (run_id, f"../../{run_id}", f"/{run_id}", f"{run_id}\0", "\ud800", "." * len(run_id), "x" * 300):
        path = attestations._path(id_, {"XDG_STATE_HOME": "/state"})
        assert path.parent == home
        assert Path(os.path.normpath(path)) == path
        assert len(path.name) < 120


def test_a_folder_that_cannot_be_written_is_one_clear_line(run: RunReader, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match=r"cannot write .*run-1\.json"):
        attest(run, {"XDG_STATE_HOME": str(tmp_path / "file")})
