"""A long run at a server that fails now and then grows in nothing and loses nothing (benchmarks/soak.py)."""

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from soak import soaked


@pytest.mark.nightly
@pytest.mark.process
def test_two_thousand_rollouts_with_faults_grow_in_nothing_and_lose_nothing(tmp_path: Path):
    lines: list[str] = []
    assert soaked(2_000, 64, tmp_path, lines.append) == [], "\n".join(lines)
