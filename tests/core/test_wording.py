"""Messages name a setting and a call as whoever called does."""

import ast
import re
from collections.abc import Iterator

import pytest

from harness.core.errors import as_spoken, call, calling, did_you_mean, from_python, goes_on, joined, option, switch
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("make", "on_the_command_line", "in_python"),
    [
        (lambda: option("judge_model"), "--judge-model", "judge_model="),
        (lambda: option("n", 3), "-n 3", "n=3"),
        (lambda: option("max_cost", 0.1 + 0.2), "--max-cost 0.3", "max_cost=0.3"),
        (lambda: option("rubric", "my file.md"), "--rubric my file.md", "rubric='my file.md'"),
        (lambda: option("approve", "NAME"), "--approve NAME", "approve=['NAME']"),
        (lambda: option("prices", {"m": "1/2"}), "--price m=1/2", "prices={'m': '1/2'}"),
        (lambda: switch("accept_changed_agent"), "--accept-changed-agent", "accept_changed_agent=True"),
        (lambda: joined(option("base_url"), "'x'"), "--base-url 'x'", "base_url='x'"),
        (lambda: joined("OPENAI_BASE_URL", ""), "OPENAI_BASE_URL", "OPENAI_BASE_URL"),
        (
            lambda: call("resume", "my runs/1", rubric="FILE"),
            "`harness resume 'my runs/1' --rubric FILE`",
            "`harness.resume('my runs/1', rubric='FILE')`",
        ),
    ],
    ids=range(10),
)
def test_a_message_names_options_on_the_command_line_and_arguments_in_python(make, on_the_command_line, in_python):
    assert make() == on_the_command_line
    with from_python():
        assert make() == in_python
    assert make() == on_the_command_line


@pytest.mark.parametrize(
    ("name", "whole"),
    [("serch", "no 'serch'; did you mean 'search'? Known: search"), ("x", "no 'x'; known: search")],
)
def test_a_message_goes_on_after_a_question_with_a_sentence(name: str, whole: str):
    assert goes_on(f"no {name!r}{did_you_mean(name, ['search'])}", "known: search") == whole


def test_no_message_puts_a_mark_behind_a_suggestion():
    """What stands behind `did_you_mean` in the same text comes by `goes_on`."""
    joined_to = re.compile(r"(did_you_mean\([^{}]*\)|\.near\([^{}]*\)|\bhint|\bmeant|\bnearest)\}[;:,.]")
    sources = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "harness").rglob("*.py")}
    assert [path for path, text in sources.items() if joined_to.search(text)] == []


@pytest.mark.parametrize(
    ("kept", "in_python"),
    [
        ("no verdict within 9 s (--judge-timeout)", "no verdict within 9 s (judge_timeout=)"),
        ("as --topology none asks", "as topology='none' asks"),
        ("as --anchor-failed stop asks", "as anchor_failed='stop' asks"),
        ("not bought: --free allows no purchase", "not bought: free=True allows no purchase"),
        ("--budget 12 picks cyclic", "budget=12 picks cyclic"),
        ("longer than --judge-budget allows", "longer than judge_budget= allows"),
        ("leave it out with --hide-instructions", "leave it out with show_instructions=False"),
        ("(--give-up); the last error: HTTP 500", "(give_up=); the last error: HTTP 500"),
        ("decides on that: --approve NAME", "decides on that: approve=['NAME']"),
        ("`harness rescore --topology arena` judges", "`harness.rescore(topology='arena')` judges"),
        ("`harness resume RUN --rubric FILE`", "`harness.resume('RUN', rubric='FILE')`"),
        ("a server's --enable-auto-tool-choice", "a server's --enable-auto-tool-choice"),
        ("the answer was <b>--</b> a-b--c", "the answer was <b>--</b> a-b--c"),
    ],
)
def test_a_text_that_the_archive_keeps_is_translated_for_python_alone(kept: str, in_python: str):
    assert as_spoken(kept) == kept
    with from_python():
        assert as_spoken(kept) == in_python
        with calling({"judge_timeout": "timeout"}):
            assert "judge_timeout" not in as_spoken(kept)


ROOMS = (
    "archive core endpoints formats judging pipeline ranking rollouts rubric_text tournament transcripts api".split()
)
OF_THE_COMMAND = {"--from", "--config", "--help", "--enable-auto-tool-choice"}
"""What only a command can meet, or another program's option."""


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts in a module that may get into a message; what is filled in is X."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_every_text_below_the_commands_can_be_said_in_python():
    files = [file for room in ROOMS for file in (ROOT / "harness" / room).rglob("*.py")]
    sources = [source for file in files if "--" in (source := file.read_text())]
    flagged = {text for source in sources for text in texts(ast.parse(source)) if " " in text and "--" in text}
    assert len(flagged) > 10
    with from_python():
        left = {flag for text in flagged for flag in re.findall(r"--[a-z][a-z-]+", as_spoken(text))}
    assert left <= OF_THE_COMMAND
