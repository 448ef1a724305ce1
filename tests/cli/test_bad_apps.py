"""An app that cannot be run as it stands is refused by every command before anything is spent: name, value, remedy."""

import os
import re
from pathlib import Path

import pytest

from harness.cli.app import app
from harness.core.errors import UsageError
from tests.fake_endpoint import FakeEndpoint

TOP = "from agents import Agent, OpenAIProvider, RunConfig, SQLiteSession\nagent = Agent(name='a')\n"
FRESH = r"; give a function session\(query\) that makes a new one each time"
ANSWERS = r"; answer in `async def answer\(query\) -> str`, or build an agent in `def build\(env\)`$"
NO_ASYNC = rf"^function 'f' is no `async def` that returns its answer{ANSWERS}"
MORE = rf"^function 'f' needs more than the query, .* by place{ANSWERS}"
BOTH_NAME = (
    r"^--base-url http://127\.0\.0\.1:\d+/v1: the agent's run_config has a model_provider of its own \(OpenAIProvider\)"
    r", and both say which server is asked; leave out one of the two$"
)
BAD = {
    "session = SQLiteSession('me')": rf"^-n 2: the 2 rollouts of a query would share the session .* 'bad'{FRESH}",
    "s = SQLiteSession('me')\ndef session(query): return s": rf"^-n 2: session\(query\) .* \(one object\),.*{FRESH}",
    "def session(): return SQLiteSession('me', 'chat.db')": rf"^-n 2: .*session_id 'me' in chat\.db.*{FRESH}.* uuid",
    "def session(query): return {}": r"^session of agent 'bad' gives a dict; it must give an openai-agents Session$",
    "run_config = RunConfig(model_provider=OpenAIProvider(base_url='http://x/v1', api_key='k'))": BOTH_NAME,
    "def run_config(): return RunConfig(model_provider=OpenAIProvider(api_key='k'))": BOTH_NAME,
    "def f(query): return 'x'": NO_ASYNC,
    "def f(anything) -> str: return 'x'": NO_ASYNC,
    "async def f(query): yield 'x'": NO_ASYNC,
    "async def f() -> str: return 'x'": rf"^function 'f' takes no query{ANSWERS}",
    "async def f(query, user): return 'x'": MORE,
    "async def f(*, query): return 'x'": MORE,
    "async def f(thing): return 'x'": r"^f\(thing\): cannot tell what it is; write `async def f\(query\) -> str`",
    "async def f(env): return 'x'": r"bad\.py: f gave a str, not an openai-agents Agent; return one, or .* in `async",
    "class f: pass": r"bad\.py: f gave a f, not an openai-agents Agent; return one, or",
    "f = 3": r"bad\.py: 'f' is a int, not an openai-agents Agent or a function that builds one$",
}
COMMANDS = ("run --agent {} Hi -n 2 -q", "run --agent {} Hi -n 2 -q --dry-run", "best --agent {} Hi -n 2 -q")


@pytest.mark.parametrize("line", BAD)
def test_every_command_refuses_what_cannot_be_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
):
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(f"{TOP}{line}\n")
    named = "bad.py:f" if re.search(r"\bf\b", line) else "bad.py"
    for command in COMMANDS:
        argv = [*command.format(named).split(), "--model", "m", "--base-url", endpoint.base_url]
        with pytest.raises(UsageError, match=BAD[line]) as refused:
            app.main(argv, standalone_mode=False, obj=dict(os.environ))
        assert refused.value.exit_code == 2
    assert not endpoint.requests
    assert not list(Path().glob("runs/*/run.json"))


AN_AGENT = r"^QUERY 'poet' is the name of an agent: .* {0} --agent poet \"...\" runs it; .*{0} --agent search poet"
ASKED = {
    "run poet": AN_AGENT.format("run"),
    "best poet": AN_AGENT.format("best"),
    "run Hi --agent poet --approve nope": r"^--approve nope: .*'poet' has no tool of this .*\(its tools: 'rhymes'\)$",
    "run Hi --agent poet --approve rhyme": r"^--approve rhyme: .*; did you mean 'rhymes'\?$",
    "run q.txt --agent poet": r"^QUERY 'q\.txt' is a file: .* run --agent poet --queries q\.txt asks what is in a file",
    "run q.txt --agent poet.py": r"^QUERY 'q\.txt' is a file: .* run --agent poet\.py --queries q\.txt asks",
    "run sub/poet.jsonl": r"^QUERY 'sub/poet\.jsonl' names a file that is not there: ",
    "run poet.py": r"^QUERY 'poet\.py' is the name of an agent's file: .* run --agent poet\.py \"\.\.\.\" runs it$",
    "best sub/poet.py:own": r"^QUERY .* is the name of an agent's file: .* best --agent sub/poet\.py:own \"",
    "run poet.py --agent poet": r"^QUERY 'poet\.py' is a file: .* run --agent poet --queries poet\.py asks what is in",
    "best Hi --agent triage --approve x": r"^--approve x: .*\(its tools: .*\)$",
}


@pytest.mark.parametrize("line", ASKED)
def test_a_word_that_names_what_it_cannot_mean_is_refused(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
):
    monkeypatch.chdir(tmp_path)
    Path("agents_config").mkdir()
    Path("q.txt").write_text("Why?")
    Path("poet.py").write_text("from agents_config.poet import agent")
    Path("agents_config/poet.py").write_text(
        "from agents import Agent, function_tool\n@function_tool\ndef rhymes(word: str) -> str:\n    return word\n"
        "agent = Agent(name='poet', tools=[rhymes])\n"
    )
    argv = [*line.split(), "-n", "2", "-q", "--model", "m", "--base-url", endpoint.base_url]
    with pytest.raises(UsageError, match=ASKED[line]):
        app.main(argv, standalone_mode=False, obj=dict(os.environ))
    assert not endpoint.requests
    text = ["run", "poet", "--agent", "poet", "--approve", "rhymes", "--dry-run", *argv[-4:]]
    app.main(text, standalone_mode=False, obj=dict(os.environ))
