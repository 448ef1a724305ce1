"""A planted task is learnt by the loop: with a policy of four numbers, and rewards of the tournament alone."""

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from policy_loop import STEPS, learn


@pytest.mark.anyio
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
async def test_the_reward_of_held_out_queries_rises_over_thirty_steps(tmp_path: Path, seed: int):
    before, after, figures = await learn(seed, STEPS, tmp_path)
    assert after > before + 0.25
    assert figures["rollouts/handed_out"] > 0
