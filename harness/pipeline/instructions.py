"""--instructions: what the starting agent is told in place of its own, read from a file now or kept in the run."""

from dataclasses import replace

from harness.archive.reader import RunReader
from harness.core.errors import UsageError, on_a_line
from harness.core.settings import Settings
from harness.core.user_files import read_text
from harness.core.wording import call, option
from harness.rollouts.loading import LoadedAgent

_MOST = 1_000_000


def with_instructions(loaded: LoadedAgent, settings: Settings) -> LoadedAgent:
    """Return an agent with the instructions that the settings name, unless it has got some. Raises UsageError."""
    if settings.instructions is None or loaded.instructions is not None:
        return loaded
    name = f"{option('instructions')} {on_a_line(settings.instructions)}"
    text = read_text(settings.instructions, name, most=_MOST)
    if not text.strip():
        raise UsageError(f"{name}: it is empty")
    return replace(loaded, instructions=text)


def with_recorded_instructions(loaded: LoadedAgent, run: RunReader, settings: Settings) -> LoadedAgent:
    """Return the agent of a run with the instructions that the run gave it. Raises UsageError if they are not kept."""
    info = run.info
    if settings.instructions is not None and info.instructions is None:
        raise UsageError(
            f"run {info.id} does not hold the text of its {option('instructions')}, and a file that a run names is not "
            f"read: name the file with {call('resume', run.typed_name, instructions='FILE')}"
        )
    return replace(loaded, instructions=info.instructions)
