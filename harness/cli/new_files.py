"""Files of the user's own that a command writes: never over one that is there, unless the user says so."""

import os
import re
from pathlib import Path

from harness.cli.output import say
from harness.core.errors import CannotWrite, UsageError, command, on_a_line, quoted
from harness.core.run_folders import enclosing_run
from harness.rollouts.examples import copy_of_example

IS_NAME = re.compile("[A-Za-z][A-Za-z0-9_-]{0,99}")


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file, in a new folder where there is none.

    Raises UsageError for a file that is there, unless `force`; CannotWrite where the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        if isinstance(exc, FileExistsError) and path.exists():
            raise _there_already(path) from None
        raise _cannot("write", path, exc) from None


def check_writable(*paths: Path | None) -> None:
    """Raise CannotWrite for a file that could not be written: before work is done for it.

    A file that is there keeps what it holds; of one that is not, its folder is made. Pipes and devices are let be.
    """
    for path in paths:
        there = path is not None and os.path.lexists(path)
        if path is None or (os.path.exists(path) and not (path.is_file() or path.is_dir())):  # noqa: PTH110
            continue  # pathlib's raises for a name that is too long
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("a").close()
            if not there:
                path.unlink()
        except (OSError, ValueError) as exc:
            raise _cannot("write", path, exc) from None


def _cannot(do: str, path: Path, exc: OSError | ValueError) -> CannotWrite:
    return CannotWrite(f"cannot {do} {on_a_line(path)}: {getattr(exc, 'strerror', None) or exc}")


def refuse_existing(path: Path) -> None:
    """Raise UsageError for a file that is there: before work is done for it."""
    if os.path.lexists(path):
        raise _there_already(path)


def _there_already(path: Path) -> UsageError:
    return UsageError(f"{on_a_line(path)} is there already; --force writes over it")


def add_line(path: Path, line: str) -> bool:
    """Add a line to a file that may not be there; False if the line stands in it. Raises CannotWrite."""
    try:
        if path.exists() and line in path.read_text("utf-8").splitlines():
            return False
    except (OSError, ValueError) as exc:
        raise _cannot("add to", path, exc) from None
    append_text(path, f"{line}\n")
    return True


def append_text(path: Path, text: str) -> None:
    """Add text to a file that may not be there, from the beginning of a line. Raises CannotWrite."""
    try:
        with path.open("a+", encoding="utf-8") as file:
            file.seek(0)
            before = file.read()
            file.write(text if not before or before.endswith("\n") else f"\n{text}")
    except (OSError, ValueError) as exc:
        raise _cannot("add to", path, exc) from None


def new_agent(name: str, source: str, *, force: bool) -> None:
    """Copy a packaged example agent into agents_config/, ready to edit."""
    if not IS_NAME.fullmatch(name):
        raise UsageError(f"{quoted(name)}: a name of letters, digits, - and _ is expected, such as `poet`")
    files = copy_of_example(source, name)
    if run := enclosing_run(Path.cwd()):
        raise UsageError(f"this is inside of the run folder {run}, where no agent is loaded from: go elsewhere")
    folder = Path("agents_config")
    own, *beside = files
    write_new(folder / own, files[own], force=force)
    for companion in beside:
        if not (folder / companion).exists():
            write_new(folder / companion, files[companion], force=False)
    say(f"{folder / own}: a copy of {source}, ready to edit")
    again = command(f"run --agent {name}")
    say(f"next: {again}\nnext: {again} --offline")
