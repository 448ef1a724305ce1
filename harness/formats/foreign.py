"""A trajectory made elsewhere, whatever it was written in, and what the archive makes of many."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field, JsonValue

from harness.core.records import Effective, Failure, Query, Record, Rollout, Sampling, Step, Trajectory, Usage
from harness.formats.queries import query_from


class Foreign(Record):
    """One trajectory as read. What the file does not tell is None."""

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


@dataclass
class Importing:
    """Turns trajectories into the queries and rollouts of one run, as they are read; holds ids and counts only.

    Those with one query id form a group, else those with one query text. No rollout is an anchor, since nothing tells
    that any was greedy, unless the user says that the first of each group is (`first_is_anchor`).
    """

    run: str
    at: datetime
    first_is_anchor: bool = False
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def query(self, told: Foreign) -> Query | None:
        """Return a trajectory's query if it is the first of its group, else None."""
        query = _query(told)
        return None if query.id in self.counts else query

    def rollout(self, told: Foreign) -> Rollout:
        """Return a trajectory as the next rollout of its group."""
        query = _query(told)
        index = self.counts.get(query.id, 0)
        self.counts[query.id] = index + 1
        began, ended = told.started_at or self.at, told.ended_at or told.started_at or self.at
        return Rollout(
            run=self.run,
            query=query.id,
            index=index,
            origin=told.format,
            origin_id=told.id,
            role="anchor" if self.first_is_anchor and index == 0 else "sample",
            requested=Sampling(temperature=told.temperature, model=told.models[0] if told.models else None),
            effective=Effective(uniform=False, models=told.models),
            status="failed" if told.failure else "ok",
            failure=told.failure,
            trajectory=Trajectory(query=query.text, path=told.path, answer=told.answer),
            usage=told.usage,
            price_usd=told.price_usd,
            tool_names=told.tool_names,
            instructions=told.instructions,
            given_reward=told.reward,
            metadata=told.metadata,
            started_at=began,
            duration_s=max((ended - began).total_seconds(), 0.0),
        )


def joined(thought: str | None, said: str | None) -> str | None:
    """Return what was thought, then what was said; None for neither."""
    return "\n".join(filter(None, [thought, said])) or None


def uncalled(thought: str | None, said: str | None) -> list[Step]:
    """Return what was thought and said without a call as a step, or none."""
    both = joined(thought, said)
    return [Step(kind="reasoning" if thought else "message", reasoning=both)] if both else []


def _query(told: Foreign) -> Query:
    given = told.query_id or "q" + hashlib.sha256(told.query.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return query_from(told.query, reference=told.reference, id=given)
