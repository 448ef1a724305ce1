"""The doors for trainers are thin, and loading them loads no trainer."""

import ast

import pytest

from tests.conftest import ROOT

ROOM = ROOT / "harness" / "integrations"
DOORS = ("art", "openenv", "slime", "tinker", "trl")


@pytest.mark.parametrize("name", DOORS)
def test_a_door_is_thin(name: str):
    assert len((ROOM / f"{name}.py").read_text("utf-8").splitlines()) < 160


def test_no_module_of_the_room_imports_a_trainer_or_torch():
    trees = [ast.parse(path.read_text("utf-8")) for path in ROOM.glob("*.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    assert not {module.split(".")[0] for module in modules} & {*DOORS, "gepa", "tinker_cookbook", "torch", "accelerate"}
