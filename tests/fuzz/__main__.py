"""The long fuzzer: `python -m tests.fuzz --inputs 2000 --seed 1` attacks the commands with every kind of input.

It prints a table (kind, inputs, command lines, tracebacks, hangs, bytes changed outside, other faults), and exits 1 on
any fault. The input of each fault is kept, with the command line and its output. An input goes by kind, seed and number
alone: `--only KIND --seed SEED --first NUMBER --inputs 1` tries it again.
"""

import argparse
import json
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.attacks import Attack, Fault, Prepare, Room, faults_of, kinds
from tests.nursery import import_everything

_COLUMNS = ("traceback", "hang", "outside")
_MEMORY = 6 << 30
"""Bytes: a command that reads without end runs into an error, not into the machine's other work."""
_TOLD_EACH = 400
"""Characters of stdout that are kept with a fault."""


@dataclass
class Tally:
    """What came of one kind of attack."""

    inputs: int = 0
    lines: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter[str])

    def row(self, kind: str) -> tuple[str, ...]:
        counted = [self.faults[column] for column in _COLUMNS]
        others = self.faults.total() - sum(counted)
        figures = (self.inputs, self.lines, *counted, others)
        return (kind, *map(str, figures), f"{self.seconds:.0f}")


def main() -> None:
    options = _options()
    chosen = {name: prepare for name, prepare in kinds().items() if options.only in {None, name}}
    if not chosen:
        sys.exit(f"no kind {options.only!r}; there are: {', '.join(kinds())}")
    tallies = {name: Tally() for name in chosen}
    import_everything()  # else the first command seems to hang on a machine with other work
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        for number in range(options.first, options.first + options.inputs):
            kind = list(chosen)[number % len(chosen)]
            _one(kind, chosen[kind], number, tallies[kind], options)
    finally:
        _print_table(tallies)
    sys.exit(1 if any(tally.faults for tally in tallies.values()) else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=2000, help="how many, over all kinds [default: 2000]")
    parser.add_argument("--seed", type=int, default=1, help="[default: 1]")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input [default: 0]")
    parser.add_argument("--only", metavar="KIND", help="one kind [default: all]")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="where faults are kept")
    return parser.parse_args()


def _one(kind: str, prepare: Prepare, number: int, tally: Tally, options: argparse.Namespace) -> None:
    """Attack with one input. It goes by kind, seed and number alone, whatever was tried before."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="harness-fuzz-", ignore_cleanup_errors=True) as top:
        room = Room.make(Path(top) / "room")
        attack = prepare(random.Random(f"{options.seed}/{kind}/{number}"), room)
        kept = options.failures / f"{kind}-{options.seed}-{number}"
        shutil.copytree(room.top, Path(top) / "before", symlinks=True, copy_function=_copy)
        faults = faults_of(attack, room)
        if faults:
            _keep(kept, Path(top) / "before", attack, faults)
    tally.inputs += 1
    tally.lines += len(attack.lines)
    tally.seconds += time.monotonic() - started
    tally.faults.update(fault.what.partition(":")[0] for fault in faults)
    for fault in faults[:3]:
        sys.stdout.write(f"{kind} {number}: {fault}\n")
        sys.stdout.flush()


def _copy(source: str, target: str) -> None:
    if Path(source).is_file():  # a FIFO would wait for whoever writes to it
        shutil.copy2(source, target)


def _keep(kept: Path, before: Path, attack: Attack, faults: Sequence[Fault]) -> None:
    """Write what reproduces the faults: the folders as they were, the command lines, and how each ended."""
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    shutil.copytree(before, kept / "room", symlinks=True, copy_function=_copy)
    (kept / "stdin").write_bytes(attack.stdin)
    ended = [
        {
            "what": fault.what,
            "argv": fault.outcome.argv,
            "code": fault.outcome.code,
            "err": fault.outcome.err_text,
            "out": fault.outcome.out_text[:_TOLD_EACH],
            "traceback": fault.outcome.traceback,
        }
        for fault in faults
    ]
    told = {"input": attack.input, "environ": dict(attack.environ), "faults": ended}
    (kept / "faults.json").write_text(json.dumps(told, indent=1))


def _print_table(tallies: dict[str, Tally]) -> None:
    total = Tally()
    for tally in tallies.values():
        total.inputs += tally.inputs
        total.lines += tally.lines
        total.seconds += tally.seconds
        total.faults += tally.faults
    heads = ("kind", "inputs", "command lines", "tracebacks", "hangs", "changed outside", "other faults", "seconds")
    rows = [heads, *(tally.row(kind) for kind, tally in tallies.items()), total.row("all")]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    for row in rows:
        figures = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        sys.stdout.write("  ".join([row[0].ljust(widths[0]), *figures]) + "\n")


if __name__ == "__main__":
    main()
