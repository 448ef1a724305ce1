"""Input of any shape ends in one line that quotes at most 200 characters of it, exit code 2, and no half-made run."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.core.errors import on_a_line, quoted, short_message
from harness.core.settings import SETTINGS
from harness.core.settings_sources import load
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt

LONG = "x" * 120_000
RUN = ("run", "--offline", "-n", "2", "--topology", "none", "-q")
DIGITS = "9" * 50_000


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room.make(tmp_path / "room")


def ended(room: Room, *line: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None) -> Outcome:
    outcome = attempt(line, room.work, room.environ(environ), stdin)
    assert outcome.faults() == []
    return outcome


def refusal(room: Room, *line: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None) -> str:
    """Return the one line of a refusal, which comes before anything is written."""
    outcome = ended(room, *line, stdin=stdin, environ=environ)
    assert (outcome.code, outcome.out) == (2, b"")
    (error,) = outcome.errors
    assert not room.runs.exists() or not list(room.runs.iterdir())
    return error


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def bomb(reference: str) -> list[str]:
    """Return lines of nine references each to the line before."""
    return [reference.format(at=at, all=", ".join([f"*a{at - 1}"] * 9)) for at in range(1, 12)]


# ---- The command line


@pytest.mark.parametrize(
    "line",
    [
        ("run", "Why?", "--agent", LONG),
        ("run", "Why?", "--agent", LONG + ".py"),
        ("run", "Why?", "--agent", "x/" * 3000 + "a.py:agent"),
        ("run", "Why?", "--offline", "--rubric", LONG),
        ("run", "Why?", "--offline", "--order", LONG),
        ("run", "Why?", "--offline", "--corpus", LONG),
        ("run", "Why?", "--offline", "--temperature", LONG),
        ("run", "Why?", "--offline", "--redact", LONG),
        ("run", "Why?", "--offline", "--max-cost", "9" * 5000),
        ("run", "--offline", "--queries", LONG),
        ("run", "--offline", "--config", LONG),
        ("run", "--offline", "Why?", "--" + LONG),
        ("run", "--offline", "Why?", "more " * 2000),
        (LONG,),
        ("show", LONG),
        ("show", "x/" * 3000),
        ("rescore", "--reuse", LONG),
        ("schema", LONG),
        ("rubric", "check", LONG),
        ("rubric", "show", LONG),
        ("import", LONG),
        ("import", "x.jsonl", "--format", LONG),
        ("rank", LONG),
        ("doctor", "--ports", LONG),
        ("doctor", "--ports", DIGITS),
    ],
    ids=lambda line: " ".join(word[:12] for word in line),
)
def test_a_word_that_is_too_long_is_quoted_to_200_characters(room: Room, line: tuple[str, ...]):
    error = refusal(room, *line)
    assert 0 < len(error) < 1000
    assert "x" * 201 not in error


@pytest.mark.parametrize("line", [("--agent", "\udcff"), ("--agent", "caf\udce9.py:agent"), ("--model", "\udcff")])
def test_a_word_that_is_not_utf_8_is_refused_before_it_makes_a_run_unreadable(room: Room, line: tuple[str, ...]):
    assert "UTF-8" in refusal(room, "run", "Why?", "--offline", *line)


def test_a_query_that_is_not_utf_8_makes_a_run_that_can_be_read(room: Room):
    assert ended(room, *RUN, "caf\udce9 \ud800?").code == 0
    assert ended(room, "validate", "last").code == 0
    assert "caf\ufffd \ufffd?" in ended(room, "show", "last", "--rollout", "0", "--json").out_text


@pytest.mark.parametrize("word", ["http://[", "http://[::1", "http://a:b/v1", "http://a:99999/v1", "http:///v1", "x"])
@pytest.mark.parametrize("flag", ["--base-url", "--judge-base-url"])
def test_an_address_that_is_none_is_refused(room: Room, flag: str, word: str):
    assert f"{flag} " in refusal(room, "run", "Why?", "--model", "m", "--base-url", "http://127.0.0.1:1", flag, word)


def test_an_address_in_the_environment_that_is_none_is_refused(room: Room):
    assert "OPENAI_BASE_URL" in refusal(room, "run", "Why?", "--model", "m", environ={"OPENAI_BASE_URL": "http://["})


def test_a_line_break_in_a_word_makes_no_second_error(room: Room):
    assert "forged" in refusal(room, "show", "a\nerror: forged")
    assert "forged" in refusal(room, "rank", "a", "b\nerror: forged")


def test_no_command_at_all_gets_the_help(room: Room):
    outcome = attempt((), room.work, room.environ())
    assert (outcome.code, outcome.errors) == (2, [])
    assert "\n  rescore " in outcome.err_text


# ---- Numbers


@pytest.mark.few(30)
@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.types[0] in {int, float}])
@pytest.mark.parametrize("word", [DIGITS, "-" + DIGITS, "9" * 400, "1e999", "nan", "-inf"])
def test_a_number_of_no_use_is_refused_wherever_it_stands(room: Room, name: str, word: str):
    variable = f"HARNESS_{name.upper()}"
    (room.work / "settings.yaml").write_text(f"{name}: {word}\n")
    assert variable in refusal(room, "run", "Why?", "--offline", "--dry-run", environ={variable: word})
    error = refusal(room, "run", "Why?", "--offline", "--dry-run", "--config", "settings.yaml")
    assert f"--config settings.yaml: {name}" in error or "is not YAML" in error


@pytest.mark.parametrize("seed", [-(2**63), 2**63 - 1])
def test_the_greatest_seed_makes_a_run_that_can_be_read_back(room: Room, seed: int):
    assert ended(room, *RUN, "Why?", "--seed", str(seed)).code == 0
    assert ended(room, "validate", "last").code == 0
    assert str(seed) in refusal(Room.make(room.top / "more"), *RUN, "Why?", "--seed", str(seed * 2))


# ---- Queries


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(range(256)), "NUL"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "not UTF-8 text (byte 0 is 0x89)"),
        ("Why?".encode("utf-16"), "UTF-16"),
        (b"caf\xe9", "byte 3 is 0xe9"),
        (b"", "no query in it"),
        (b"\xef\xbb\xbf\n\n", "no query in it"),
    ],
    ids=["all bytes", "a picture", "UTF-16", "Latin-1", "nothing", "a byte order mark"],
)
@pytest.mark.parametrize("source", ["-", "queries.txt"])
def test_what_is_no_text_is_no_query(room: Room, content: bytes, reason: str, source: str):
    (room.work / "queries.txt").write_bytes(content)
    assert reason in refusal(room, *RUN, "--queries", source, stdin=content)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (nested(900), "nested more than 100 deep"),
        (nested(100_000), "nested more than 100 deep"),
        ('{"query": "Why?", "more": ' + nested(101) + "}", "nested more than 100 deep"),
        ('{"query": "Why?", "id": "' + "x" * 201 + '"}', "201 characters"),
        (json.dumps({"query": "Why?", "id": "a\x1b[31m"}), "not shown"),
        (json.dumps({"query": "Why?", "id": "a\nb"}), "breaks the line"),
        ('{"query": NaN}', "not JSON"),
        ('{"query": "Why?", "size": 1e999}', "not JSON"),
        ('{"query": "Why?", "size": ' + DIGITS + "}", "not JSON"),
        ('{"query": [5]}', "must be an object"),
    ],
    ids=lambda value: value[:30],
)
def test_json_that_no_run_can_keep_is_refused_by_its_line(room: Room, line: str, reason: str):
    (room.work / "queries.jsonl").write_text('{"query": "First?"}\n' + line)
    error = refusal(room, *RUN, "--queries", "queries.jsonl")
    assert "queries.jsonl:2: " in error
    assert reason in error


def test_json_nested_as_deep_as_it_may_be_is_kept(room: Room):
    (room.work / "queries.jsonl").write_text('{"query": "Why?", "more": ' + nested(98) + "}")
    assert ended(room, *RUN, "--queries", "queries.jsonl").code == 0
    for line in (("validate", "last"), ("show", "last"), ("rescore", "last", "--judge-model", "offline-features")):
        assert ended(room, *line).code == 0


def test_a_query_of_10_mb_is_planned_from_every_source(room: Room):
    text = ("Why is the sky blue, and the grass green? " * 250_000)[:10_000_000]
    (room.work / "queries.txt").write_text(text)
    (room.work / "queries.jsonl").write_text(json.dumps({"query": text}))
    (room.work / "queries.csv").write_text(f'query\n"{text}"\n')
    for source in ("queries.txt", "queries.jsonl", "queries.csv", "-"):
        assert ended(room, *RUN, "--dry-run", "--queries", source, stdin=text.encode()).code == 0


# ---- Files that are none


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "link to a device", "link to itself", "nothing"])
@pytest.mark.parametrize(
    "line",
    [
        (*RUN, "--queries"),
        (*RUN, "Why?", "--config"),
        (*RUN, "Why?", "--agent"),
        ("import",),
        ("rank",),
        ("doctor", "--judge", "--judge-model", "offline-features", "--pairs"),
        ("rubric", "check"),
    ],
    ids=lambda line: line[-1],
)
def test_what_is_no_file_is_neither_waited_for_nor_read_without_end(room: Room, line: tuple[str, ...], kind: str):
    path = room.work / "strange.py"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/zero")
        case "link to a device":
            path.symlink_to("/dev/zero")
        case "link to itself":
            path.symlink_to(path)
        case _:
            pass
    assert path.name in refusal(room, *line, path.name if path.parent == room.work else str(path))


def test_the_pipe_of_a_shell_is_read(room: Room):
    read_end, write_end = os.pipe()
    os.write(write_end, b"Why?\n")
    os.close(write_end)
    try:
        assert ended(room, *RUN, "--dry-run", "--queries", f"/dev/fd/{read_end}").code == 0
    finally:
        os.close(read_end)


def test_closed_standard_input_is_refused(room: Room, monkeypatch: pytest.MonkeyPatch):
    real = attempt.__globals__["main"]
    monkeypatch.setitem(attempt.__globals__, "main", lambda: (setattr(sys, "stdin", None), real()))
    assert "standard input is closed" in refusal(room, *RUN, "--queries", "-")


# ---- Settings


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 900 + "]" * 900, "nested too deep"),
        ("- " * 3000 + "x", "nested too deep"),
        ("x" * 200_000, "larger than 100,000 bytes"),
        ("seed: 0x" + "f" * 60_000, "a number of thousands of digits"),
        ("1: 2", "1 is no name of a setting"),
        ("? [a]\n: 2", "unhashable key, line 1"),
        ('model: "\\ud800"', "not UTF-8"),
        ('corpus: "a\\0b"', "holds NUL"),
        ('runs-dir: "a\\0b"', "holds NUL"),
        ("\n".join(["a0: &a0 {n: 2}", *bomb("a{at}: &a{at} {{<<: [{all}]}}")]), "no setting 'a0'"),
        (f"a: &a {{{', '.join(f'k{at}: 1' for at in range(1001))}}}\nb: {{<<: *a}}", "more than 1000 keys"),
        ("\n".join(["- &a0 [x]", *bomb("- &a{at} [{all}]")]), "a list"),
    ],
    ids=lambda value: value[:20],
)
def test_yaml_of_any_shape_is_refused_at_once(room: Room, content: str, reason: str):
    (room.work / "settings.yaml").write_text(content)
    assert reason in refusal(room, *RUN, "Why?", "--config", "settings.yaml")


def test_references_to_references_are_quoted_without_writing_them_out(room: Room):
    lines = [
        "n: &a0 [x, x]",
        *(
            f"{name}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]"
            for i, name in enumerate(("model", "rubric", "corpus", "redact", "exclude", "include", "order", "api"), 1)
        ),
    ]
    (room.work / "settings.yaml").write_text("\n".join(lines))
    error = refusal(room, *RUN, "Why?", "--config", "settings.yaml")
    assert "faults more" in error


@pytest.mark.parametrize("pattern", ["(", "[a-", "(" * 5000, "a{99999999999}", "(?P<x>", "x" * 10_001, "\\", "a**"])
def test_a_pattern_that_is_none_is_refused(room: Room, pattern: str):
    assert "--redact" in refusal(room, *RUN, "Why?", "--redact", pattern)


def test_a_pattern_that_python_warns_of_prints_no_warning(room: Room):
    outcome = ended(room, *RUN, "Why?", "--redact", "[[a-z]x--y]")
    assert (outcome.code, "Warning" in outcome.err_text) == (0, False)


def test_many_faults_are_told_by_the_first_three():
    with pytest.raises(Exception, match="; and 2 faults more") as caught:
        load(dict.fromkeys(("n", "seed", "concurrency", "max_turns", "timeout"), "x" * 5000))
    assert len(str(caught.value)) < 1000


# ---- Imports, tables, pairs


@pytest.mark.parametrize(
    "document",
    [
        nested(900),
        '{"messages": ' + nested(101) + "}",
        '{"messages": [{"role": "user", "content": NaN}]}',
        '{"messages": [{"role": "' + "x" * 5000 + '"}]}',
        '{"messages": [{"role": ["user"]}]}',
        '{"schema_version": "ATIF-v' + "9" * 5000 + '"}',
        '{"schema_version": "ATIF-v1.4", "steps": [{"source": {}}]}',
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}], "reward": 1e999}',
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}], "reward": ' + "9" * 4000 + "}",
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}], "query_id": "' + "x" * 5000 + '"}',
    ],
    ids=lambda document: document[:40],
)
def test_a_trajectory_of_another_shape_is_refused_by_its_place(room: Room, document: str):
    (room.work / "made.jsonl").write_text(document)
    assert "made.jsonl:1: " in refusal(room, "import", "made.jsonl")


def test_half_a_surrogate_pair_in_an_import_makes_a_run_that_can_be_read(room: Room):
    talk = [{"role": "user", "content": "a\ud800"}, {"role": "assistant", "content": "b\udfff"}]
    (room.work / "made.jsonl").write_text(json.dumps({"messages": talk, "metadata": {"\ud800": "\udc00"}}))
    assert ended(room, "import", "made.jsonl").code == 0
    assert ended(room, "validate", "last").code == 0


@pytest.mark.parametrize(
    "table",
    [
        '{"n": 1000000000, "scores": {"0,1": [1, 2]}}',
        '{"n": ' + "9" * 4000 + ', "scores": {"0,1": [1, 2]}}',
        '{"scores": {"0,999999999": [1, 2]}}',
        '{"scores": {"0,' + DIGITS + '": [1, 2]}}',
        '{"n": 2, "scores": {"0,1": [' + "9" * 4000 + ", 2]}}",
        '{"n": 2, "scores": ' + nested(100_000) + "}",
    ],
    ids=lambda table: table[:30],
)
@pytest.mark.parametrize("topology", ["arena", "cyclic", "anchor"])
def test_a_table_of_scores_takes_no_more_room_than_its_pairs(room: Room, table: str, topology: str):
    (room.work / "table.json").write_text(table)
    refusal(room, "rank", "table.json", "--topology", topology)


# ---- Quoting


@pytest.mark.parametrize(
    "value",
    ["x" * 5000, "\x1b" * 5000, 10**5000, [10**5000], [[["x" * 999] * 99] * 99] * 99, {1: LONG}, None],
    ids=["text", "controls", "number", "number in a list", "lists of lists", "object", "nothing"],
)
def test_a_quotation_has_at_most_200_characters_on_one_line(value: object):
    assert 0 < len(quoted(value)) <= 200
    assert "\n" not in quoted(value)


def test_what_is_short_is_quoted_whole():
    assert quoted("a'b\n\u202e\udcff") == '"a\'b\\n\\u202e\\udcff"'
    assert (quoted(0.5), quoted([1, "x"]), quoted(None)) == ("0.5", "[1, 'x']", "None")
    assert on_a_line("a\nb\x1b\udcff") == "a b<U+001B>\ufffd"
    assert short_message("as it is") == "as it is"
    assert len(short_message("many words " * 999)) == 900
