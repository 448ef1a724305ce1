"""What a user begins with: the agents and rubrics there are, a rubric's text, and what is wrong with it."""

from collections.abc import Sequence
from pathlib import Path

from harness.core.wording import from_python
from harness.judging.rubric import Rubric
from harness.judging.rubric_files import read_rubric, rubric_source
from harness.rollouts.loading import agent_files


def loadable_agents() -> Sequence[str]:
    """Return the names of the agents that have a file: in agents_config/ of the working folder, and the packaged."""
    return sorted({file.stem for file in agent_files(Path.cwd())})


@from_python()
def text_of_rubric(rubric: str | Path) -> str:
    """Return the text of a packaged rubric, to begin one of your own with, or of a file. Raises UsageError."""
    return rubric_source(str(rubric))


@from_python()
def check_rubric(rubric: str | Path) -> Sequence[str]:
    """Return everything that is wrong with a rubric, as `harness rubric check` prints it; nothing for a good one.

    Raises UsageError where there is no such rubric.
    """
    checked = read_rubric(rubric_source(str(rubric)))
    return [] if isinstance(checked, Rubric) else [f"{rubric}:{fault.line}: {fault.text}" for fault in checked]
