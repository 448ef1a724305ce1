"""One rollout, one pair, one call: what stands before a count of one is in the singular, wherever it is shown."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint

COUNTED = "calls|(?:decided )?verdicts|judge calls|matches|pairs|queries|rollouts|tokens|times"
WRONG = re.compile(rf".*\b1 (?:{COUNTED})\b.*|.*\b1 \w+ were\b.*")
TEXT = re.compile(r"<(style|script).*?</\1>|<[^>]*>", re.DOTALL)
JURY = ("--judge-model", "j", "--judge-model", "k")


def shown(harness: Harness, folder: Path, *args: str) -> str:
    """Return all that the commands and the page say of a run of one query and of its only pair."""
    with FakeEndpoint().serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        run = harness("run", "Why?", "--model", "m", "-n", "2", "--topology", "anchor", *args, env=env)
    assert run.code == 0, run.err
    said = [run.out, run.err]
    for command in ("show", "show --matches", "show --matrix", "stats", "ls"):
        done = harness(*command.split())
        assert done.code == 0, done.err
        said += [done.out, done.err]
    (page,) = folder.glob("runs/*/report.html")
    return "\n".join([*said, TEXT.sub(" ", page.read_text("utf-8"))])


@pytest.mark.few(1)
@pytest.mark.parametrize("order", ["single", "both"])
def test_a_run_of_one_query_and_one_pair_counts_in_the_singular(order: str, harness: Harness, tmp_path: Path):
    text = shown(harness, tmp_path, *JURY, "--order", order)
    assert [match.group().strip() for match in WRONG.finditer(text)] == []


def test_a_table_of_one_match_counts_in_the_singular(harness: Harness, tmp_path: Path):
    (tmp_path / "table.json").write_text(json.dumps({"n": 2, "scores": {"0,1": [7, 5], "1,0": [5, 7]}}))
    done = harness("rank", "table.json", "--topology", "round_robin")
    assert "\n1 match, " in done.out, done.err
