"""Links, FIFOs, holes and folders in a run where files should be, and links among the runs."""

import os
import random
import shutil
from pathlib import Path

from tests.fuzz.attacks import Attack, Room, some
from tests.fuzz.commands import Values, lines_reading

_FOLDERS = ("blobs", "queries", "rollouts", "verdicts", "rankings", "damaged")
_FILES = ("run.json", "run.lock", "report.html", "report", "index.sqlite", "notes")
_THINGS = ("link", "link to outside", "dead link", "link to itself", "device", "FIFO", "folder")
_HOLE = 300_000_000
"""More than a line may have; the frame copies these bytes before each attack."""


def prepare(rng: random.Random, room: Room) -> Attack:
    """A run with up to three strange things in it, and beside it one that is whole."""
    run = room.add_run()
    room.add_run(name="20250101T000000-search-aaaaaa")
    done = [_put(rng, room, _place(rng, run)) for _ in range(rng.choice((1, 1, 2, 3)))]
    if rng.random() < 0.25:
        done += _made_huge(rng, room, run)  # last: what is moved outside is read by the snapshots
    if rng.random() < 0.05 and not done[-1].endswith("bytes"):
        done.append(_put(rng, room, run))
    lines = lines_reading(Values(run=run.name))
    return Attack(input="; ".join(done), lines=[*some(rng, lines, 3), ("validate", "--repair", run.name), ("ls",)])


def _put(rng: random.Random, room: Room, path: Path) -> str:
    thing = rng.choice(_THINGS)
    path.parent.mkdir(exist_ok=True, parents=True)
    if thing == "link" and os.path.lexists(path):
        target = room.outside / f"moved-{rng.randrange(10**9)}"
        path.rename(target)
        path.symlink_to(target)
        return f"{path.relative_to(room.work)}: moved outside and linked"
    _remove(path)
    if thing == "FIFO":
        os.mkfifo(path)
    elif thing == "folder":
        path.mkdir()
    else:
        targets = {"device": "/dev/zero", "dead link": room.outside / "nothing", "link to itself": path.name}
        outside = room.outside / rng.choice(("canary", "canary.jsonl", "folder", "."))
        path.symlink_to(targets.get(thing, outside))
    return f"{path.relative_to(room.work)}: {thing}"


def _made_huge(rng: random.Random, room: Room, run: Path) -> list[str]:
    """Add a hole to the end of a plain file of the run."""
    plain = [p for p in (run / "run.json", *run.rglob("*.jsonl")) if p.is_file() and not p.is_symlink()]
    paths = [p for p in plain if not p.parent.is_symlink()]
    for path in rng.sample(sorted(paths), min(1, len(paths))):
        with path.open("ab") as file:
            file.truncate(_HOLE)
        return [f"{path.relative_to(room.work)}: {_HOLE} bytes"]
    return []


def _place(rng: random.Random, run: Path) -> Path:
    """Return a path in a run that is not below a link."""
    if rng.random() < 0.3:
        return run / rng.choice((*_FILES, *_FOLDERS))
    folder = run / rng.choice(_FOLDERS)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return folder
    stem = next((path.stem for path in sorted(folder.glob("*.jsonl"))), "20250101T000000000000-1-1")
    return folder / rng.choice((f"{stem}.jsonl", f"{stem}.part", f"verdicts-{stem}.jsonl", "zzz.jsonl", "notes"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
