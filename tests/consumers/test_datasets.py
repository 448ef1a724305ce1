"""`datasets.load_dataset(DIR)` reads every format by the head of its data card."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.consumers.conftest import Exported

datasets: Any = pytest.importorskip("datasets")


def loaded(folder: Path, **more: Any) -> Any:
    return datasets.load_dataset(str(folder), cache_dir=str(folder.parent / "cache"), **more)


def plain(value: Any, *, near: bool = False) -> Any:
    """Return a value without columns that are empty; `near`, it equals numbers at the 10 digits that datasets keeps."""
    if isinstance(value, dict):
        return {key: plain(inner, near=near) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [plain(inner, near=near) for inner in value]
    return pytest.approx(value, abs=1e-9) if near and isinstance(value, float) else value


# The two of a pair of `tools` were shown different things before they answered: that agent has no pairs.
BOTH, ALL = ["plain", "looker"], ["plain", "looker", "tools"]
PAIRS = [
    *(("groups", ALL), ("sft", ALL), ("sft --style trl-turns", ALL), ("sft --style openai", ALL)),
    *(("dpo", BOTH), ("openai-preference", BOTH), ("atif", ALL)),
]


@pytest.mark.parametrize(("form", "agent"), [(form, agent) for form, agents in PAIRS for agent in agents])
def test_each_format_loads_by_its_card_and_holds_what_the_file_holds(exported: Exported, form: str, agent: str):
    name, *style = form.split()
    folder = exported(name, agent, *style)
    rows = loaded(folder)["train"]
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text("utf-8").splitlines()]
    assert [plain(row) for row in rows] == [plain(line, near=True) for line in lines]


def test_a_table_loads_with_numbers_as_numbers(exported: Exported):
    rows = loaded(exported("csv", "tools"))["train"]
    assert len(rows) == 16
    assert {type(row["reward"]) for row in rows} == {float}


def test_a_split_by_query_becomes_splits_of_the_dataset(exported: Exported):
    folder = exported("groups", "plain", "--split", "train=0.5,test=0.5")
    parts = loaded(folder)
    assert sum(len(part) for part in parts.values()) == 4
    assert set(parts) == {path.stem for path in folder.glob("t*.jsonl")}


def test_a_folder_written_anew_is_read_anew(exported: Exported):
    def answers() -> set[str]:
        return {row["chosen"][-1]["content"] for row in loaded(exported("dpo", "plain", *more))["train"]}

    more: tuple[str, ...] = ()
    best = answers()
    more = ("--force", "--pairs", "adjacent")
    assert best < answers()


def test_tools_and_arguments_of_other_keys_after_the_first_10_mb_load(exported: Exported):
    folder = exported("dpo", "looker")
    text = (folder / "train.jsonl").read_text("utf-8")
    later = text.replace('"word"', '"query"').replace('"times": 2', '"times": "2"')
    (folder / "train.jsonl").write_text(text * (11_000_000 // len(text)) + later, encoding="utf-8")
    rows = loaded(folder)["train"]
    assert rows[0]["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"word": "a", "times": 2}
    assert rows[-1]["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"query": "a", "times": "2"}
