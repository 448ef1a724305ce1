"""The import contracts of pyproject.toml name every room, and they catch what they forbid."""

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from harness.cli.app import main
from tests.conftest import ROOT

CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
    "contracts"
]
FLOORS = next(contract for contract in CONTRACTS if contract["type"] == "layers")
PACKAGE = ROOT / "harness"
ROOMS = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file())
LOWEST_SIBLINGS = ("transcripts", "ranking")


def rooms_of_floors() -> list[list[str]]:
    return [floor.split(" | ") for floor in FLOORS["layers"]]


def test_the_floors_are_at_most_nine_and_every_room_stands_on_one():
    assert FLOORS["exhaustive"]
    assert len(FLOORS["layers"]) <= 9
    assert sorted(room for floor in rooms_of_floors() for room in floor) == ROOMS
    assert set(FLOORS["exhaustive_ignores"]) <= {"__main__", "_agents"}


def test_a_room_has_no_door_beside_its_modules():
    """A name stands where it is defined, and is imported from there; only `harness` itself gives names out."""
    for room in ROOMS:
        (text,) = ast.parse((PACKAGE / room / "__init__.py").read_text("utf-8")).body
        assert isinstance(text, ast.Expr), room


def test_the_console_script_names_the_function_that_python_m_harness_calls():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert {name: resolve_name(target) for name, target in scripts.items()} == {"harness": main}


def test_no_module_stands_outside_of_the_rooms():
    loose = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert loose == {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}


@pytest.mark.process
def test_every_forbidden_import_is_caught(tmp_path: Path):
    """lint-imports is run once, on a copy of the package with one forbidden import of every sort."""
    shutil.copytree(PACKAGE, tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    siblings = [(a, b) for floor in rooms_of_floors() for a in floor for b in floor if a != b]
    plants = {
        **{f"{a}/planted_{b}.py": f"import harness.{b}" for a, b in siblings},
        "core/planted_upwards.py": "import harness.archive",
        "tournament/planted_far_up.py": "import harness.cli",
        "ranking/planted_chance.py": "import random",
        "planted_loose.py": "",
    }
    for name, source in plants.items():
        (tmp_path / "harness" / name).write_text(source + "\n")
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(lint, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert siblings
    for caught in (
        *(f"harness.{a}.planted_{b} -> harness.{b} " for a, b in siblings),
        "harness.core.planted_upwards -> harness.archive ",
        "harness.tournament.planted_far_up -> harness.cli ",
        "harness.ranking.planted_chance -> random ",
        "planted_loose",
    ):
        assert caught in done.stdout, caught


@pytest.mark.parametrize("room", ["archive", "pipeline", "cli", "report", "doctor"])
def test_what_an_archive_holds_is_validated_at_one_door(room: str):
    """Members of an archive become records in harness.archive.typed_records, which turns what is wrong into damage."""
    own = {"model_validate", "model_validate_json", "validate_python", "validate_json", "model_validate_strings"}
    door = {
        "typed_records.py",
        "index.py",
        "index_file.py",
        "group_cache.py",
        "attestations.py",
        "page_folder.py",
    }  # the last five: files of the user's own folders
    calls = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in (PACKAGE / room).rglob("*.py")
        if path.name not in door
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in own
    ]
    of_other_texts = {"doctor/local_servers.py", "formats/labelled_pairs.py"}  # a server's reply, a user's own file
    assert [call for call in calls if call.split(":")[0] not in of_other_texts] == []
