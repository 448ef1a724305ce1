"""`stats --embeddings-model` asks how far answers differ in meaning, and counts what that costs."""

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.app import app
from harness.core.errors import UsageError
from tests.cli.conftest import outside_of_tests
from tests.cli.test_agent_file_and_instructions import Command, command
from tests.fake_endpoint import FakeEndpoint, Raw, Reaction, Refuse, Seen

__all__ = ["command"]


def embeddings(vectors: Callable[[int], list[float]]) -> Callable[[Seen], Reaction]:
    def reply(seen: Seen) -> Raw:
        assert seen.path == "/v1/embeddings"
        data = [{"object": "embedding", "index": i, "embedding": vectors(i)} for i in range(len(seen.body["input"]))]
        usage = {"prompt_tokens": 1000, "total_tokens": 1000}
        return Raw({"object": "list", "data": data, "model": "e", "usage": usage})

    return reply


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, user_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("embeddings")
    with outside_of_tests(folder, user_folder):
        line = "run --agent search --offline -n 3 -q"
        assert not app.main(line.split(), standalone_mode=False, obj=dict(os.environ))
    return folder / "runs"


@pytest.fixture
def run(command: Command, made: Path) -> Command:
    shutil.copytree(made, "runs")
    return command


def asked(run: Command, monkeypatch: pytest.MonkeyPatch, reply: Callable[[Seen], Reaction], more: str = "") -> str:
    with FakeEndpoint(agent=reply).serving() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        return run(f"stats last --embeddings-model e {more}")


def test_the_distance_is_the_mean_over_pairs_of_one_less_the_cosine(run: Command, monkeypatch: pytest.MonkeyPatch):
    turned = embeddings(lambda i: [2 * math.cos(i * math.pi / 2), 2 * math.sin(i * math.pi / 2)])
    (ranking,) = json.loads(asked(run, monkeypatch, turned, "--json"))["rankings"]
    assert ranking["embedded"]["distance"]["value"] == pytest.approx((1 + 1 + 2) / 3)
    assert (ranking["embedded"]["model"], ranking["embedded"]["tokens"]) == ("e", 1000)
    assert ranking["embedded"]["usd"] is None, "nobody knows its price at this address"
    assert "Distance of meanings" in asked(run, monkeypatch, turned)


def test_without_the_option_no_server_is_asked(run: Command, monkeypatch: pytest.MonkeyPatch):
    with FakeEndpoint().serving() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        assert "embedded" not in run("stats last --json")
    assert endpoint.requests == []


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (lambda _: Refuse(401, "who?"), "refused the key"),
        (lambda _: Refuse(404, "no such model"), "does not have the model 'e'"),
        (lambda _: Raw({"object": "list", "data": [], "model": "e"}), "gave no embeddings"),
        (embeddings(lambda _: [0.0, 0.0]), "one has no direction"),
        (embeddings(lambda i: [1.0] * (i + 1)), "gave no embeddings"),
    ],
)
def test_what_are_no_embeddings_is_said_in_a_line(
    run: Command, monkeypatch: pytest.MonkeyPatch, reply: Callable[[Seen], Reaction], complaint: str
):
    with pytest.raises(UsageError, match=complaint):
        asked(run, monkeypatch, reply)


@pytest.mark.parametrize(("more", "complaint"), [("", "no server to ask"), (" --curve", "not both")])
def test_what_cannot_be_asked_is_refused(run: Command, more: str, complaint: str):
    with pytest.raises(UsageError, match=complaint):
        run(f"stats last --embeddings-model e{more}")
