"""Is a path inside of the folder of a run or a comparison, whose files are data from a stranger?

harness.__main__ asks this before it imports anything else, so only what Python has already loaded is imported here.
"""

import os

MADE_BY = ("run.json", "compare.json", "improve.json")
"""A folder with one of these files is a run, a comparison or an improvement."""


def enclosing_run(path: str | os.PathLike[str]) -> str | None:
    """Return the folder of a run or a comparison that a path is in, or is: the nearest one; None where there is none.

    The path counts as written and with its links followed.
    """
    written = os.path.abspath(path)
    for start in (written, os.path.realpath(written)):
        folder = start
        while True:
            if any(os.path.lexists(os.path.join(folder, name)) for name in MADE_BY):
                return folder
            parent = os.path.dirname(folder)
            if parent == folder:
                break
            folder = parent
    return None


def leave_run_folder_out(search_path: list[str]) -> None:
    """Take the working folder, where `python -m` put it first, off the path of modules if it is in a run folder."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed meanwhile
        return
    if search_path and os.path.abspath(search_path[0]) == here and enclosing_run(here):
        del search_path[0]
