"""What a Python call takes from outside: the environment, the clock, the watcher and the agent, each once a call."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
from agents import Agent

from harness.core.clock import Clock, now
from harness.core.progress import Progress, Silent
from harness.core.settings import Settings
from harness.core.settings_sources import environment
from harness.endpoints.credentials import Credentials
from harness.pipeline.rubrics import rubric_of, rubric_of_run
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.loading import LoadedAgent, from_object, load_agent
from harness.tournament.ranker import METHODS, AnyRubric

AnyAgent = Agent[Any] | Callable[..., Any] | ModuleType | Path | str
"""An agent in Python: an Agent, a function that builds one, a module like an agent's file, or what --agent takes."""


class Logged(Silent):
    """Watches in place of the user: what the user should read goes to the log `arena-harness`."""

    def opened(self, folder: Path) -> None:
        """Log where the run is."""
        logging.getLogger("arena-harness").info("run: %s", folder)

    def note(self, text: str) -> None:
        """Log a note."""
        logging.getLogger("arena-harness").warning("%s", text)


def credentials_of(settings: Settings, run_env: RunEnvironment) -> Credentials:
    """Return the keys in force for settings that the caller gave."""
    return Credentials.naming(run_env.environ, settings.base_url, settings.judge_base_url)


def surroundings_of(progress: Progress | None, clock: Clock = now) -> RunEnvironment:
    """Read the environment; without a watcher the log gets the notes."""
    return RunEnvironment(environment(), clock, progress or Logged())


async def rubric_at_hand(settings: Settings, loaded: LoadedAgent | None = None) -> AnyRubric:
    """Return the rubric. A file of the user's is read in a child process: a thread waits for that, not the loop.

    Raises UsageError.
    """
    word = settings.rubric or (loaded.rubric if loaded else None)
    read = partial(rubric_of, settings) if loaded is None else lambda: rubric_of_run(loaded, settings)[1]
    is_packaged = word is None or METHODS[settings.judge].is_packaged(word)
    return read() if is_packaged else await anyio.to_thread.run_sync(read)


def loaded_agent(agent: AnyAgent) -> LoadedAgent:
    """Find or wrap an agent that the caller gave; a name is looked up from the working folder. Raises UsageError."""
    return load_agent(str(agent), Path.cwd()) if isinstance(agent, str | Path) else from_object(agent)
