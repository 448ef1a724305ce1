"""A ranking in the making: judges seated, groups ranked, each written down as it is."""

import random
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.archive import RankingHead, RunReader, RunStore
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Query
from harness.core.settings import Settings, as_written
from harness.endpoints import Ceiling
from harness.judging import Jury, ListJury
from harness.pipeline.plan import Prepared, Rescoring
from harness.pipeline.resolve import JudgeSpec, make_jury
from harness.pipeline.surroundings import Surroundings
from harness.ranking import usual_order
from harness.tournament import ESTIMATOR, TOPOLOGY, Rules, rank_group, rank_list
from harness.transcripts import ESTIMATE, counter_for, transcript_budget


@dataclass(frozen=True)
class Buying:
    """Within what verdicts are bought: the runs to look in first, the ceiling, whether anything may be bought."""

    lenders: Sequence[RunReader]
    ceiling: Ceiling
    free: bool = False


@dataclass(frozen=True)
class OpenRanking:
    """A rankings file being written."""

    head: RankingHead
    jury: Jury | ListJury
    settings: Settings
    counter: str
    writer: Any

    async def rank(self, group: Group) -> None:
        """Rank a group and write that down."""
        ranked = await rank_by(group, self.jury, self.settings, self.counter)
        self.writer.add(ranked.model_copy(update={"basis": group.basis}))

    async def rank_or_leave(self, group: Group) -> None:
        """Rank a group, unless --max-cost left some of its rollouts not begun."""
        missing = self.settings.n - len(group.rollouts)
        if missing > 0:
            self.leave(group, f"--max-cost left {missing} rollouts not begun")
        else:
            await self.rank(group)

    def leave(self, group: Group, why: str) -> None:
        """Write a group down as not ranked, for the reason given."""
        listed = isinstance(self.jury, ListJury)
        self.writer.add(_unranked(group, self.settings, why, listed=listed, open_=True))


@asynccontextmanager
async def open_ranking(
    prepared: Prepared | Rescoring,
    store: RunStore,
    surroundings: Surroundings,
    buying: Buying,
) -> AsyncGenerator[OpenRanking]:
    """Open a ranking of the run, and finish it if all goes well; the file is made with its first group."""
    settings, at, counter = prepared.settings, surroundings.clock(), judge_counter(prepared.judge)
    before = store.reader.newest_head()
    if before:  # the newest counts, also if the clock has jumped back
        at = max(at, before.created_at + timedelta(microseconds=1))
    jury, close = make_jury(
        prepared.judge,
        prepared.rubric,
        settings,
        surroundings,
        store=store,
        lenders=buying.lenders,
        ceiling=buying.ceiling,
        free=buying.free,
    )
    head = RankingHead(
        id=f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        created_at=at,
        settings=as_written(settings) | {"order": settings.order or usual_order(settings.topology)},
        judge=prepared.judge.model_dump(mode="json") | {"identity": prepared.judge.identity, "counter": counter},
        rubric=prepared.rubric.label,
        free=buying.free,
    )
    writer = store.open_ranking(head)
    try:
        yield OpenRanking(head, jury, settings, counter, writer)
        if not buying.ceiling.stopped:
            writer.finish()
    finally:
        writer.close()
        await close()


async def rank_by(group: Group, jury: Jury | ListJury, settings: Settings, counter: str) -> GroupRanking:
    """Rank a group by tournament, or in one list where its judges are listwise; `counter` is as `rules_of` takes it.

    The rollouts that --include and --exclude leave out have no place, and a note says so.
    """
    part, rules, rng = taking_part(group, settings), rules_of(settings, counter), rng_of(settings, group.query)
    there = {r.index for r in part.rollouts}
    left = [str(r.index) for r in group.rollouts if r.index not in there]
    note = f"left out, as --include or --exclude asks: rollout{'s' if len(left) > 1 else ''} {', '.join(left)}"
    if left and not part.rollouts:
        return _unranked(group, settings, note, listed=isinstance(jury, ListJury))
    found = await (rank_list if isinstance(jury, ListJury) else rank_group)(part, jury, rules, rng)  # pyright: ignore[reportArgumentType]
    if not left:
        return found
    placed = {r.index: r for r in found.rollouts}
    everyone = tuple(placed.get(r.index) or Ranked(index=r.index) for r in group.rollouts)
    return found.model_copy(update={"rollouts": everyone, "notes": (*found.notes, note)})


def taking_part(group: Group, settings: Settings) -> Group:
    """Return a group less what --include and --exclude leave out of a ranking."""

    def named(words: Iterable[str], index: int) -> bool:
        parts = (word.rpartition("/") for word in words)
        return any(query in {"", group.query.id} and at in {"", str(index)} for query, _, at in parts)

    kept = tuple(
        r
        for r in group.rollouts
        if (not settings.include or named(settings.include, r.index)) and not named(settings.exclude, r.index)
    )
    return group if len(kept) == len(group.rollouts) else group.model_copy(update={"rollouts": kept})


def _unranked(group: Group, settings: Settings, why: str, *, listed: bool, open_: bool = False) -> GroupRanking:
    """Return the ranking of a group of which nobody has a place, for the reason given."""
    return GroupRanking(
        query=group.query.id,
        topology=TOPOLOGY if listed else settings.topology,
        estimator=ESTIMATOR if listed else settings.estimator,
        status="incomplete" if open_ else "complete",
        signal="none",
        rollouts=tuple(Ranked(index=r.index) for r in group.rollouts),
        notes=(why,),
        basis=group.basis,
    )


def rules_of(settings: Settings, counter: str) -> Rules:
    """Return what of the settings a tournament goes by; `counter` is what a judge budget is counted in."""
    return Rules(
        topology=settings.topology,
        budget=settings.budget,
        order=settings.order,
        estimator=settings.estimator,
        reward=settings.reward,
        failed=settings.failed,
        anchor_failed=settings.anchor_failed,
        show_instructions=settings.show_instructions,
        judge_when=settings.judge_when,
        sure=settings.sure,
        text_budget=transcript_budget(settings.judge_budget, counter),
        repeats=settings.judge_repeats,
    )


def rng_of(settings: Settings, query: Query) -> random.Random:
    """Return the chance of one query's tournament: the same for the same seed and query."""
    return random.Random(f"{settings.seed}/{query.id}")


def judge_counter(judge: JudgeSpec) -> str:
    """Name how transcripts are counted for a judge, of a jury for its first; it stands in a ranking's header."""
    return ESTIMATE if judge.offline else counter_for(judge.members[0].model)


def lenders_of(folders: Iterable[Path]) -> list[RunReader]:
    """Open the runs of --reuse, and read where their verdicts are: damage is found before anything is spent."""
    readers = [RunReader(folder) for folder in folders]
    for reader in readers:
        _ = reader.index
    return readers
