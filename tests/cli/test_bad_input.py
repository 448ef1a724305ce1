"""Bad input ends in one clear line, exit 2, no traceback, and no half-written run."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.conftest import Done, Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Seen
from tests.nursery import Nursery


def complaint(done: Done) -> str:
    """Return the one line of a refusal."""
    assert done.code == 2, (done.code, done.out, done.err)
    assert "Traceback" not in done.err
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.err
    assert done.out == ""
    return errors[0]


def unspent(folder: Path) -> bool:
    """Tell whether there is no run, whole or half."""
    runs = folder / "runs"
    return not runs.exists() or not list(runs.iterdir())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--agent", "serch"), ["'serch'", "did you mean 'search'? Known: "]),
        (("--agent", "nowhere.py:agent"), ["nowhere.py"]),
        (("--agent", "no.such.module:agent"), ["no.such.module"]),
        (("-n", "0"), ["-n '0'", "greater than or equal to 1"]),
        (("--temperature", "3"), ["--temperature", "less than or equal to 2"]),
        (("--temperature", "nan"), ["--temperature", "nan"]),
        (("",), ["query is empty"]),
        (("  \n",), ["query is empty"]),
        (("--order", "sideways"), ["--order", "sideways"]),
        (("--rubric", "writting"), ["'writting'", "did you mean 'writing'"]),
        (("--rubric", "gone.md"), ["gone.md"]),
        (("--base-url", "localhost:8000"), ["--base-url", "localhost:8000"]),
        (("--queries", "gone.jsonl"), ["gone.jsonl"]),
        (("--config", "gone.yaml"), ["gone.yaml"]),
        (("--corpus", "gone"), ["--corpus gone"]),
    ],
)
def test_one_line_names_what_is_wrong_and_which_value(harness: Harness, tmp_path: Path, args: tuple, said: list[str]):
    line = complaint(harness("run", *args))
    for part in said:
        assert part.replace("'0'", "0") in line
    assert unspent(tmp_path)


@pytest.mark.parametrize(
    ("source", "attr", "said"),
    [
        ("agent = 5", "", ["agent", "int"]),
        ("x = 1", "", ["`agent` or `build`"]),
        ("from agents import Agent\nhelper = Agent(name='h')", "helpr", ["'helpr'", "did you mean 'helper'"]),
        ("import os\n\nraise KeyError('MY_TOKEN')", "", ["KeyError", "MY_TOKEN", "mine.py, line 3"]),
        ("def build():\n    return 'no agent'", "", ["mine.py", "str"]),
        ("def build():\n    return 1 / 0", "", ["ZeroDivisionError", "line 2"]),
        (
            (
                "from agents import Agent\nfrom contextlib import asynccontextmanager\n\n@asynccontextmanager\n"
                "async def build():\n    raise FileNotFoundError('no-such-command')\n    yield Agent(name='x')"
            ),
            "",
            ["FileNotFoundError", "no-such-command", "line 6"],
        ),
        ("import nothing_like_it", "", ["nothing_like_it", "line 1"]),
        ("def broken(:", "", ["SyntaxError", "mine.py, line 1)"]),
    ],
)
def test_an_agents_file_that_cannot_be_used_is_named_with_its_line(
    harness: Harness, tmp_path: Path, source: str, attr: str, said: list[str]
):
    (tmp_path / "mine.py").write_text(source)
    word = f"mine.py:{attr}" if attr else "mine.py"
    line = complaint(harness("run", "Why?", "--agent", word, env={"OPENAI_API_KEY": "sk-x"}))
    for part in said:
        assert part in line
    assert unspent(tmp_path)


def test_an_own_agent_without_key_or_model_is_told_its_choices(harness: Harness, tmp_path: Path):
    (tmp_path / "mine.py").write_text("from agents import Agent\nagent = Agent(name='mine')")
    line = complaint(harness("run", "Why?", "--agent", "mine.py:agent"))
    for choice in ("OPENAI_API_KEY", "--base-url", "--offline"):
        assert choice in line
    assert unspent(tmp_path)
    assert harness("run", "Why?", "--agent", "mine.py:agent", "--offline", "-n", "2").code == 0


def test_an_agent_without_examples_asks_for_a_query(harness: Harness, tmp_path: Path):
    (tmp_path / "mine.py").write_text("from agents import Agent\nagent = Agent(name='mine')")
    assert "no EXAMPLES" in complaint(harness("run", "--agent", "mine.py:agent", "--offline"))


@pytest.mark.parametrize(
    ("at", "said"), [("", "and most addresses end in /v1"), ("/v1", "/v1/chat/completions was asked")]
)
def test_an_address_without_its_path_is_named(harness: Harness, tmp_path: Path, at: str, said: str):
    with FakeEndpoint(agent=lambda _: Refuse(404, "page not found")).serving() as endpoint:
        address = endpoint.base_url.removesuffix("/v1") + at
        line = complaint(harness("run", "Why?", "--model", "m", "--base-url", address))
    assert line.endswith(said)
    assert unspent(tmp_path)


def test_a_key_that_was_sent_is_refused_as_such(harness: Harness):
    with FakeEndpoint(agent=lambda _: Refuse(401, "bad key")).serving() as endpoint:
        line = complaint(harness("run", "Why?", "--base-url", endpoint.base_url, env={"OPENAI_API_KEY": "sk-x"}))
    assert f"{endpoint.host} refused the key (401: bad key); set OPENAI_API_KEY to one it accepts" in line
    assert ".env" not in line


def test_an_unreachable_endpoint_is_named(harness: Harness, tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = complaint(harness("run", "Why?", "--model", "m", env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}))
    assert f"cannot reach 127.0.0.1:{port}" in line
    assert "is the server up? " in line
    assert "up, and does it speak https? " in complaint(
        harness("run", "Why?", "--base-url", f"https://127.0.0.1:{port}")
    )
    assert unspent(tmp_path)


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            Refuse(401, "Incorrect API key provided"),
            ["asks for the key", "OPENAI_API_KEY", "Incorrect API key", "(none was sent; "],
        ),
        (
            Refuse(404, "The model `m` does not exist", "model_not_found"),
            ["'m'", "name one it serves with --model"],
        ),
        (Refuse(400, "Invalid 'messages'", "invalid_value", "messages"), ["400", "Invalid 'messages'"]),
    ],
)
def test_a_refused_first_call_costs_one_call_and_leaves_no_run(
    harness: Harness, tmp_path: Path, refusal: Refuse, said: list[str]
):
    with FakeEndpoint(agent=lambda _: refusal).serving() as endpoint:
        line = complaint(harness("run", "Why?", "--model", "m", env={"OPENAI_BASE_URL": endpoint.base_url}))
    for part in said:
        assert part in line
    assert len(endpoint.requests) == 1
    assert unspent(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("refusal", "said"),
    [(Refuse(401, "bad key"), "HARNESS_JUDGE_API_KEY"), (Refuse(404, "no such model"), "--judge-model")],
)
def test_a_refused_judge_costs_one_call_and_the_rollouts_are_kept_to_be_ranked_later(
    harness: Harness, refusal: Refuse, said: str
):
    with FakeEndpoint(judge=lambda _: refusal).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        line = complaint(harness("run", "Why?", "--model", "m", "-n", "4", env=env))
        assert said in line
        assert "harness rescore" in line
        assert len(endpoint.of_judge) == 1
        rescored = harness("rescore", "--judge-model", "offline-features", "--json", env=env)
    assert rescored.code == 0, rescored.err
    assert sorted(r["rank"] is not None for r in rescored.json["groups"][0]["rollouts"]) == [True] * 4


def test_an_empty_purse_ends_in_exit_4(harness: Harness):
    refusal = Refuse(429, "You exceeded your current quota", "insufficient_quota")
    with FakeEndpoint(agent=lambda _: refusal).serving() as endpoint:
        done = harness("run", "Why?", "--model", "m", "-n", "2", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert done.code == 4, done.err
    assert "quota" in done.err
    assert "Traceback" not in done.err


def test_tracing_switched_off_is_an_error_with_the_fix_named(harness: Harness, tmp_path: Path):
    line = complaint(harness("run", env={"OPENAI_AGENTS_DISABLE_TRACING": "1"}))
    assert "unset OPENAI_AGENTS_DISABLE_TRACING" in line
    assert unspent(tmp_path)


@pytest.mark.parametrize("command", ["show", "rescore", "report"])
def test_a_run_that_is_not_there_is_refused(harness: Harness, command: str):
    assert "no run" in complaint(harness(command, "last"))
    assert "'2020'" in complaint(harness(command, "2020"))


def rollouts_written(folder: Path) -> int:
    """Count them: the judge is asked while the last one is still under way."""
    files = folder.glob("runs/*/rollouts/*.jsonl")
    return sum(len(file.read_text().splitlines()) - 1 for file in files)  # the first line is a header


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("sent", "code", "background"),
    [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, False), (signal.SIGTERM, 143, True)],
)
def test_an_interrupted_run_keeps_what_was_paid_for_and_can_be_ranked(
    harness: Harness, nursery: Nursery, tmp_path: Path, sent: signal.Signals, code: int, background: bool
):
    reached: list[Seen] = []

    def judge(seen: Seen) -> Refuse:
        reached.append(seen)
        return Refuse(503, "busy", headers={"retry-after": "30"})

    with FakeEndpoint(judge=judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        line = "run Why? --model m -n 3 -q --grace 0.5".split()
        born = nursery.start(line, tmp_path, env, background=background)
        while not (reached and rollouts_written(tmp_path) == 3):
            time.sleep(0.02)
        os.kill(born.pid, sent)
        done = nursery.wait(born, timeout_s=30)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    assert "harness resume" in done.err
    assert done.out == ""
    ranked = harness("rescore", "--judge-model", "offline-features", "--json")
    assert ranked.code == 0, ranked.err
    assert len(ranked.json["groups"][0]["rollouts"]) == 3


@pytest.mark.parametrize("key", ["sk-very\nsecret-1234", "\u201csk-very-secret-1234\u201d", "sk very secret 1234"])
def test_a_key_that_no_header_can_carry_is_refused_and_never_shown(harness: Harness, tmp_path: Path, key: str):
    line = complaint(harness("run", "Why?", "--model", "m", env={"OPENAI_API_KEY": key}))
    assert "OPENAI_API_KEY holds a character" in line
    assert "secret" not in line
    assert unspent(tmp_path)


def test_a_line_break_at_the_end_of_a_key_is_let_go(harness: Harness):
    with FakeEndpoint().serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-fine\n"}
        assert harness("run", "Why?", "--model", "m", "-n", "2", env=env).code == 0
    assert {r.key for r in endpoint.requests} == {"sk-fine"}


def test_a_key_that_an_endpoint_quotes_in_its_refusal_is_not_passed_on(harness: Harness):
    refusal = Refuse(401, "Incorrect API key provided: sk-very-secret-1234. Find yours at the usual place.")
    with FakeEndpoint(agent=lambda _: refusal).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-very-secret-1234"}
        line = complaint(harness("run", "Why?", "--model", "m", env=env))
    assert "Incorrect API key provided: [key]" in line
    assert "secret" not in line
