"""The run that the archive makes of trajectories from elsewhere, and their turns as a text that it keeps."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, count
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, TypeAdapter

from harness.archive.typed_records import checked
from harness.core.errors import counted
from harness.core.rankings import GroupRanking, ImportedLine, Ranked
from harness.core.records import BUILT_LATER, Effective, Query, Record, Rollout, Sampling, Trajectory, basis_of
from harness.core.sampled_tokens import SampledTokens
from harness.formats.json_values import length_in_common
from harness.formats.queries import query_from
from harness.formats.training.origins import ImportedTrajectory, LineOrigin
from harness.formats.turns import Message, Tool, Turn
from harness.ranking.rewards import average_ranks, place


class _KeptTokens(Record):
    kept: Annotated[int, Field(ge=0)] = 0
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None


class _KeptTurn(Record):
    kept: Annotated[int, Field(ge=0)] = 0
    """How many messages of the turn before the context begins with; `context` holds those after them."""
    context: tuple[Message, ...]
    completion: tuple[Message, ...]
    agent: str | None = None
    model: str | None = None
    within: str | None = None
    tools: tuple[Tool, ...] | None = None
    """None: those of the turn before."""
    output_schema: dict[str, Any] | None = None
    lost: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = ((), (), ())
    tokens: _KeptTokens | None = None


_KEPT: TypeAdapter[list[_KeptTurn]] = TypeAdapter(list[_KeptTurn], config=BUILT_LATER)


def pack_turns(turns: Iterable[Turn]) -> str:
    """Return turns as JSON."""
    packed: list[dict[str, Any]] = []
    before: Turn | None = None
    for turn in turns:
        kept = length_in_common(turn.context, before.messages if before else ())
        fields: dict[str, Any] = {"kept": kept, "context": turn.context[kept:], "completion": turn.completion}
        fields |= {name: value for name in ("agent", "model", "within") if (value := getattr(turn, name)) is not None}
        if before is None or turn.tools != before.tools:
            fields["tools"] = turn.tools
        if turn.output_schema:
            fields["output_schema"] = dict(turn.output_schema)
        if turn.lost:
            fields["lost"] = (turn.lost_context, turn.lost_completion, turn.lost_tools)
        if tokens := turn.tokens:
            kept = length_in_common(tokens.prompt_ids, before.tokens.all_ids if before and before.tokens else ())
            fields["tokens"] = {"kept": kept, "prompt_ids": tokens.prompt_ids[kept:], "ids": tokens.ids}
            fields["tokens"] |= {} if tokens.logprobs is None else {"logprobs": tokens.logprobs}
        packed.append(fields)
        before = turn
    return json.dumps(packed, ensure_ascii=False)


def unpack_turns(text: str, where: object) -> tuple[Turn, ...]:
    """Return what `pack_turns` was given. Raises ArchiveDamaged naming `where` for a text that it never gave."""
    return checked(text, _unpacked, where)


def _unpacked(text: str) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    shown: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    ids: tuple[int, ...] = ()
    for kept in _KEPT.validate_python(json.loads(text)):
        tools, told, tokens = tools if kept.tools is None else kept.tools, kept.tokens, None
        if told:
            tokens = SampledTokens((*ids[: told.kept], *told.prompt_ids), told.ids, told.logprobs)
        turn = Turn(
            agent=kept.agent,
            model=kept.model,
            context=(*shown[: kept.kept], *kept.context),
            completion=kept.completion,
            tools=tools,
            output_schema=kept.output_schema,
            within=kept.within,
            lost_context=kept.lost[0],
            lost_completion=kept.lost[1],
            lost_tools=kept.lost[2],
            tokens=tokens,
        )
        shown, ids = turn.messages, tokens.all_ids if tokens else ()
        turns.append(turn)
    return tuple(turns)


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

    def add(self, index: int, trajectory: ImportedTrajectory, rollout: Rollout | None) -> None:
        """Note what a line says of a rollout, and the record that was made of it."""
        self._gained[index] = Ranked(
            index=index, reward=trajectory.reward, advantage=trajectory.advantage, uncertainty=trajectory.uncertainty
        )
        if self.origin.format in {"dpo", "openai-preference"}:
            self._sides.append(index)
        if trajectory.line and trajectory.line.line:
            self._lines[trajectory.line.line] = None
        if rollout:
            self._members[rollout.index] = rollout.status, rollout.started_at

    def placed(self) -> set[int]:
        """Return the rollouts that have a place: those with a reward, or all that preferences name."""
        by_reward = self.origin.format in {"groups", "art"}
        return {index for index, row in self._gained.items() if not by_reward or row.reward is not None}

    def without_place(self) -> list[int]:
        """Return the rollouts that ended well and have no place, since they came without a reward."""
        return sorted(self._gained.keys() - self.placed() - {i for i, of in self._members.items() if of[0] != "ok"})

    def ranking(self, query: str) -> GroupRanking:
        """Return the ranking of the query: by reward, or by how often a rollout was preferred, less how often not."""
        better, worse = self._sides[::2], self._sides[1::2]
        if self.origin.format in {"groups", "art"}:
            ranks = average_ranks({index: row.reward for index, row in self._gained.items() if row.reward is not None})
            ranked = [
                row.model_copy(update={"rank": float(ranks[index])}) if index in ranks else row
                for index, row in sorted(self._gained.items())
            ]
        else:
            won = Counter(better)
            won.subtract(worse)
            placed = place({index: won[index] for index in self._gained})
            ranked = [
                Ranked(index=index, rank=at.rank, reward=at.reward, advantage=at.advantage)
                for index, at in sorted(placed.items())
            ]
        notes = ["The places were imported: no judge was asked."]
        if left := self.without_place():
            came = f"{counted(len(left), 'rollout')} came without a reward, and without a place therefore"
            notes.append(f"{came}: {', '.join(map(str, left))}.")
        return GroupRanking(
            query=query,
            topology=BROUGHT,
            estimator=BROUGHT,
            status="complete",
            signal=self.origin.signal,
            rollouts=tuple(ranked),
            basis=basis_of((index, *self._members[index]) for index in sorted(self._members)),
            origin=self.origin.format,
            judge=self.origin.judge,
            pairs=tuple(zip(better, worse, strict=True)),
            lines=tuple(self._lines),
            notes=tuple(notes),
        )


PartRanked = Literal["wholly", "in part", "not at all"]


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
    shared: dict[str, dict[str, JsonValue]] = field(default_factory=dict[str, dict[str, JsonValue]])
    """Texts and numbers of the metadata that all rollouts so far share, by query id."""
    unplaced: Counter[str] = field(default_factory=Counter[str])
    """In how many trajectories so far each thing stood that no record has a place for."""

    places: dict[str, ImportedPlaces] = field(default_factory=dict[str, ImportedPlaces])
    """What lines of training data say of their rollouts, by query id."""
    _ids: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The id of a query here, by the id there and the key of its line."""
    _taken: set[str] = field(default_factory=set[str])
    _indices: dict[tuple[str, int | None, str | None], int] = field(
        default_factory=dict[tuple[str, int | None, str | None], int]
    )
    """The rollouts so far that have a number or a content of their own, by query id."""
    _used: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """The query id and number of each rollout so far."""

    def query(self, trajectory: ImportedTrajectory) -> Query | None:
        """Return a trajectory's query if it is the first of its group, else None."""
        query = self._query(trajectory)
        return None if query.id in self.counts else query

    def rollout(self, trajectory: ImportedTrajectory) -> Rollout | None:
        """Return a trajectory as the next rollout of its group; None for one that is there already."""
        query = self._query(trajectory)
        plain = {key: value for key, value in trajectory.metadata.items() if isinstance(value, str | int | float)}
        self.shared[query.id] = {k: v for k, v in self.shared.get(query.id, plain).items() if plain.get(k) == v}
        self.unplaced.update(set(trajectory.unplaced))
        key = query.id, trajectory.index, trajectory.content
        if key in self._indices:
            index, rollout = self._indices[key], None
        else:
            number = self.counts.get(query.id, 0)
            self.counts[query.id] = number + 1
            named = [] if trajectory.index is None else [trajectory.index]
            index = next(each for each in chain(named, count(number)) if (query.id, each) not in self._used)
            self._used.add((query.id, index))
            if key[1:] != (None, None):
                self._indices[key] = index
            rollout = self._made(query, index, trajectory)
        if trajectory.line:
            places = self.places.setdefault(query.id, ImportedPlaces(trajectory.line))
            places.add(index, trajectory, rollout)
        return rollout

    def ranked(self, query: str) -> PartRanked:
        """Return whether the files give places to all of a query's rollouts that ended well, to some, or to none."""
        places = self.places.get(query)
        if places is None or not places.placed():
            return "not at all"
        return "in part" if places.without_place() else "wholly"

    def _query(self, trajectory: ImportedTrajectory) -> Query:
        """Return the query of a trajectory. A group of its own whose id is taken gets another one here."""
        query = query_from(trajectory.query, reference=trajectory.reference, id=trajectory.query_id)
        name = query.id, trajectory.line.key if trajectory.line else trajectory.apart
        if name not in self._ids:
            others = (f"{query.id}#{number}" for number in count(2))
            self._ids[name] = next(each for each in chain((query.id,), others) if each not in self._taken)
            self._taken.add(self._ids[name])
        here = self._ids[name]
        return query if here == query.id else query.model_copy(update={"id": here, "origin_id": query.id})

    def _made(self, query: Query, index: int, trajectory: ImportedTrajectory) -> Rollout:
        model = trajectory.models[0] if trajectory.models else None
        started_at = trajectory.started_at or self.at
        ended_at = trajectory.ended_at or started_at
        return Rollout(
            run=self.run,
            query=query.id,
            index=index,
            origin=trajectory.format,
            origin_id=trajectory.id,
            role=trajectory.role or ("anchor" if self.first_is_anchor and index == 0 else "sample"),
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
