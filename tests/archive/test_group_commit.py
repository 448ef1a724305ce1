"""Group commit: what arrives together shares one sync, and nobody goes on before it."""

import threading
import time

import anyio
import pytest

from harness.archive import folder_store
from harness.archive.folder_store import GroupCommit

pytestmark = pytest.mark.anyio


class Disk:
    def __init__(self, seconds: float = 0.0) -> None:
        self.syncs, self.safe, self.written, self._seconds = 0, 0, 0, seconds
        self.threads: set[int] = set()

    def sync(self) -> None:
        self.threads.add(threading.get_ident())
        written = self.written
        time.sleep(self._seconds)
        self.syncs, self.safe = self.syncs + 1, written


async def write(disk: Disk, group: GroupCommit) -> None:
    disk.written += 1
    mine = disk.written
    group.add()
    await group.commit()
    assert disk.safe >= mine


async def test_on_a_slow_disk_records_that_arrive_together_share_a_sync_off_the_loop():
    disk = Disk(0.01)
    group = GroupCommit(disk.sync)
    await write(disk, group)  # this one finds out
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(write, disk, group)
    assert disk.safe == 51
    assert disk.syncs <= 4
    assert disk.threads - {threading.get_ident()}


async def test_on_a_quick_disk_there_is_no_hop_to_a_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder_store, "SLOW_S", 10.0)
    disk = Disk()
    group = GroupCommit(disk.sync)
    for _ in range(5):
        await write(disk, group)
    assert disk.threads == {threading.get_ident()}


async def test_on_a_quick_disk_too_records_that_arrive_together_share_a_sync(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder_store, "SLOW_S", 10.0)
    disk = Disk()
    group = GroupCommit(disk.sync)
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(write, disk, group)
    assert (disk.safe, disk.syncs) == (50, 1)


async def test_a_cancelled_writer_waits_for_the_disk_all_the_same():
    disk = Disk(0.01)
    group = GroupCommit(disk.sync)
    await write(disk, group)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await write(disk, group)
    assert disk.safe == 2


async def test_a_disk_that_fails_is_told_to_all_who_wait_and_the_next_may_succeed():
    disk, failed = Disk(0.01), []
    group = GroupCommit(disk.sync)
    await write(disk, group)

    def broken() -> None:
        raise OSError("no room")

    async def one() -> None:
        try:
            await write(disk, group)
        except OSError as exc:
            failed.append(str(exc))

    group._sync = broken
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert failed == ["no room"] * 3
    group._sync = disk.sync
    await group.commit()
    assert disk.safe == 4


async def test_a_sync_that_somebody_cancels_is_made_again():
    disk = Disk()
    group = GroupCommit(disk.sync)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write, disk, group)
        await anyio.lowlevel.checkpoint()
        assert group._flush
        group._flush.cancel()
    await write(disk, group)
    assert disk.safe == 2
