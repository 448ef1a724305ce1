"""How the user called the harness, for the commands that messages tell people to type."""

import shlex
import shutil
import sys
from pathlib import Path

_SCRIPT = "harness"


def program() -> str:
    """Return what to type in place of `harness`: the script that was called, else this very Python with the module.

    The virtual environment may not be activated: then the name alone would find nothing, or another one.
    """
    script = Path(sys.argv[0])
    if script.name != _SCRIPT:
        return f"{shlex.quote(_from_here(Path(sys.executable), 'python'))} -m harness"
    return shlex.quote(_from_here(script, _SCRIPT))


def _from_here(path: Path, name: str) -> str:
    """Return `name` where the shell finds `path` by it, else the path, relative if it is below this folder."""
    by_name = shutil.which(name)
    if str(path) == name or (by_name and Path(by_name) == path):
        return name
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
