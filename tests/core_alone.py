"""What a plain `pip install arena-harness` must do: import, preload, each command's help, and a run without a key.

`python -P tests/core_alone.py` tries it in an environment without extras; `--hide` hides all that only extras bring.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

MAIN_JOB = (
    "run Why? --offline -n 3 -q",
    "show --json",
    "stats",
    "why 0",
    "validate",
    "replay",
    "rescore --estimator bt -q",
    "report",
    "export --format csv -o training --allow-offline",
    "best Why? --offline -n 2 -q",
)


class Hidden:
    """A finder that knows of some packages only that they are not there."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def brought_by_extras() -> set[str]:
    """Return the top-level names of all installed packages that the package does not require without its extras."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - a plain install may lack it
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - a plain install may lack it

    core, open_ = set[str](), [("arena-harness", frozenset[str]())]
    seen = set(open_)
    while open_:
        name, extras = open_.pop()
        core.add(name)
        for required in map(Requirement, requires(name) or ()):
            if required.marker and not any(required.marker.evaluate({"extra": e}) for e in extras or {""}):
                continue
            needed = canonicalize_name(required.name), frozenset(required.extras)
            if needed not in seen:
                seen.add(needed)
                open_.append(needed)
    return {
        name for name, owners in packages_distributions().items() if core.isdisjoint(map(canonicalize_name, owners))
    }


def main() -> None:
    if "--hide" in sys.argv:
        finder: Any = Hidden(brought_by_extras())
        sys.meta_path.insert(0, finder)
    for extra in ("ray", "pyarrow", "matplotlib"):
        try:
            __import__(extra)
        except ModuleNotFoundError:
            continue
        sys.exit(f"{extra} is there: this is no plain install")

    import harness  # noqa: PLC0415 - after what is to be hidden is hidden
    from harness.cli.app import app  # noqa: PLC0415 - after what is to be hidden is hidden

    for name in harness.__all__:
        getattr(harness, name)
    os.environ.update(COLUMNS="80")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": folder,
            "XDG_STATE_HOME": folder,
            "XDG_CACHE_HOME": folder,
        }
        for words in [*(f"{command} --help" for command in app.commands), *MAIN_JOB]:
            code = app.main(words.split(), standalone_mode=False, obj=dict(environ))
            assert not code, f"harness {words} exits with {code}"
        harness.preload()
        assert len(list(Path("runs").iterdir())) > 1
    print("core alone: all well")  # noqa: T201


if __name__ == "__main__":
    main()
