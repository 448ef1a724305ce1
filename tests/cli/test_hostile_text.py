"""No text from a stranger reaches the terminal as anything but text: every command, over archives full of it."""

import hashlib
import json
import re
import shlex
import zlib
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Say
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt
from tests.fuzz.commands import Values, argument_lists, commands, lines_reading

HOSTILE = (
    "\x1b]0;pwned\x07 \x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\ \x1b[2J\x1b[35;5m \x9b2J \x9d0;pwned\x9c"
    " \x07 \x08 \x0b \x0c \r \x7f \u202egpj.exe\u202c \u2066 \u2028 \u2029 \u200b \U000e0041"
    " [bold][link=http://evil.example]markup[/link] [/] :smile:"
)
TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "160"}
CHOICES = frozenset(
    "kind status role requested created_at at started_at answer_type tool_type winner topology estimator signal"
    " settings reward_from query run form api schema_version agent_word agent_file raw_calls raw_replies counter"
    " type agent_api secondary_fit capture".split()
)
"""Members with a meaning of their own: where they are something else, the record is damaged, and nothing is shown."""
OWN_STYLE = re.compile(r"\x1b\[[0-9;]*m")
BARS = re.compile(r"\x1b\[\?25[lh]|\r|\x1b\[2K|\x1b\[1A")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u2066-\u2069\U000e0041]")


def obeyed(text: str, *, terminal: bool) -> list[str]:
    """Return, with what stands around them, the characters that a terminal would obey or hide."""
    if terminal:
        assert "\x1b[35;5m" not in text
        text = BARS.sub("", OWN_STYLE.sub("", text))
    return [text[max(0, found.start() - 40) : found.end() + 10] for found in OBEYED.finditer(text)]


def faults(outcome: Outcome, *, terminal: bool) -> list[str]:
    """Return what a terminal would obey."""
    streams = (outcome.out.decode("utf-8", "surrogatepass"), outcome.err.decode("utf-8", "surrogatepass"))
    return [f"{' '.join(outcome.argv)}: {around!r}" for text in streams for around in obeyed(text, terminal=terminal)]


def rewrite(run: Path, change: Callable[[str, Any], Any]) -> None:
    """Change the members of every record of a run but its blobs, and make the checksums anew."""
    info = run / "run.json"
    info.write_text(json.dumps(change("", json.loads(info.read_text()))), "utf-8")
    for segment in run.glob("*/*.jsonl"):
        if segment.parent.name != "blobs":
            segment.write_bytes(b"".join(_lines(segment, change)))


def _lines(segment: Path, change: Callable[[str, Any], Any]) -> Iterator[bytes]:
    for line in segment.read_bytes().splitlines():
        record = json.loads(line)
        del record["crc"]
        rest = json.dumps(change("", record), ensure_ascii=False).encode()[1:]
        yield b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n"


def in_texts(name: str, value: Any) -> Any:
    """Append to every text that has no meaning of its own: answers, tool outputs, names, models, judges, errors."""
    if isinstance(value, dict):
        members = {key: member if key in CHOICES else in_texts(key, member) for key, member in value.items()}
        if members.get("rubric_text"):  # whose hash the label ends in
            members["rubric"] += f" {hashlib.sha256(members['rubric_text'].encode()).hexdigest()[:12]}"
        return members
    if isinstance(value, list):
        return [in_texts(name, member) for member in value]
    is_text = isinstance(value, str) and not re.fullmatch("[0-9a-f]{64}|[0-9a-f]{8}", value) and name != "id"
    return value + HOSTILE if is_text else value


def in_everything(name: str, value: Any) -> Any:
    """Append to every text, ids and the names of members included: nearly all of it is damage."""
    if isinstance(value, dict):
        plain = {"schema_version", "kind"}
        return {
            key if key in plain or len(key) % 2 else key + HOSTILE: in_everything(key, member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [in_everything(name, member) for member in value]
    return value + HOSTILE if isinstance(value, str) and name != "kind" else value


def in_ids(name: str, value: Any) -> Any:
    """Append to the ids of queries, wherever they stand, and to the name of the run."""
    if isinstance(value, dict):
        return {key: in_ids(key, member) for key, member in value.items()}
    if isinstance(value, list):
        return [in_ids(name, member) for member in value]
    query_id = isinstance(value, str) and re.fullmatch("q[0-9a-f]{10}", value)
    return value + HOSTILE if query_id or (name in {"id", "run"} and isinstance(value, str)) else value


def in_one_choice(name: str, value: Any) -> Any:
    """Append to the status of rollouts and the settings: messages of damage quote them."""
    if isinstance(value, dict):
        return {key: in_one_choice(key, member) for key, member in value.items()}
    return value + HOSTILE if name in {"status", "topology", "rubric", "judge", "order"} and value else value


@pytest.mark.nightly
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(in_texts, marks=pytest.mark.process),  # the rubric that the run holds is read in a child
        in_ids,
        in_one_choice,
        in_everything,
    ],
)
def test_no_command_prints_what_a_terminal_would_obey(
    change: Callable[[str, Any], Any], terminal: bool, tmp_path: Path
):
    room = Room.make(tmp_path / "room")
    run = room.add_run("offline-arena")
    rewrite(run, change)
    lines = [line for line in lines_reading(Values(run=str(run))) if line[0] not in {"run", "best"}]
    assert {line[0] for line in lines} >= {"show", "ls", "stats", "report", "validate", "replay", "resume", "rescore"}
    environ = room.environ(TERMINAL if terminal else {})
    seen = [fault for line in lines for fault in faults(attempt(line, room.work, environ), terminal=terminal)]
    assert not seen, "\n".join(seen[:20])


