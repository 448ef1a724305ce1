"""A folder of verdicts without a run: what judging inside a trainer keeps."""

from pathlib import Path

import pytest

from harness.archive.folder_store import VerdictFolder
from harness.archive.run_info import list_archived
from harness.archive.store import MemoryStore, VerdictStore
from harness.core.errors import ArchiveDamaged, ArchiveLocked, CannotWrite
from harness.core.redaction import Redactor
from tests.builders import AT, a_judged, an_unjudged

SECRET = "sk-secret-1234567890"


def folder_at(path: Path) -> VerdictFolder:
    return VerdictFolder(path, AT, redact=Redactor([SECRET]))


def written(path: Path) -> str:
    return "".join(file.read_text("utf-8") for file in sorted(path.rglob("*.jsonl")))


@pytest.mark.anyio
async def test_what_one_process_bought_the_next_one_finds_and_keys_and_strangers_stay_out(tmp_path: Path):
    runs = tmp_path / "runs"
    with folder_at(runs / "verdicts") as store:
        kept: VerdictStore = store
        reply = kept.put_blob(f"marks, and {SECRET}")
        kept.add_verdict(a_judged(key="one", raw_replies=(reply,)))
        kept.add_verdict(failed := an_unjudged(key="two"))
        await kept.commit()
        assert store.failed == [failed]
        with pytest.raises(ArchiveLocked, match="in use by another"):
            folder_at(runs / "verdicts")
    assert (runs / "verdicts").stat().st_mode & 0o777 == 0o700
    assert SECRET not in written(runs)
    with folder_at(runs / "verdicts") as again:
        assert again.verdict("one") == a_judged(key="one", raw_replies=(reply,))
        assert again.verdict("two") is again.scored("one") is None
        assert again.reader.blobs.get(reply).startswith("marks, and ")
        assert len(list(again.reader.verdicts())) == 2
    assert list(list_archived(runs)) == []


def test_a_torn_line_is_passed_over_and_a_damaged_one_named(tmp_path: Path):
    with folder_at(tmp_path / "v") as store:
        store.add_verdict(a_judged(key="one"))
        store.add_verdict(a_judged(key="two"))
    (file,) = (tmp_path / "v" / "verdicts").iterdir()
    text = file.read_bytes()
    file.write_bytes(text[:-9])
    with folder_at(tmp_path / "v") as store:
        assert (store.verdict("one") is None, store.verdict("two") is None) == (False, True)
    file.write_bytes(text.replace(b'"key":"one"', b'"key":"eno"'))
    with folder_at(tmp_path / "v") as store, pytest.raises(ArchiveDamaged, match=f"{file.name}:2: the checksum"):
        store.verdict("two")


def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match=r"cannot make a folder of verdicts in .*file"):
        folder_at(tmp_path / "file")


def test_a_store_in_memory_and_a_folder_know_the_same_verdicts(tmp_path: Path):
    with folder_at(tmp_path / "v") as store:
        for each in (store, MemoryStore()):
            each.add_verdict(a_judged(key="one"))
            assert each.verdict("one") == a_judged(key="one")
