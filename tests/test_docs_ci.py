"""docs/ci.md and action.yml work as they stand: every shell block is run, against a served endpoint."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge

pytestmark = pytest.mark.process

PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")
WORKFLOW, USE, GITLAB = (yaml.load(text, yaml.BaseLoader) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
ACTION = yaml.load((ROOT / "action.yml").read_text("utf-8"), yaml.BaseLoader)
PUSHED = {"github.event_name": "push"}
POET = "from agents import Agent\n\nagent = Agent(name='poet', instructions='{}')\n"
QUERIES = "".join(f'{{"id": "q{n}", "query": "Write verse number {n}."}}\n' for n in range(20))


def answers(seen: Seen) -> Say:
    """Answer as well as the instructions ask for; each answer is another."""
    kind = "Fine" if "well" in seen.system else "Poor" if "badly" in seen.system else "Plain"
    return Say(f"{kind} verse {len(str(seen.body))}")


def marks(answer: str) -> int:
    return {"Fine": 8, "Plain": 5, "Poor": 2}[answer.split(maxsplit=1)[0]]


@dataclass(frozen=True)
class Runner:
    """A machine of a CI server: a checkout, a `harness`, and a `pip` that notes what it is asked for."""

    folder: Path
    endpoint: FakeEndpoint

    def shell(self, block: str, env: Mapping[str, str]) -> int:
        """Run a shell block as both servers do: it ends with the first command that fails."""
        plain = {
            "PATH": f"{self.folder.parent / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "OPENAI_BASE_URL": self.endpoint.base_url,
            "OPENAI_API_KEY": "sk-of-a-test",
            "HARNESS_MODEL": "gpt-5",
            **{name: value for name, value in os.environ.items() if name.startswith("XDG_")},
        }
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", block], check=False, cwd=self.folder, env={**plain, **env}
        ).returncode

    def steps(self, steps: Sequence[Mapping[str, Any]], env: Mapping[str, str], values: Mapping[str, str]) -> list[int]:
        """Run the shell blocks of those steps of a job that apply; `values` are what GitHub's expressions stand for."""
        return [
            self.shell(step["run"], {**env, **filled(step.get("env", {}), values)})
            for step in steps
            if "run" in step and applies(step.get("if", "true"), values)
        ]


