"""The packaged example agents: where their files are, their model, copies of them. Nothing heavy is imported for it."""

from pathlib import Path

from harness.core.errors import UsageError, did_you_mean, goes_on, quoted

AGENT_MODEL = "gpt-5.6-luna"
"""The model of the examples' agents, and of the agents in the documentation."""
JUDGE_MODEL = "gpt-6.1-terra"
"""The judge's model in the documentation: another than the agents', because a judge favours its own texts."""

_PACKAGE = Path(__file__).resolve().parents[1]
_IMPORTED = "from harness.rollouts.examples import AGENT_MODEL\n\n"
_WRITTEN_OUT = f'\nAGENT_MODEL = "{AGENT_MODEL}"\n'

EXAMPLES = frozenset({"extractor", "manager", "mcp_notes", "search", "triage"})
"""Listed by name: in a checkout the examples lie where people put agents of their own."""


def examples_folder() -> Path:
    """In a wheel the examples are in the package; in a checkout they stand beside it."""
    installed = _PACKAGE / "_agents"
    return installed if installed.is_dir() else _PACKAGE.parent / "agents_config"


def is_example(path: Path) -> bool:
    """Return whether a file is an example: also an unchanged copy, but not another file beside the examples."""
    twin = examples_folder() / path.name
    if path.stem not in EXAMPLES or not twin.is_file():
        return False
    text, found = twin.read_bytes(), path.read_bytes()
    return found in {text, _with_its_model(text.decode()).encode()}


def _with_its_model(text: str) -> str:
    """Return an example's text with its model's name in it: no later version of the harness changes it."""
    return text.replace(_IMPORTED, _WRITTEN_OUT)


def copy_of_example(example: str, name: str) -> dict[str, str]:
    """Return the texts, by file name, of an agent `name` that begins as an example. Raises UsageError for none."""
    if example not in EXAMPLES:
        unknown = f"--from {quoted(example)}: no such example{did_you_mean(example, EXAMPLES)}"
        raise UsageError(goes_on(unknown, f"there are: {', '.join(sorted(EXAMPLES))}"))
    text = _with_its_model((examples_folder() / f"{example}.py").read_text("utf-8"))
    beside = {path.name: path.read_text("utf-8") for path in examples_folder().glob("_*.py") if path.name in text}
    renamed = text.replace(f'name="{example}"', f'name="{name}"').replace(f"--agent {example} ", f"--agent {name} ")
    return {f"{name}.py": renamed, **beside}
