"""Fixtures for runs on virtual time."""

import math

import pytest

from harness.archive import folder_store


@pytest.fixture
def no_thread_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On virtual time nobody can wait for a thread."""
    monkeypatch.setattr(folder_store, "SLOW_S", math.inf)
