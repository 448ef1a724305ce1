"""Names by which records are found and checked, of as many as there may be."""

import random
from pathlib import Path

import pytest

from harness.archive import index_file
from harness.archive.index_file import NamePlaces
from harness.archive.lines import RecordPlace
from harness.core.errors import CannotWrite

CHANCE = random.Random(20261123)
FILES = [Path(f"rollouts/{number}.jsonl") for number in range(300)]


def test_names_have_the_first_place_that_was_noted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_file, "_MEMORY_KB", 100)  # most of them stand in the temporary file
    names, plain = NamePlaces(), dict[str, RecordPlace]()
    for _ in range(20_000):
        name = f"{CHANCE.randrange(9000):064x}"
        place = RecordPlace(CHANCE.choice(FILES), CHANCE.randrange(2**40))
        names.add(name, place)
        plain.setdefault(name, place)
    assert all(names.get(name) == place for name, place in plain.items())
    assert len(names) == len(plain)
    assert names.get("unknown") is None
    assert "unknown" not in names


def test_names_without_places_tell_which_were_added():
    names = NamePlaces()
    for name in ("a", "b", "a"):
        names.add(name)
    assert [name in names for name in ("a", "b", "c")] == [True, True, False]
    assert len(names) == 2


def test_where_there_is_no_room_for_names_one_line_says_so():
    names = NamePlaces()
    names._base.execute("pragma query_only=on")  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(CannotWrite, match="cannot write a temporary file"):
        names.add("a")
