"""Everything goes to the terminal through one door: nothing is written past it, and it marks what Python prints."""

import ast
import io
import json
import logging
import os
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from rich.table import Table

from harness.cli.app import app
from harness.cli.console import stdout
from harness.cli.output import guard_output, print_json, say
from harness.report.terminal.table import visible_text
from tests.conftest import ROOT
from tests.nursery import clean_environment

PACKAGE = ROOT / "harness"
PRINTERS = {"print", "pprint", "click.echo", "click.secho", "echo", "secho", "rich.print", "os.write", "click.confirm"}
ALLOWED = {
    "cli/output.py": {"sys.stdout", "sys.stderr", "warnings.showwarning", "sys.excepthook", "logging.lastResort"},
    "cli/console.py": {"Console", "Text"},
    "report/terminal/table.py": {"Text"},
    "rubric_text/child.py": {"sys.stdout.write"},  # the pipe to the process that started the child
    "api/messages.py": {"sys.stderr.writelines"},  # for Python users: what ruler(debug=True) promises, marked
}
MARKUP = {"Text", "Console", "escape", "render", "Markdown", "Syntax", "Pretty"}
"""Names of rich that show text as it is, or take it for markup."""
WORDS = ("print", "echo", "confirm", "os.write", "stdout", "stderr", "rich")
"""A module in whose text none of these stands is not parsed: each way past the door has one."""
HARMLESS = {"isatty", "close", "flush"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def names_of_rich(tree: ast.Module) -> set[str]:
    """Return the names that a module takes from rich to make text or consoles of."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "")[:4] == "rich"]
    return {alias.asname or alias.name for node in froms for alias in node.names if alias.name in MARKUP}


def writes(source: str) -> Iterator[str]:
    """Yield every way past the door in a module: printers, the process's streams, rich's own text."""
    if not any(word in source for word in WORDS):
        return
    tree = ast.parse(source)
    of_rich = names_of_rich(tree)
    harmless = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in HARMLESS
    } | {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "redirect_stdout"
        for argument in node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in PRINTERS or called.partition(".")[0] in of_rich:
                yield called.partition(".")[0] if called not in PRINTERS else called
            if called.startswith(("sys.stdout.", "sys.stderr.")) and called.rpartition(".")[2] not in HARMLESS:
                yield called
                harmless.add(id(node.func.value)) if isinstance(node.func, ast.Attribute) else None
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in STREAMS and id(node) not in harmless:
            name = ast.unparse(node)
            if name.startswith("sys."):
                yield name
        if isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield from (f"sys.{alias.name}" for alias in node.names if alias.name in {"stdout", "stderr"})


def test_no_module_writes_to_the_terminal_past_the_door() -> None:
    written = {str(path.relative_to(PACKAGE)): set(writes(path.read_text("utf-8"))) for path in PACKAGE.rglob("*.py")}
    past = {module: names - ALLOWED.get(module, set()) for module, names in written.items()}
    assert {module: names for module, names in past.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "print('x')",
        "import click\nclick.echo('x')",
        "import sys\nsys.stdout.write('x')",
        "import sys\nstream = sys.stderr",
        "from sys import stdout",
        "from rich.console import Console\nConsole().print('x')",
        "from rich.text import Text\nText.from_markup('x')",
        "from rich.markup import escape\nescape('x')",
    ],
)
def test_a_way_past_the_door_is_seen(source: str) -> None:
    assert list(writes(source))


def test_what_points_a_stream_elsewhere_or_asks_about_it_is_no_way_past() -> None:
    source = "import sys\nwith redirect_stdout(sys.stderr):\n    wide = sys.stdout.isatty()\nsys.stderr.close()"
    assert not list(writes(source))


def test_a_terminal_that_speaks_ascii_gets_the_numbers_of_other_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    # As Python opens stdout where the locale says so.
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", "strict", write_through=True))
    for module, name in ((sys, "excepthook"), (logging, "lastResort"), (warnings, "showwarning")):
        monkeypatch.setattr(module, name, getattr(module, name))
    guard_output()
    say("漢 \ud800 é\x1b")
    stdout().print("漢 \u202e")
    print_json(["漢", "\ud800"], indent=None)
    assert written.getvalue().decode("ascii").splitlines() == [
        "\\u6f22 \\ufffd \\xe9<U+001B>",
        "\\u6f22 <U+202E>",
        '["\\u6f22", "\\ud800"]',
    ]


def test_json_with_a_lone_surrogate_is_printed_and_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"answer": "\ud800 \x9b \u2028 漢 é"})
    out = capsys.readouterr().out
    assert "漢 é" in out
    assert "\\ud800 \\u009b \\u2028" in out
    assert json.loads(out) == {"answer": "\ud800 \x9b \u2028 漢 é"}


def test_a_table_is_as_wide_as_its_marks(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "other")
    table.add_row("a\x1b[2J\r", "[bold]b[/bold] :smile:")
    table.add_row(visible_text(("a\x07", "bold")), "b")
    stdout().print(table)
    lines = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert "a<U+001B>[2J<U+000D> │ [bold]b[/bold] :smile:" in lines[0]
    assert "a<U+0007>" in lines[1]
    assert len({len(line) for line in lines}) == 1


BUG = """
import logging, sys, warnings
import harness.cli.app as app

@app.app.command("bug")
def bug():
    warnings.warn("warned \\x1b[2J")
    logging.getLogger("some.library").warning("logged \\x1b[2J")
    raise KeyError("\\x1b]0;pwned\\x07" if sys.argv[2:] else "plain") from ValueError("\\x9b2J")

sys.argv[0] = "harness"
app.main()
"""


@pytest.mark.process
def test_the_traceback_of_a_bug_is_kept_with_marks_and_so_are_warnings_and_logs(tmp_path: Path) -> None:
    line = [sys.executable, "-c", BUG, "bug"]
    done = subprocess.run(line, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "KeyError: 'plain'" in done.stderr
    assert "ValueError: <U+009B>2J" in done.stderr
    assert "UserWarning: warned <U+001B>[2J" in done.stderr
    assert "logged <U+001B>[2J" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\x9b" not in done.stderr


@pytest.mark.nightly
@pytest.mark.process
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_no_encoding_of_the_terminal_breaks_a_command(encoding: str, tmp_path: Path) -> None:
    environ = clean_environment() | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    (tmp_path / "q.txt").write_text("漢 é \u202e\n", "utf-8")
    line = [sys.executable, "-m", "harness", "run", "--offline", "-n", "2", "--queries", "q.txt"]
    done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\u6f22" in done.stdout


@pytest.mark.process
def test_a_reader_that_goes_away_breaks_nothing(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    line = [sys.executable, "-m", "harness", "schema"]
    with os.fdopen(writable, "wb") as out:
        done = subprocess.run(
            line, cwd=tmp_path, env=clean_environment(), stdout=out, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.process
@pytest.mark.parametrize(
    ("where", "code", "told"),
    [(">&-", 0, ""), (">/dev/full", 2, "error: cannot write what this command prints: No space left on device\n")],
)
def test_a_stdout_that_takes_nothing_is_one_line_at_most(where: str, code: int, told: str, tmp_path: Path):
    for command in ("schema", "rubric show"):
        line = f"{shlex.quote(sys.executable)} -m harness {command} {where}"
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=clean_environment(), capture_output=True, check=False)
        assert (done.returncode, done.stderr.decode()) == (code, told), command


def test_a_reader_who_has_gone_still_gets_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    nobody, pipe = os.pipe()
    os.close(nobody)
    with suppress(BrokenPipeError), os.fdopen(pipe, "w", encoding="utf-8") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(SystemExit):
            app.main(["run", "Why?", "--agent", "search", "--offline", "-n", "2", "-q"], standalone_mode=False, obj={})
    assert list(tmp_path.glob("runs/*/report.html"))
