"""A preference without `prompt`: what both sides begin with is the prompt, as TRL takes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from harness.formats.trajectory_files import read_trajectories

Q, X, Y = {"role": "user", "content": "q"}, *({"role": "assistant", "content": text} for text in "xy")


def read(folder: Path, line: dict[str, Any]) -> list[tuple[str, str]]:
    path = folder / "pairs.jsonl"
    path.write_text(json.dumps(line) + "\n")
    return [(side.query, side.answer) for side in read_trajectories([path])]


@pytest.mark.parametrize(
    ("chosen", "rejected", "sides"),
    [
        ("\n\nHuman: hi\n\nAssistant: yes", "\n\nHuman: hi\n\nAssistant: no", [("yes", "no")]),
        ([Q, X], [Q, Y], [("x", "y")]),
    ],
)
def test_both_sides_are_of_one_query(chosen: Any, rejected: Any, sides: list[tuple[str, str]], tmp_path: Path):
    better, worse = read(tmp_path, {"chosen": chosen, "rejected": rejected})
    assert better[0] == worse[0] != ""
    assert [(better[1].strip(), worse[1].strip())] == sides


@pytest.mark.parametrize(
    ("chosen", "rejected", "why"),
    [
        ("a", "b", "do not begin alike"),
        ([X], [Y], "do not begin alike"),
        ("a", "a", "the beginning of the other"),
        ([Q], [Q, Y], "the beginning of the other"),
    ],
)
def test_what_has_no_prompt_is_refused_with_file_and_line(chosen: Any, rejected: Any, why: str, tmp_path: Path):
    with pytest.raises(UsageError, match=rf"pairs.jsonl:1: .*{why}"):
        read(tmp_path, {"chosen": chosen, "rejected": rejected})
