"""docs/trainers.md: every block runs as far as it can without its trainer, and every figure in the log is explained."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint
from tests.integrations.conftest import TrlTrainer

PAGE = (ROOT / "docs" / "trainers.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.anyio


class Trainer:
    """Takes what TRL's trainer takes, and keeps it."""

    made: ClassVar["list[Trainer]"] = []

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.made.append(self)

    def train(self) -> None:
        """Do nothing: the test calls the reward function."""


async def test_the_block_for_trl_gives_the_trainer_rewards_and_the_page_explains_what_is_logged(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [block for block in BLOCKS if "GRPOTrainer" in block]
    stub = ModuleType("trl")
    stub.__dict__.update(GRPOTrainer=Trainer, GRPOConfig=dict)
    monkeypatch.setitem(sys.modules, "trl", stub)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    exec(block.replace("max_cost=50", 'max_cost=50, prices={"gpt-5.2-mini": "1/2"}, order="both"'), {"dataset": []})
    function = Trainer.made.pop().arguments["reward_funcs"]
    trainer = TrlTrainer(num_generations=2)
    assert sorted(await trainer.rewards(function, {"Why?": ["one", "another"]})) == [0, 1]
    function.judge.close()
    assert (tmp_path / "verdicts" / "verdicts").is_dir()
    assert [name for name in trainer.metrics if f"`{name}`" not in PAGE] == []