@pytest.mark.parametrize("archive", ["offline-ruler", "online-jury", "online-resumed", "online-verified"])
def test_no_kind_of_archive_is_shown_as_anything_but_text(archive: str, tmp_path: Path):
    room = Room.make(tmp_path / "room")
    run = room.add_run(archive)
    rewrite(run, in_texts)
    lines = [("show", str(run), *more) for more in ((), ("-r", "1"), ("--matches",), ("-m", "1"), ("--json",))]
    lines += [("stats", str(run)), ("ls",), ("ls", "--json")]
    assert attempt(lines[0], room.work, room.environ()).code == 0, "the archive is not damaged"
    for line, terminal in product(lines, (False, True)):
        outcome = attempt(line, room.work, room.environ(TERMINAL if terminal else {}))
        assert not faults(outcome, terminal=terminal)
        if outcome.code == 0 and line[-1] != "--json":
            # A table may cut what comes after.
            assert "<U+001B>]0;pwned" in outcome.out_text or "pwned" not in outcome.out_text


def test_the_json_of_hostile_texts_is_read_back_as_it_was(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    run = room.add_run("offline-arena")
    rewrite(run, in_texts)
    outcome = attempt(("show", str(run), "-r", "1", "--json"), room.work, room.environ())
    assert json.loads(outcome.out)["trajectory"]["answer"].endswith(HOSTILE)


@pytest.mark.nightly
@pytest.mark.process  # a rubric of the user's own is read in a child
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_names_of_folders_and_files_are_shown_as_text(terminal: bool, tmp_path: Path):
    name = HOSTILE.replace("/", "")
    room = Room.make(tmp_path / "room")
    room.add_run("offline-arena", name=name)
    agents = room.work / "agents_config"
    agents.mkdir()
    (agents / f"{name}.py").write_text(f"raise ValueError({HOSTILE!r})")
    (room.work / "table.json").write_text(json.dumps({"n": 2, "scores": {HOSTILE: [1, 2]}}))
    (room.work / "mine.md").write_text(f"---\nname: {json.dumps(HOSTILE)}\n{name}: 1\n---\n{HOSTILE}\n{{{{ x", "utf-8")
    chat = {"messages": [{"role": "user", "content": HOSTILE}, {"role": HOSTILE, "content": HOSTILE}], "id": HOSTILE}
    (room.work / "chats.jsonl").write_text(json.dumps(chat))
    named = {"table": "table.json", "files": "chats.jsonl", "file": "mine.md", "name": "mine.md", "query": HOSTILE}
    lines = [
        line
        for command in commands()
        for line in argument_lists(command, Values(run=name, by_name=named))
        if not command.rolls_out
    ]
    lines += [(*command.words, HOSTILE) for command in commands() if not command.rolls_out]
    lines += [(*command.words, f"--{HOSTILE}") for command in commands()]
    options = {
        option.name: (*command.words, option.opts[0], HOSTILE) for command in commands() for option in command.valued
    }
    lines += options.values()
    environ = room.environ({**(TERMINAL if terminal else {}), f"HARNESS_MODEL{HOSTILE.replace('=', '')}": "x"})
    seen = [fault for line in lines for fault in faults(attempt(line, room.work, environ), terminal=terminal)]
    assert not seen, "\n".join(seen[:20])


@pytest.mark.few(1)
@pytest.mark.parametrize("environ", [{}, TERMINAL], ids=["pipe", "terminal"])
@pytest.mark.parametrize("error", [None, 401, 404, 400, 429, 500])
def test_what_an_endpoint_says_is_shown_as_text(harness: Harness, error: int | None, environ: dict[str, str]):
    def agent(_: object) -> Say | Refuse:
        return Say(HOSTILE, reasoning=HOSTILE) if error is None else Refuse(error, HOSTILE, code="insufficient_quota")

    def judge(_: object) -> Say | Refuse:
        return Say(HOSTILE)

    with FakeEndpoint(agent, judge).serving() as endpoint:
        endpoint.models = [HOSTILE]
        env = {"OPENAI_BASE_URL": endpoint.base_url, "HARNESS_RETRIES": "0", **environ}
        for line in (("run", "Why?", "--model", "m"), ("best", "Why?", "--model", "m"), ("doctor", "--live")):
            done = harness(*line, *(("-n", "2", "-v") if line[0] != "doctor" else ()), env=env)
            for text in (done.out, done.err):
                assert not obeyed(text, terminal=bool(environ))


def test_a_command_to_type_holds_the_name_of_a_run_as_one_word(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    name = "x; touch pwned; $(touch pwned)"
    run = room.add_run("offline-arena", name=name)
    (run / "blobs" / "bad.jsonl").write_text("no record\nno record\n")
    outcome = attempt(("validate", f"runs/{name}"), room.work, room.environ())
    assert outcome.code == 5
    assert f"`harness validate {shlex.quote(f'runs/{name}')} --repair`" in outcome.out_text