def filled(env: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    def value(match: re.Match[str]) -> str:
        chosen = re.fullmatch(r"(.+) && '(.*)' \|\| '(.*)'", match[1])
        if chosen:
            return chosen[2] if applies(chosen[1], values) else chosen[3]
        return values[match[1]]

    return {name: re.sub(r"\$\{\{ (.*?) \}\}", value, text) for name, text in env.items()}


def applies(condition: str, values: Mapping[str, str]) -> bool:
    parts = [part for part in condition.split(" && ") if part not in {"true", "always()"}]
    pairs = [re.fullmatch(r"(\S+) == '(.*)'", part) for part in parts]
    return all(pair and values[pair[1]] == pair[2] for pair in pairs)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    checkout, tools = tmp_path / "checkout", tmp_path / "bin"
    checkout.mkdir()
    tools.mkdir()
    for name, line in (
        ("harness", f'exec {sys.executable} -m harness "$@"'),
        ("python3", f'exec {sys.executable} "$@"'),
        ("pip", 'echo "$@" >> ../pip.txt'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    (checkout / "queries.jsonl").write_text(QUERIES)
    with FakeEndpoint(agent=answers, judge=fair_judge(marks)).serving() as endpoint:
        yield Runner(checkout, endpoint)


def change(runner: Runner, instructions: str) -> None:
    (runner.folder / "poet.py").write_text(POET.format(instructions))


def job(runner: Runner, event: str) -> list[int]:
    values = {"github.event_name": event, "secrets.OPENAI_API_KEY": "sk-of-a-test", "github.sha": "0"}
    summary = {"GITHUB_STEP_SUMMARY": str(runner.folder.parent / "summary.md")}
    steps = WORKFLOW["jobs"]["gate"]["steps"]
    return runner.steps(steps, {**filled(WORKFLOW["env"], values), **summary}, values)


@pytest.mark.nightly
def test_every_shell_block_works_and_the_gate_lets_a_better_agent_pass_and_holds_a_worse_one_up(runner: Runner):
    change(runner, "Write.")
    assert job(runner, "push") == [0, 0]
    change(runner, "Write well.")
    assert job(runner, "pull_request") == [0, 0, 0]
    summary = (runner.folder.parent / "summary.md").read_text("utf-8")
    assert summary.startswith("### Passed: B is not worse than A")
    assert (runner.folder / "gate.xml").is_file()
    assert list(runner.folder.glob("candidate/*-compare-*/report.html")), "what the job uploads is there"
    assert "arena-harness" in (runner.folder.parent / "pip.txt").read_text("utf-8")
    asked = len(runner.endpoint.requests)
    (shell,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert runner.shell(shell, {}) == 0
    assert len(runner.endpoint.requests) == asked, "the comparison is there: nothing is bought"
    assert (runner.folder / "gate.md").read_text("utf-8") == summary

    change(runner, "Write badly.")
    gitlab = GITLAB["gate"]
    assert runner.shell("\n".join(gitlab["script"]), gitlab["variables"]) == 1
    assert "### Failed: B is worse than A" in (runner.folder / "gate.md").read_text("utf-8")
    inputs = {name: spec.get("default") for name, spec in ACTION["inputs"].items()} | USE[0]["with"]
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    outputs = runner.folder.parent / "outputs.txt"
    env = {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(outputs)}
    assert runner.steps(ACTION["runs"]["steps"], env, values | PUSHED) == [0, 0, 1]
    assert outputs.read_text("utf-8").startswith("exit-code=1\nverdict=worse\nrate=0.0\ninterval=[0.0, ")


@pytest.mark.parametrize(
    ("printed", "code", "outputs"),
    [
        (
            '{"finding": "not worse", "looks": [{}, {"win_rate": 0.56, "interval": [0.45, 0.68]}]}',
            0,
            ["not worse", "0.56"],
        ),
        ('{"finding": null, "stopped": "judge failed"}', 6, ["judge failed", ""]),
        ("", 2, ["refused", ""]),
    ],
)
def test_the_action_says_verdict_rate_and_interval_and_hands_its_inputs_on(
    runner: Runner, printed: str, code: int, outputs: list[str]
):
    tool = runner.folder.parent / "bin" / "harness"
    tool.write_text(
        "#!/bin/sh\necho $OPENAI_BASE_URL $@ >> ../asked.txt\n[ $1 = run ] && exit 0\n"
        f"printf '%s' '{printed}'\nexit {code}\n"
    )
    inputs = {name: spec.get("default") for name, spec in ACTION["inputs"].items()} | USE[0]["with"]
    inputs |= {"model": "gpt-5", "base-url": "http://localhost/v1", "n": "4"}
    told = runner.folder.parent / "outputs.txt"
    env = {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(told)}
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    assert runner.steps(ACTION["runs"]["steps"], env, values | PUSHED) == [0, 0, code]
    said = dict(line.split("=", 1) for line in told.read_text("utf-8").splitlines())
    assert said.keys() == ACTION["outputs"].keys()
    assert [said["exit-code"], said["verdict"], said["rate"]] == [str(code), *outputs]
    assert said["interval"] == ("[0.45, 0.68]" if code == 0 else "")
    run, gate = (runner.folder.parent / "asked.txt").read_text("utf-8").splitlines()
    assert run == "http://localhost/v1 run --agent poet.py --queries queries.jsonl --model gpt-5 -n 4 --topology none"
    assert gate.startswith("http://localhost/v1 gate ")


@dataclass
class GitHub:
    """GitHub as far as comments need it: strangers wrote 100 on each of two pull requests, one as ours begin."""

    comments: dict[int, dict[str, Any]]
    status: int = 200

    def reply(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and content of a reply."""
        if self.status != 200 or path == "/user":
            return self.status if self.status != 200 else 403, {}
        if method == "GET":
            page = int(path.rpartition("=")[2])
            return 200, list(self.comments.values())[100 * (page - 1) : 100 * page]
        number = int(path.rpartition("/")[2]) if method == "PATCH" else len(self.comments)
        self.comments[number] = {"id": number, "user": {"login": "github-actions[bot]"}, **body}
        return 200, {}

    @contextmanager
    def serving(self) -> Generator[str]:
        """Yield the address at which it answers."""
        github = self

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                assert self.headers["Authorization"] == "Bearer of-the-job"
                status, content = github.reply(self.command, self.path, json.loads(self.rfile.read(length) or "null"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            do_GET = do_POST = do_PATCH = do  # noqa: N815 - as http.server names them

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}"
            server.shutdown()


def test_each_push_brings_the_one_comment_up_to_date_and_no_strangers(runner: Runner):
    stranger = {"user": {"login": "somebody"}, "body": "<!-- arena-harness gate -->\n### Passed"}
    github = GitHub({number: {"id": number, **stranger} for number in range(100)})
    (step,) = (s for s in ACTION["runs"]["steps"] if "comment.py" in s.get("run", ""))
    values = {"inputs.token": "of-the-job", "github.event.pull_request.number": "7"}
    values |= {"github.event_name": "pull_request"}
    with github.serving() as address:
        env = {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_API_URL": address, "GITHUB_REPOSITORY": "me/agents"}
        for verdict in ("Failed", "Passed"):
            (runner.folder / "gate.md").write_text(f"### {verdict}: é\n")
            assert runner.steps([step], env, values) == [0]
            assert github.comments[100]["body"] == f"<!-- arena-harness gate -->\n### {verdict}: é\n"
        assert len(github.comments) == 101
        assert all(github.comments[number]["body"] == stranger["body"] for number in range(100))
        assert runner.steps([step], env, values | {"inputs.token": ""}) == [0]
        github.status = 403
        command = [sys.executable, str(ROOT / "action" / "comment.py"), "gate.md", "7"]
        env |= {"GITHUB_TOKEN": "of-the-job"}
        refused = subprocess.run(command, check=False, cwd=runner.folder, env=env, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "pull-requests: write" in refused.stderr


def test_the_workflows_are_short():
    workflow, _, gitlab = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(workflow.splitlines()) < 40
    assert len(gitlab.splitlines()) <= 10
