"""A gateway as a command: its address, its end, and what a kill leaves."""

import os
import re
import signal
import time
from pathlib import Path

import httpx2
import pytest

from harness.archive.run_info import list_runs
from harness.pipeline.validation import validate_folder
from tests.builders import AT
from tests.fake_endpoint import FakeEndpoint, Say
from tests.gateway.serving import CHAT, rollouts_in
from tests.nursery import Born, Nursery
from tests.token_server import TokenServer

pytestmark = pytest.mark.process


def test_a_killed_gateway_keeps_what_was_closed_and_goes_on(nursery: Nursery, tmp_path: Path):
    endpoint = FakeEndpoint(TokenServer(lambda _: Say("Yes.")))
    words = ("gateway", "--upstream", endpoint.base_url, "--port", "0")
    with endpoint.serving(), httpx2.Client(timeout=30) as http:
        first = nursery.start(words, tmp_path, {"OPENAI_API_KEY": "k"})
        url = address(first)
        for name in ("closed", "open"):
            http.post(f"{url}/s/{name}/v1/chat/completions", json=dict(CHAT))
        kept = http.post(f"{url}/s/closed/close", json={"answer": "Yes.", "query": "Why?"}).json()
        os.kill(first.pid, signal.SIGKILL)
        nursery.wait(first)
        (folder,) = list_runs(tmp_path / "runs")
        assert [r.origin_id for r in rollouts_in(folder)] == ["closed"]
        assert not [f for f in validate_folder(folder, lambda: AT).findings if f.kind == "damage"]
        second = nursery.start((*words, "last"), tmp_path, {"OPENAI_API_KEY": "k"})
        url = address(second)
        again = http.post(f"{url}/s/closed/close", json={"answer": "No.", "query": "Why?"})
        http.post(f"{url}/s/open/v1/chat/completions", json=dict(CHAT))
        assert again.status_code == 409
        os.kill(second.pid, signal.SIGINT)
        ended = nursery.wait(second)
    assert ended.code == 0, ended.err
    assert "0 rollouts, and 1 session without an answer" in ended.out
    assert f"harness rescore {folder.name} --judge-model MODEL" in ended.out
    assert ended.err.startswith(f"run runs/{folder.name}\n"), "whoever looks into the run meanwhile needs its name"
    statuses = {r.origin_id: (r.index, r.status) for r in rollouts_in(folder)}
    assert statuses == {"closed": (kept["index"], "ok"), "open": (1, "failed")}


def test_a_gateway_that_nobody_called_leaves_no_run(nursery: Nursery, tmp_path: Path):
    command = nursery.start(("gateway", "--upstream", "http://127.0.0.1:9/v1", "--port", "0"), tmp_path)
    address(command)
    (folder,) = list_runs(tmp_path / "runs")
    os.kill(command.pid, signal.SIGINT)
    ended = nursery.wait(command)
    assert (ended.code, ended.out.splitlines()[1:]) == (0, ["no session was begun: no run is kept"])
    assert folder.name in ended.err
    assert not (tmp_path / "runs").exists()


def address(command: Born) -> str:
    """Return the address that the command prints."""
    until, found = time.monotonic() + 60, None
    while found is None:
        assert time.monotonic() < until, command.err.read_text()
        time.sleep(0.02)
        if command.out.exists():
            found = re.match(r"(http://127\.0\.0\.1:[0-9]+)/s/SESSION/v1\n", command.out.read_text())
    return found[1]
