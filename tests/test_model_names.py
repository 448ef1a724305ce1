"""The models that docs and examples name exist, and go on existing; all come from harness/rollouts/examples.py."""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import get_args

import pytest
from openai.types import ChatModel

from harness.rollouts.examples import AGENT_MODEL, JUDGE_MODEL, copy_of_example, examples_folder, is_example
from tests.conftest import ROOT

SHUTDOWNS = dict.fromkeys(("gpt-5", "gpt-5-mini", "gpt-5-nano"), date(2026, 12, 11))
"""The models that OpenAI shuts down, and when."""
ROOMS = [ROOT / "harness" / room / "__init__.py" for room in (".", "integrations", "doctor", "api")]
PAGES = [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").rglob("*.md")]
FILES = [*PAGES, *ROOMS, *examples_folder().glob("*.py")]
_NAME = re.compile(r"\b(?:(?:chat)?gpt|codex|o[1-9])-(?:\w|[-.]\w)+|['\"`]o[1-9]['\"`]")


def named() -> Iterator[tuple[str, str]]:
    """Yield each file and each name of a model of OpenAI's in it."""
    for file in FILES:
        for name in _NAME.findall(file.read_text("utf-8")):
            yield str(file.relative_to(ROOT)), name.strip("'\"`")


def test_docs_and_examples_name_the_two_models_of_one_place_and_no_other():
    found = set(named())
    assert {name for _, name in found} == {AGENT_MODEL, JUDGE_MODEL}, sorted(found)


@pytest.mark.parametrize("model", [AGENT_MODEL, JUDGE_MODEL])
def test_a_model_that_docs_name_exists_and_has_no_known_shutdown(model: str):
    assert model in get_args(ChatModel)
    assert not [gone for gone in SHUTDOWNS if re.fullmatch(rf"{re.escape(gone)}(-\d{{4}}-\d\d-\d\d)?", model)]


def test_the_docs_judge_is_another_model_than_the_agents_are():
    assert AGENT_MODEL != JUDGE_MODEL


def test_a_copy_of_an_example_has_the_models_name_in_it_and_is_an_example_while_unchanged(tmp_path: Path):
    copy = tmp_path / "triage.py"
    copy.write_text(copy_of_example("triage", "triage")["triage.py"], "utf-8")
    assert f'\n\nAGENT_MODEL = "{AGENT_MODEL}"\nEXAMPLES = ' in copy.read_text("utf-8")
    assert "harness.rollouts" not in copy.read_text("utf-8")
    assert is_example(copy)
    copy.write_text(copy.read_text("utf-8") + "\n", "utf-8")
    assert not is_example(copy)
