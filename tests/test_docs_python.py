"""docs/python.md is one script that works: every block is run, offline, against a served endpoint."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import harness
from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge, list_judge

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def answers(seen: Seen) -> Say:
    """Answer an agent with words of its own at each temperature."""
    return Say(f"A verse on {seen.user} {len(str(seen.body))} {seen.body.get('temperature')}")


def judges(seen: Seen) -> Any:
    return (list_judge() if "trajectory_id" in seen.system else fair_judge())(seen)


@pytest.mark.anyio
@pytest.mark.process
@pytest.mark.filterwarnings("default::UserWarning")
async def test_every_block_of_the_page_works_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with FakeEndpoint(agent=answers, judge=judges).serving() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        for number, block in enumerate(BLOCKS):
            code = compile(block, f"block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.isawaitable(result):
                await result
    assert len(BLOCKS) > 12


def test_the_page_names_every_public_function_and_every_method_of_a_run():
    functions = [name for name in harness.__all__ if inspect.isroutine(getattr(harness, name))]
    methods = [name for name in vars(harness.Run) if not name.startswith("_") and name not in {"info", "settings"}]
    assert [name for name in functions + methods if not re.search(rf"\b{name}\b", PAGE)] == []
