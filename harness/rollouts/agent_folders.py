"""The folders in which `--agent NAME` finds files: nothing is looked for inside of a run folder."""

from collections.abc import Iterator
from pathlib import Path

from harness.core.run_folders import enclosing_run
from harness.rollouts.examples import examples_folder


def agent_folders(here: Path) -> list[Path]:
    """Return the folders that there are, the one in `here` first."""
    folders = (here / "agents_config", examples_folder())
    return [folder for folder in folders if folder.is_dir() and not run_around(folder)]


def agent_files(here: Path) -> Iterator[Path]:
    """Yield the files that `--agent NAME` finds, those in `here` first."""
    for folder in agent_folders(here):
        yield from sorted(p for p in folder.glob("*.py") if not (p.name.startswith("_") or run_around(p)))


def run_around(path: Path) -> str | None:
    """Return the run folder that a path is in; the packaged examples are ours, wherever they are installed."""
    return None if path.resolve().is_relative_to(examples_folder()) else enclosing_run(path)
