"""A trajectory made elsewhere, whatever its format, and the run that the archive makes of many."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field, JsonValue, SkipValidation

from harness.core.records import Effective, Failure, Query, Record, Rollout, Sampling, Step, Trajectory, Usage
from harness.formats.kept_turns import pack_turns
from harness.formats.queries import query_from
from harness.formats.turns import Turn


class ImportedTrajectory(Record):
    """One trajectory as read. What the file does not say is None."""

    format: str
    query: str
    query_id: str | None = None
    id: str | None = None
    path: tuple[Step, ...] = ()
    answer: str = ""
    reward: float | None = None
    reference: str | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    instructions: str | None = None
    tool_names: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    temperature: float | None = None
    usage: Usage = Usage()
    price_usd: float | None = None
    failure: Failure | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    turns: SkipValidation[tuple[Turn, ...]] = ()
    """The messages as they came; none where a format holds steps alone."""
    unplaced: tuple[str, ...] = ()
    """What else stood there, and no record has a place for, each thing by its name."""


@dataclass
class ImportedRun:
    """Turns trajectories into the queries and rollouts of one run, as they are read; holds ids and counts only.

    Trajectories with one query id form a group, else those with one query text. No rollout is an anchor, since no file
    says that any was greedy, unless the user says that the first of each group is (`first_is_anchor`).
    """

    run: str
    at: datetime
    first_is_anchor: bool = False
    keep: Callable[[str], str] | None = None
    """Stores a text and returns its name; without it the turns of a rollout are not kept."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """Rollouts so far, by query id."""
    unplaced: Counter[str] = field(default_factory=Counter[str])
    """In how many trajectories so far each thing stood that no record has a place for."""

    def query(self, trajectory: ImportedTrajectory) -> Query | None:
        """Return a trajectory's query if it is the first of its group, else None."""
        query = _query(trajectory)
        return None if query.id in self.counts else query

    def rollout(self, trajectory: ImportedTrajectory) -> Rollout:
        """Return a trajectory as the next rollout of its group."""
        query = _query(trajectory)
        index = self.counts.get(query.id, 0)
        self.counts[query.id] = index + 1
        self.unplaced.update(set(trajectory.unplaced))
        model = trajectory.models[0] if trajectory.models else None
        started_at = trajectory.started_at or self.at
        ended_at = trajectory.ended_at or started_at
        return Rollout(
            run=self.run,
            query=query.id,
            index=index,
            origin=trajectory.format,
            origin_id=trajectory.id,
            role="anchor" if self.first_is_anchor and index == 0 else "sample",
            requested=Sampling(temperature=trajectory.temperature, model=model),
            effective=Effective(uniform=False, models=trajectory.models),
            status="failed" if trajectory.failure else "ok",
            failure=trajectory.failure,
            turns=self.keep(pack_turns(trajectory.turns)) if self.keep and trajectory.turns else None,
            trajectory=Trajectory(query=query.text, path=trajectory.path, answer=trajectory.answer),
            usage=trajectory.usage,
            price_usd=trajectory.price_usd,
            tool_names=trajectory.tool_names,
            instructions=trajectory.instructions,
            given_reward=trajectory.reward,
            metadata=trajectory.metadata,
            started_at=started_at,
            duration_s=max((ended_at - started_at).total_seconds(), 0.0),
        )


def _query(trajectory: ImportedTrajectory) -> Query:
    return query_from(trajectory.query, reference=trajectory.reference, id=trajectory.query_id)
