"""`harness run --tokens`: what a server told of its tokens is kept, and goes into the exported groups."""

import json
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.archive.reader import RunReader
from harness.cli.app import app
from harness.core.errors import Refused
from tests.cli.conftest import judge
from tests.fake_endpoint import FakeEndpoint, Say, Seen
from tests.token_server import TokenServer, rendered, reply_text

AGENT = """\
from agents import Agent, function_tool

@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    return f"meaning of {word}"

agent = Agent(name="a", instructions="Be short.", tools=[look_up])
"""
Command = Callable[..., str]
RUN = "run Why? --agent agent.py --model m --judge-model j -n 4 -q"


def script() -> Callable[[Seen], Say]:
    numbers = count(1)

    def reply(seen: Seen) -> Say:
        if len(seen.tool_outputs) < 2:
            return Say(calls=(("look_up", {"word": f"w{len(seen.tool_outputs)}"}),))
        return Say(f"Number {next(numbers)}.")

    return reply


@pytest.fixture
def server() -> TokenServer:
    return TokenServer(script())


@pytest.fixture
def command(
    server: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(AGENT)
    with FakeEndpoint(server, judge).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url, "COLUMNS": "80"}

        def run(line: str, code: int = 0) -> str:
            capsys.readouterr()
            assert app.main(line.split(), standalone_mode=False, obj=environ) in {code, code or None}
            return capsys.readouterr().out

        yield run


def groups(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(folder, "train.jsonl").read_text("utf-8").splitlines()]


def only_run() -> Path:
    (folder,) = [path for path in Path("runs").iterdir() if path.is_dir() and not path.is_symlink()]
    return folder


def test_groups_hold_the_sampled_tokens_and_mask_what_came_from_tools(command: Command):
    command(f"{RUN} --tokens auto")
    command("export --format groups -o out")
    (group,) = groups("out")
    for rollout in group["rollouts"]:
        (sequence,) = rollout["sequences"]
        *shown, _ = sequence["messages"]
        text = "".join(map(chr, sequence["token_ids"]))
        assert text == rendered(shown) + reply_text(sequence["messages"][-1])
        sampled = "".join(chr(i) for i, mask in zip(sequence["token_ids"], sequence["token_mask"], strict=True) if mask)
        said = [m for m in sequence["messages"] if m["role"] == "assistant"]
        assert sampled == "".join(map(reply_text, said))
        assert [p is None for p in sequence["logprobs"]] == [not mask for mask in sequence["token_mask"]]
    card = Path("out/README.md").read_text("utf-8")
    assert "Tokens: exact, as the server sampled them, in 3 of 3 sequences." in card


def test_a_server_that_retokenizes_gives_a_sequence_a_turn_and_the_card_counts_them(
    command: Command, server: TokenServer
):
    server.retokenizes = True
    command(f"{RUN} --tokens auto")
    command("export --format groups -o out")
    (group,) = groups("out")
    assert [len(rollout["sequences"]) for rollout in group["rollouts"]] == [3, 3, 3]
    assert [sum(s["message_mask"]) for s in group["rollouts"][0]["sequences"]] == [1, 1, 1]
    card = Path("out/README.md").read_text("utf-8")
    assert "in 9 of 9 sequences. 6 turns are sequences of their own" in card
    command("export --format sft -o sft")
    assert len(Path("sft/train.jsonl").read_text("utf-8").splitlines()) == 1


def test_a_run_with_tokens_is_validated_replayed_and_rescored_as_any(command: Command):
    command(f"{RUN} --tokens auto")
    assert json.loads((only_run() / "run.json").read_text("utf-8"))["settings"]["tokens"] == "auto"
    assert command("validate last --json")
    assert json.loads(command("replay last --json"))["identical"] is True
    command("rescore last --free -q")
    with RunReader(only_run()) as reader:
        (query,) = reader.queries()
        assert all(r.sampled_tokens for r in reader.group(query).rollouts)


def test_resume_asks_for_the_tokens_of_what_is_missing_as_the_run_did(command: Command):
    command(f"{RUN} --tokens require")
    (records,) = (only_run() / "rollouts").glob("*.jsonl")
    kept = records.read_text("utf-8").splitlines(keepends=True)[:-1]
    records.write_text("".join(kept), "utf-8")
    command("resume last -q")
    with RunReader(only_run()) as reader:
        (query,) = reader.queries()
        assert [bool(r.sampled_tokens) for r in reader.group(query).rollouts] == [True] * 4
    assert "whole" in command("validate last")
    command("export last --format groups -o resumed")
    sequences = [s for rollout in groups("resumed")[0]["rollouts"] for s in rollout["sequences"]]
    assert all("token_ids" in sequence for sequence in sequences)
    for form in ("groups", "art", "atif"):
        command(f"export last --format {form} -o {form}1")
        made = json.loads(command(f"import {form}1 --runs-dir imported --json"))
        command(f"export {made['path']} --format {form} -o {form}2")
        assert (Path(f"{form}2") / "train.jsonl").read_bytes() == (Path(f"{form}1") / "train.jsonl").read_bytes()


def test_a_run_without_the_option_holds_no_word_of_tokens(command: Command):
    command(RUN)
    assert "tokens" not in json.loads((only_run() / "run.json").read_text("utf-8"))["settings"]
    assert "sampled_tokens" not in "".join(p.read_text("utf-8") for p in (only_run() / "rollouts").iterdir())
    command("export --format groups -o out")
    assert "token_ids" not in groups("out")[0]["rollouts"][0]["sequences"][0]


def test_a_blob_of_tokens_that_is_gone_is_damage(command: Command):
    command(f"{RUN} --tokens auto")
    (blobs,) = (only_run() / "blobs").iterdir()
    kept = [
        line for line in blobs.read_text("utf-8").splitlines(keepends=True) if '\\"kept\\":0,\\"prompt\\"' not in line
    ]
    blobs.write_text("".join(kept))
    command("validate last", 5)


def test_required_tokens_that_are_refused_end_the_command_with_2_and_leave_no_run(
    command: Command, server: TokenServer
):
    server.kind = "refusing"
    with pytest.raises(Refused, match="--tokens require: the server refuses") as refused:
        command(f"{RUN} --tokens require")
    assert refused.value.exit_code == 2
    assert not list(Path("runs").glob("2*"))
