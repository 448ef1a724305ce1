"""Ends what runs in a folder of workspaces, and removes the folder, once the process that made it is gone.

The SDK's local sandbox starts commands in sessions of their own, so no signal to the harness reaches them. This file is
also a program of its own, which needs nothing but the standard library: it waits for the end of its input.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_ROUNDS, _PAUSE_S = 20, 0.1
_PROC = Path("/proc")


def left_running(proc: Path = _PROC) -> str | None:
    """Return in words what is left running on a system that does not tell of its processes as Linux does, else None."""
    if (proc / "self" / "environ").exists():
        return None
    return "this system has no /proc, so what a command leaves running outlives its rollout"


def processes_in(folder: str, proc: Path = _PROC) -> Iterator[int]:
    """Yield the processes whose home, or working folder, is in a folder; none where `left_running` has words."""
    for process in proc.glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            places = [os.fsdecode(v.removeprefix(b"HOME=")) for v in variables if v.startswith(b"HOME=")]
            places.append(str((process / "cwd").readlink()))
        except OSError:  # it has ended, or is another user's
            continue
        if any(f"{place}/".startswith(f"{folder}/") for place in places) and int(process.name) != os.getpid():
            yield int(process.name)


def kill_in(folder: str) -> None:
    """Kill the processes in a folder, and what they start meanwhile."""
    for _ in range(_ROUNDS):
        found = [*processes_in(folder)]
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not found:
            return
        time.sleep(_PAUSE_S)


def watch(folder: str) -> None:
    """Wait until whoever holds the other end of the input is gone; then leave nothing in the folder, nor of it."""
    sys.stdin.buffer.read()
    kill_in(folder)
    for options in (("-rf", "--one-file-system"), ("-rfx",)):  # GNU's, and BSD's as on macOS: no other file system
        subprocess.run(["rm", *options, "--", folder], check=False)  # noqa: S603, S607 - as POSIX has it


if __name__ == "__main__":
    watch(sys.argv[1])
