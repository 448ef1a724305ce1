"""Index files that do not fit: random bytes, statements that spoil, and pages with bytes changed."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from harness.archive import index_file
from harness.archive.reader import RunReader
from tests.fuzz.attacks import Attack, Room, some
from tests.fuzz.commands import Values, lines_reading

COLUMNS = {
    "files": ("id", "name", "seen", "head", "tail"),
    "queries": ("at", "id", "file", "offset"),
    "rollouts": ("at", "query", "number", "file", "offset", "status", "failure", "started", "price"),
    "verdicts": ("key", "file", "offset"),
    "sums": ("queries", "rollouts", "last_verdict", "spent", "counts"),
    "judging": ("fingerprint", "stamps"),
    "cached_groups": ("query", "crc", "data"),
}
VALUES = (
    *("null", "-1", "0", "1", "5", "1 << 60", "9e999", "1e308", "'x'", "''", "x'ff00'", "cast(x'ff00' as text)"),
    *("'../../outside/canary'", "'/etc/passwd'", "char(0)", "'rollouts/'", "printf('%.*c', 2000000, 'x')", "random()"),
    *("offset + 1", "offset - 1", "lower(name)", "'2026-07-21T14:03:20'"),
)
ENDLESS = "with recursive n(i) as (select 0 union all select i + 1 from n) select "


def prepare(rng: random.Random, room: Room) -> Attack:
    """A hostile index of a run that is whole; every run counts as large for as long as this lasts."""
    run = room.add_run(rng.choice(("offline-arena", "offline-ruler", "offline-interrupted")))
    index_file.WORTH_KEEPING = 0
    with RunReader(run, room.home / "cache" / "arena-harness") as reader:
        assert reader.index.queries
    (file,) = (room.home / "cache" / "arena-harness" / "index").iterdir()
    done = rng.choice((_tampered, _tampered, _tampered, _flipped, _noise))(rng, file)
    return Attack(input=done[:2000], lines=some(rng, lines_reading(Values(run=run.name)), 5))


def _noise(rng: random.Random, file: Path) -> str:
    data = rng.choice((b"", b"SQLite format 3\0")) + rng.randbytes(rng.choice((0, 10, 100, 5000)))
    file.write_bytes(data)
    return f"{len(data)} bytes of noise"


def _flipped(rng: random.Random, file: Path) -> str:
    data = bytearray(file.read_bytes())
    places = [rng.randrange(len(data)) for _ in range(rng.choice((1, 3, 30, 300)))]
    for place in places:
        data[place] = rng.randrange(256)
    file.write_bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))])
    return f"bytes changed at {places[:20]}"


def _tampered(rng: random.Random, file: Path) -> str:
    statements = [_statement(rng) for _ in range(rng.choice((1, 1, 2, 4)))]
    with closing(sqlite3.connect(file, isolation_level=None)) as base:
        for statement in statements:
            try:
                base.executescript(statement)
            except sqlite3.Error:  # what one statement made, another may not find
                continue
    return "; ".join(statements)


def _statement(rng: random.Random) -> str:
    table = rng.choice(list(COLUMNS))
    column = rng.choice(COLUMNS[table])
    values = ", ".join(rng.choice(VALUES[:16]) for _ in COLUMNS[table])
    columns = ", ".join(f"i as {name}" for name in COLUMNS[table])
    return rng.choice(
        (
            f"update or ignore {table} set {column} = {rng.choice(VALUES)}",
            f"update or ignore {table} set {column} = {rng.choice(VALUES)} where rowid = 1",
            f"delete from {table}",
            f"delete from {table} where rowid = 1",
            f"insert or ignore into {table} values ({values})",
            f"drop table {table}; create view {table} as {ENDLESS}{columns} from n",
            f"drop table {table}; create table {table}({', '.join(COLUMNS[table])})",
            f"drop table {table}",
            f"alter table {table} drop column {column}",
            f"alter table {table} add column more default 5",
            f"create trigger t after update on {table} begin delete from {table}; end",
            f"pragma journal_mode = {rng.choice(('wal', 'delete'))}; pragma user_version = 7",
            "pragma encoding = 'UTF-16'; vacuum",
        )
    )
