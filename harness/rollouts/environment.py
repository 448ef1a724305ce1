"""What an agent's file knows about the run it is loaded for, and the examples."""

import random
from dataclasses import dataclass
from pathlib import Path

from agents import ModelSettings
from openai.types.shared import Reasoning

from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.settings import Api

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
    """Return the files of an agent called `name` that begins as a copy of an example: texts by file name.

    The first is the agent's own; the others are what that one starts or reads. Raises UsageError for no such example.
    """
    if example not in EXAMPLES:
        hint = did_you_mean(example, EXAMPLES)
        raise UsageError(f"--from {quoted(example)}: no such example{hint}; there are: {', '.join(sorted(EXAMPLES))}")
    text = (examples_folder() / f"{example}.py").read_text("utf-8")
    beside = {path.name: path.read_text("utf-8") for path in examples_folder().glob("_*.py") if path.name in text}
    renamed = text.replace(f'name="{example}"', f'name="{name}"').replace(f"--agent {example} ", f"--agent {name} ")
    return {f"{name}.py": renamed, **beside}


@dataclass(frozen=True)
class AgentEnv:
    """Handed to `build(env)`, once a rollout.

    `api` is what the agent's models are spoken to by (hosted tools exist only on "responses"); `offline` is True on
    the embedded model; `corpus` is the user's folder of texts, None for the packaged one; `model` is the name asked
    for with --model; `rng` is this rollout's own.
    """

    api: Api
    offline: bool
    corpus: Path | None
    model: str | None
    rng: random.Random

    def model_settings(self, default: str) -> ModelSettings:
        """Return settings under which the run's model takes a temperature; `default` is the agent's, without --model.

        gpt-5 models accept a temperature only without reasoning; other models may not know the setting at all.
        """
        if "gpt-5" in (self.model or default):
            return ModelSettings(reasoning=Reasoning(effort="none"))
        return ModelSettings()
