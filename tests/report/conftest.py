"""Fixtures of the page's tests."""

import pytest

from tests.report.archives_by_hand import HOSTILE, BuiltArchive, build, hostile


@pytest.fixture(scope="module")
def evil(tmp_path_factory) -> BuiltArchive:
    return build(tmp_path_factory.mktemp("evil"), hostile(), agent=HOSTILE[0], judge=HOSTILE[1])
