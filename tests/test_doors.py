"""The doors that open lazily give out the same names to whoever runs the package and to whoever reads it."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

from tests.conftest import ROOT

LAZY = sorted(
    path.parent.name for path in (ROOT / "harness").glob("*/__init__.py") if "lazy_names(" in path.read_text("utf-8")
)


def test_some_doors_open_lazily():
    assert {"archive", "ranking", "report"} <= set(LAZY)


@pytest.mark.parametrize("room", LAZY)
def test_a_lazy_door_gives_out_what_a_type_checker_reads(room: str):
    door = importlib.import_module(f"harness.{room}")
    tree = ast.parse(Path(door.__file__ or "").read_text("utf-8"))
    (shown,) = [node for node in tree.body if isinstance(node, ast.If)]
    read = {
        alias.name: f"{node.module}" for node in shown.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    (names,) = [node.args[1] for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = {
        name: f"harness.{room}.{module}"
        for module, listed in ast.literal_eval(names).items()
        for name in listed.split()
    }
    assert given == read
    assert sorted(given) == sorted(door.__all__)
    assert not given.keys() & {module.name for module in pkgutil.iter_modules(door.__path__)}, "a module hides a name"
    for name, module in given.items():
        assert getattr(door, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = door.nothing
