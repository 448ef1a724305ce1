"""The packaged example agents: where their files are, and copies of them. Nothing heavy is imported for it."""

from pathlib import Path

from harness.core.errors import UsageError, did_you_mean, quoted

_PACKAGE = Path(__file__).resolve().parents[1]

EXAMPLES = frozenset({"extractor", "manager", "mcp_notes", "search", "triage"})
"""Listed by name: in a checkout the examples lie where people put agents of their own."""


def examples_folder() -> Path:
    """In a wheel the examples are in the package; in a checkout they stand beside it."""
    installed = _PACKAGE / "_agents"
    return installed if installed.is_dir() else _PACKAGE.parent / "agents_config"


def is_example(path: Path) -> bool:
    """Return whether a file is an example: also an unchanged copy, but not another file beside the examples."""
    twin = examples_folder() / path.name
    return path.stem in EXAMPLES and twin.is_file() and twin.read_bytes() == path.read_bytes()


def copy_of_example(example: str, name: str) -> dict[str, str]:
    """Return the texts, by file name, of an agent `name` that begins as an example. Raises UsageError for none."""
    if example not in EXAMPLES:
        hint = did_you_mean(example, EXAMPLES)
        raise UsageError(f"--from {quoted(example)}: no such example{hint}; there are: {', '.join(sorted(EXAMPLES))}")
    text = (examples_folder() / f"{example}.py").read_text("utf-8")
    beside = {path.name: path.read_text("utf-8") for path in examples_folder().glob("_*.py") if path.name in text}
    renamed = text.replace(f'name="{example}"', f'name="{name}"').replace(f"--agent {example} ", f"--agent {name} ")
    return {f"{name}.py": renamed, **beside}
