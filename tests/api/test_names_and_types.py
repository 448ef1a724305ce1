"""What `import harness` exports, and what a type checker makes of it."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import ast
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import pytest
from agents import Agent

import harness
from harness.cli.app import app
from harness.core.settings import SETTINGS

EXPORTED = {name: getattr(harness, name) for name in harness.__all__}


def classes_in(annotation: Any) -> Iterator[type]:
    """Yield the classes of ours in an annotation, however deep."""
    for part in typing.get_args(annotation):
        yield from classes_in(part)
    if isinstance(annotation, type) and annotation.__module__.startswith("harness."):
        yield annotation


def signatures() -> Iterator[tuple[str, Any]]:
    """Yield the public functions, and the public methods of `Run`."""
    yield from ((name, value) for name, value in EXPORTED.items() if isinstance(value, types.FunctionType))
    for name, member in vars(harness.Run).items():
        if not name.startswith("_"):
            yield f"Run.{name}", member.fget if isinstance(member, property) else member


def test_every_class_that_a_public_function_takes_or_returns_is_exported():
    missing = {
        (name, used.__name__)
        for name, function in signatures()
        for annotation in typing.get_type_hints(inspect.unwrap(function)).values()
        for used in classes_in(annotation)
        if EXPORTED.get(used.__name__) is not used
    }
    assert missing == set()


def test_every_coroutine_function_has_a_sync_twin():
    slow = {name for name, value in EXPORTED.items() if inspect.iscoroutinefunction(inspect.unwrap(value))}
    assert {name for name in slow if not name.endswith("_sync")} == {
        name.removesuffix("_sync") for name in slow if name.endswith("_sync")
    }


OF_A_TERMINAL = {"as_json", "config", "dry_run", "format_", "query", "quiet", "runs", "verbose", "wide"}
"""Options of commands that only print, or that a function has under another name."""


@pytest.mark.parametrize(
    ("command", "function"),
    [
        ("run", harness.run),
        ("best", harness.best_of),
        ("resume", harness.resume),
        ("rescore", harness.rescore),
        ("rescore", harness.quote),
        ("replay", harness.replay),
        ("validate", harness.validate),
        ("import", harness.import_run),
    ],
)
def test_every_option_of_a_command_is_an_argument_of_its_function(command: str, function: Any):
    hints = typing.get_type_hints(inspect.unwrap(function))
    (settings,) = typing.get_args(hints.get("settings")) or (hints.get("settings"),)
    arguments = {*hints, *(typing.get_type_hints(settings) if settings else ())}
    options = {parameter.name for parameter in app.commands[command].params}
    of_its_own = {"report", "wait"} if function is harness.quote else set[str]()
    assert options - arguments - OF_A_TERMINAL - of_its_own == set()


@pytest.mark.parametrize(
    "name", ["run", "plan", "rescore_sync", "resume", "best_of", "rank", "rank_messages", "ruler", "check_setup"]
)
def test_help_lists_the_settings_of_a_function(name: str):
    (settings,) = typing.get_args(typing.get_type_hints(inspect.unwrap(EXPORTED[name]))["settings"])
    listed = str(inspect.getdoc(EXPORTED[name])).partition("\nSettings:\n")[2]
    names = list(typing.get_type_hints(settings))
    assert re.findall(r"^    (\w+)", listed, re.MULTILINE) == sorted(names, key=[*SETTINGS, *names].index)
    assert "--" not in listed


async def what_a_type_checker_knows() -> None:
    """Nobody calls this: pyright reads it, and calls an ignored fault that is none an error.

    Results have types, misspelt settings and wrong values are rejected.
    """
    agent = Agent(name="a")
    run = await harness.run(agent, ["Why?"], n=4, judge_model=["a", "b"], runs_dir="here", redact=["x"])
    again = harness.rescore_sync(run, estimator="margins", judge="ruler")
    group = await harness.rollout(agent, "Why?", 4, temperature=1.0)
    ranking = await harness.rank(group, judge="a", topology="cyclic")
    assert_type(run.ranking().of("q"), harness.GroupRanking | None)
    assert_type(again, harness.Run)
    assert_type(ranking, harness.GroupRanking)
    await harness.run(agent, "Why?", temprature=1.0)  # pyright: ignore[reportCallIssue]
    await harness.rollout(agent, "Why?", temperature="hot")  # pyright: ignore[reportArgumentType]
    harness.run_sync(agent, "Why?", topologie="cyclic")  # pyright: ignore[reportCallIssue]
    await harness.rescore(run, topology="circle")  # pyright: ignore[reportArgumentType]
    await harness.rank(group, estimater="wins")  # pyright: ignore[reportCallIssue]


def test_what_a_program_gets_is_what_a_type_checker_reads():
    tree = ast.parse(Path(harness.__file__).read_text("utf-8"))
    read = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness.")
        for alias in node.names
    }
    for name, (module, there) in read.items():
        assert getattr(harness, name) is getattr(importlib.import_module(str(module)), there), name
