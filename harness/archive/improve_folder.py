"""The folder of an improvement: candidates' runs and their comparisons in `runs/`, the gate's in `gate/`, proposals.

`improve.json` is written once, and a file in `proposals/` as soon as a round's children are paid for. All else is told
by the runs and comparisons, which are ordinary ones: what a kill leaves behind is gone on with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.lines import LONGEST, parse
from harness.archive.reader import RunReader
from harness.archive.run_files import read_file, write_file
from harness.archive.run_info import IMPROVE_FILE, Archived, list_archived, read_info_file
from harness.archive.typed_records import checked
from harness.core.cost import NOTHING, Cost, total_cost
from harness.core.errors import ArchiveDamaged, CannotWrite
from harness.core.improvements import ImproveInfo, Improvement, Proposal
from harness.core.records import to_json

RESULT = "improved"
"""What a user takes away: the instructions, their diff, the page, the JSON."""
T = TypeVar("T")


@dataclass(frozen=True)
class Spent:
    """What an improvement took so far."""

    rollouts: int = 0
    rolled_out: Cost = NOTHING
    verdicts: int = 0
    judged: Cost = NOTHING
    proposals: int = 0
    proposed: Cost = NOTHING

    @property
    def cost(self) -> Cost:
        """USD in all."""
        return self.rolled_out + self.judged + self.proposed

    def likely(self, rollouts: float, verdicts: float) -> float:
        """Return what so many more are likely to cost, at the mean price so far."""
        each = self.rolled_out.known / max(1, self.rollouts), self.judged.known / max(1, self.verdicts)
        return rollouts * each[0] + verdicts * each[1]


@dataclass(frozen=True)
class ImproveFolder:
    """An improvement on disk."""

    path: Path

    @classmethod
    def alike(cls, runs_dir: Path, key: str) -> list[Self]:
        """Return the improvements with a key, oldest first. Raises UsageError, ArchiveDamaged."""
        there = [cls(path) for path, kind in list_archived(runs_dir) if kind == "improvement"]
        return [folder for folder in there if folder.info().key == key]

    @property
    def runs(self) -> Path:
        """Where candidates' runs and their comparisons are."""
        return self.path / "runs"

    @property
    def gate(self) -> Path:
        """The same of the gate."""
        return self.path / "gate"

    @classmethod
    def make(cls, runs_dir: Path, info: ImproveInfo) -> Self:
        """Make the folder of a new improvement. Raises CannotWrite."""
        folder = cls(runs_dir / info.id)
        try:
            folder.runs.mkdir(parents=True)
            folder.gate.mkdir()
            folder._proposal(1).parent.mkdir()
            write_file(folder.path / IMPROVE_FILE, to_json(info))
        except OSError as exc:
            raise CannotWrite(f"cannot write {folder.path}: {exc.strerror}") from exc
        return folder

    def info(self) -> ImproveInfo:
        """Return `improve.json`. Raises ArchiveDamaged, NeedsUpgrade."""
        return read_info_file(self.path / IMPROVE_FILE, "improvement", ImproveInfo.model_validate)[0]

    def result(self) -> Improvement | None:
        """Return what the improvement came to; None before its end. Raises ArchiveDamaged."""
        path = self.path / RESULT / "improvement.json"
        if not path.exists():
            return None
        return _read(path, Improvement.model_validate).model_copy(update={"path": str(self.path)})

    def proposals(self) -> list[Proposal]:
        """Return what the rounds proposed, in their order. Raises ArchiveDamaged, also for what no round proposes."""
        found, candidates, info = list[Proposal](), 1, self.info()
        while (path := self._proposal(len(found) + 1)).exists():
            proposal = _read(path, Proposal.model_validate)
            if fault := _fault_of(proposal, len(found) + 1, candidates, info):
                raise ArchiveDamaged(f"{path}: {fault}")
            found.append(proposal)
            candidates += len(proposal.children)
        return found

    def keep(self, proposal: Proposal) -> None:
        """Keep what a round proposed, on the disk. Raises CannotWrite."""
        write_file(self._proposal(proposal.round), to_json(proposal))

    def _proposal(self, round_: int) -> Path:
        return self.path / "proposals" / f"{round_:04}.json"

    def _parts(self) -> list[Archived]:
        there = [archived for runs in (self.runs, self.gate) for archived in list_archived(runs)]
        return [archived for archived in there if archived.kind != "improvement"]  # a stranger's may hold itself

    def whole_parts(self) -> list[Archived]:
        """Return the runs and comparisons, once all else is read. Raises ArchiveDamaged, NeedsUpgrade, UsageError."""
        self.info()
        self.proposals()
        self.result()
        return self._parts()

    def spent(self) -> Spent:
        """Return what everything took, from what is kept of it. Raises ArchiveDamaged."""
        rollouts = verdicts = 0
        rolled_out, judged = Cost(), Cost()
        for folder, kind in self._parts():
            with RunReader(folder) if kind == "run" else ComparisonReader(folder) as reader:
                if isinstance(reader, RunReader):
                    costs = [place.cost for made in reader.index.rollouts.values() for place in made.values()]
                    rollouts, rolled_out = rollouts + len(costs), rolled_out + total_cost(costs)
                for verdict in reader.verdicts():
                    if verdict.source is None:
                        verdicts, judged = verdicts + 1, judged + verdict.cost
        proposals = self.proposals()
        proposed = sum((proposal.cost for proposal in proposals), Cost())
        return Spent(rollouts, rolled_out, verdicts, judged, len(proposals), proposed)


def _read(path: Path, validate: Callable[[Any], T]) -> T:
    try:
        return checked(parse(read_file(path, LONGEST)), validate, path)
    except ValueError as exc:
        raise ArchiveDamaged(f"{path}: Invalid JSON: {exc}") from None


def _fault_of(proposal: Proposal, round_: int, candidates: int, info: ImproveInfo) -> str | None:
    """Return what is wrong with a round's proposal, which comes after so many candidates."""
    known, children = range(candidates), proposal.children
    if len(children) > info.rules.children + 1 or [child.number for child in children] != [
        *range(candidates, candidates + len(children))
    ]:
        return "its children are too many, or not numbered on from the candidates before them"
    rounds = {proposal.round, *(child.round for child in children)}
    parents = {proposal.parent, *(parent for child in children for parent in child.parents)}
    if rounds != {round_} or not all(parent in known for parent in parents):
        return "it names another round, or a parent that is not among the candidates before it"
    if any(child.parts.keys() != info.root.keys() for child in children):
        return "a child has other parts than the agent"
    return None
