"""The package keeps its shape: short functions and files, one meaning a name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "harness"
ROOMS = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file())
MOST_LINES_OF_A_FILE = 400
PYTHON = ("harness", "agents_config", "benchmarks", "tests")
Callable_ = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module of the package."""

    path: Path
    """Relative to the package."""
    tree: ast.Module

    @cached_property
    def name(self) -> str:
        parts = ("harness", *self.path.with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @property
    def room(self) -> str:
        return self.path.parts[0]


@dataclass(frozen=True)
class Function:
    """A function or method. `lines` counts from `def` to the last line; `parameters` leaves out self, cls and stars."""

    module: Module
    name: str
    lines: int
    parameters: int
    public: bool


@cache
def modules() -> tuple[Module, ...]:
    return tuple(
        Module(path.relative_to(PACKAGE), ast.parse(path.read_text("utf-8"))) for path in sorted(PACKAGE.rglob("*.py"))
    )


@pytest.fixture(scope="module", autouse=True)
def trees_are_let_go() -> Iterator[None]:
    """Else the garbage collector would walk two million nodes again and again in the tests that follow."""
    yield
    modules.cache_clear()
    functions.cache_clear()


@cache
def functions() -> tuple[Function, ...]:
    return tuple(function for module in modules() for function in functions_in(module, module.tree))


def functions_in(
    module: Module, node: ast.AST, path: tuple[str, ...] = (), *, nested: bool = False
) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from functions_in(module, child, (*path, child.name), nested=nested)
        elif isinstance(child, Callable_):
            inner = (*path, child.name)
            parameters = [p.arg for p in (*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs)]
            yield Function(
                module,
                ".".join(inner),
                lines=(child.end_lineno or 0) - child.lineno + 1,
                parameters=len(parameters) - (parameters[:1] in (["self"], ["cls"])),
                public=not nested and all(name == "__init__" or not name.startswith("_") for name in inner),
            )
            yield from functions_in(module, child, inner, nested=True)
        else:
            yield from functions_in(module, child, path, nested=nested)


def is_command(module: Module, name: str) -> bool:
    """Whether a name is a command's own: its file is named for it."""
    return module.room == "cli" and name.strip("_") in {module.path.stem.strip("_"), "app"}


def named_in(document: str) -> str:
    path = ROOT / document
    return path.read_text("utf-8") if path.is_file() else ""


def long_files(*folders: str) -> list[str]:
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [
        str(path.relative_to(ROOT))
        for path in paths
        if len(path.read_text("utf-8").splitlines()) > MOST_LINES_OF_A_FILE
    ]


def test_functions_are_short():
    lines = sorted(function.lines for function in functions())
    longest = {f"{f.module.name}.{f.name}": f.lines for f in functions() if f.lines > 70}
    assert (lines[len(lines) // 2] <= 9, lines[9 * len(lines) // 10] <= 22, longest) == (True, True, {})


def test_no_file_of_the_package_is_long():
    assert long_files("harness", "agents_config", "benchmarks") == []


def test_a_long_test_file_has_its_reason_in_contributing():
    assert [path for path in long_files("tests") if path not in named_in("CONTRIBUTING.md")] == []


def test_no_public_function_takes_more_than_twelve_parameters():
    assert [f"{f.module.name}.{f.name}: {f.parameters}" for f in functions() if f.public and f.parameters > 12] == []


def test_the_formatter_is_never_switched_off():
    switch = re.compile(r"#\s*fmt:\s*(skip|off)")
    texts = [path for folder in PYTHON for path in (ROOT / folder).rglob("*.py")]
    texts += [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / "docs").rglob("*.md")]
    assert [str(path.relative_to(ROOT)) for path in texts if switch.search(path.read_text("utf-8"))] == []


def public_names(module: Module) -> Iterator[str]:
    """Yield the public names that a module defines at its top level."""
    for node in module.tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_") and len(name) > 1)


def test_at_most_five_public_names_have_two_meanings_and_the_glossary_lists_them():
    homes: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for name in public_names(module):
            if not is_command(module, name):
                homes[name].add(module.name)
    homonyms = {name: sorted(places) for name, places in homes.items() if len(places) > 1}
    glossary = named_in("docs/architecture.md")
    assert len(homonyms) <= 5, homonyms
    assert {name: places for name, places in homonyms.items() if f"`{name}`" not in glossary} == {}


def test_no_public_function_has_the_name_of_a_room():
    assert [
        f"{module.name}.{node.name}"
        for module in modules()
        for node in module.tree.body
        if isinstance(node, Callable_) and node.name in ROOMS and not is_command(module, node.name)
    ] == []


def imports_of(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Yield each import below a node: the module, and the name taken from it."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, None) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from ((child.module or "", alias.name) for alias in child.names)


MOST_LINES, MOST_FILES, MOST_IMPORTS, MOST_OF = 75_600, 396, 0.075, 60
"""Ceilings of the whole package: they go down, and up only for a new capability, in the commit that brings it."""


def test_the_package_stays_a_small_house():
    lines = sum(len((PACKAGE / module.path).read_text("utf-8").splitlines()) for module in modules())
    imports = sum(
        (node.end_lineno or 0) - node.lineno + 1
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    vague = [function.name for function in functions() if function.name.endswith("_of")]
    assert lines <= MOST_LINES
    assert len(modules()) <= MOST_FILES
    assert imports / lines <= MOST_IMPORTS
    assert len(vague) <= MOST_OF, vague


def imported_modules(module: Module, names: set[str]) -> set[str]:
    """Return the modules of the package, which `names` has, that one imports, also when one of its functions runs."""
    taken = [
        node
        for node in module.tree.body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    imported = {pair for node in taken for pair in imports_of(node)}
    candidates = {f"{source}.{name}" if f"{source}.{name}" in names else source for source, name in imported}
    return (candidates & names) - {module.name}


def test_no_modules_import_each_other_in_a_circle_also_inside_functions():
    names = {module.name for module in modules()}
    graph = {module.name: imported_modules(module, names) for module in modules()}
    while leaves := {name for name, needed in graph.items() if not needed & graph.keys()}:
        graph = {name: needed for name, needed in graph.items() if name not in leaves}
    assert graph == {}


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield each docstring and comment-like string of the package with its module's name."""
    for module in modules():
        for node in module.nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield module.name, node.value.value


def test_a_docstring_cites_only_documents_that_are_in_the_repository():
    document = re.compile(r"[\w./-]*\w\.md\b")
    here = {path.relative_to(ROOT).as_posix() for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md")}
    here |= {path.name for path in PACKAGE.rglob("*.md")}
    strangers = [
        (module, cited)
        for module, text in docstrings()
        for cited in [*document.findall(text), *re.findall(r"[A-Z]{3,}(?:\.md)? §\S*", text)]
        if cited not in here
    ]
    assert strangers == []
