"""The ranking that training data brings along: rewards and advantages as a file has them, or which side it prefers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from harness.core.plurals import counted
from harness.core.rankings import GroupRanking, ImportedLine, Ranked
from harness.core.records import Rollout, basis_of
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.training_lines.origins import LineOrigin
from harness.ranking.ranks import average_ranks
from harness.ranking.rewards import place

BROUGHT = "imported"
"""What stands for the topology and the estimator of such a ranking."""


@dataclass
class ImportedPlaces:
    """What the lines of one query say of its rollouts, line after line."""

    origin: LineOrigin
    _members: dict[int, tuple[str, datetime]] = field(default_factory=dict[int, tuple[str, datetime]])
    """Status and start of each rollout."""
    _gained: dict[int, Ranked] = field(default_factory=dict[int, Ranked])
    _sides: list[int] = field(default_factory=list[int])
    """The rollouts of preferences: better, worse, better, worse."""
    _lines: dict[ImportedLine, None] = field(default_factory=dict[ImportedLine, None])

    def add(self, index: int, trajectory: ImportedTrajectory) -> None:
        """Note what a line says of a rollout."""
        self._gained[index] = Ranked(
            index=index,
            reward=trajectory.reward,
            advantage=trajectory.advantage,
            uncertainty=trajectory.uncertainty,
        )
        if self.origin.format in {"dpo", "openai-preference"}:
            self._sides.append(index)
        if trajectory.line and trajectory.line.line:
            self._lines[trajectory.line.line] = None

    def add_rollout(self, rollout: Rollout) -> None:
        """Note the record that was made of a rollout."""
        self._members[rollout.index] = rollout.status, rollout.started_at

    def placed(self) -> set[int]:
        """Return the rollouts that have a place: those with a reward, or all that preferences name."""
        by_reward = self.origin.format in {"groups", "art"}
        return {index for index, row in self._gained.items() if not by_reward or row.reward is not None}

    def without_place(self) -> list[int]:
        """Return the rollouts that ended well and have no place, since they came without a reward."""
        return sorted(self._gained.keys() - self.placed() - {i for i, of in self._members.items() if of[0] != "ok"})

    def ranking(self, query: str) -> GroupRanking:
        """Return the ranking of the query."""
        rows = ((index, *self._members[index]) for index in sorted(self._members))
        ranked = tuple(self._by_reward() if self.origin.format in {"groups", "art"} else self._by_preference())
        return GroupRanking(
            query=query,
            topology=BROUGHT,
            estimator=BROUGHT,
            status="complete",
            signal=self.origin.signal,
            rollouts=ranked,
            basis=basis_of(rows),
            origin=self.origin.format,
            judge=self.origin.judge,
            pairs=tuple(zip(self._sides[::2], self._sides[1::2], strict=True)),
            lines=tuple(self._lines),
            notes=("The places were imported: no judge was asked.", *self._left_out()),
        )

    def _by_reward(self) -> list[Ranked]:
        """Return the rollouts ranked by the rewards that they came with."""
        ranks = average_ranks({index: row.reward for index, row in self._gained.items() if row.reward is not None})
        return [
            row.model_copy(update={"rank": float(ranks[index])}) if index in ranks else row
            for index, row in sorted(self._gained.items())
        ]

    def _left_out(self) -> Iterator[str]:
        """Yield a note on rollouts that ended well and came without a reward."""
        if left := self.without_place():
            came = f"{counted(len(left), 'rollout')} came without a reward, and without a place therefore"
            yield f"{came}: {', '.join(map(str, left))}."

    def _by_preference(self) -> list[Ranked]:
        """Return the rollouts ranked by how often they were preferred, less how often they were not."""
        won = Counter(self._sides[::2])
        won.subtract(self._sides[1::2])
        placed = place({index: won[index] for index in self._gained})
        return [
            Ranked(index=index, rank=at.rank, reward=at.reward, advantage=at.advantage)
            for index, at in sorted(placed.items())
        ]
