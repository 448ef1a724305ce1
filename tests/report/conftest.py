"""Fixtures of the page's tests."""

from collections.abc import Iterator

import pytest

from tests.report.archives_by_hand import HOSTILE, READERS, BuiltArchive, build, hostile


@pytest.fixture(autouse=True)
def readers_are_closed() -> Iterator[None]:
    yield
    for reader in READERS:
        reader.close()


@pytest.fixture(scope="module")
def evil(tmp_path_factory) -> BuiltArchive:
    return build(tmp_path_factory.mktemp("evil"), hostile(), agent=HOSTILE[0], judge=HOSTILE[1])
