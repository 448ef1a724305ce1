"""Checking a run against its record: validate reads it again, replay drives the agent on it."""

import random
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.improve_folder import ImproveFolder
from harness.archive.reader import Blobs, RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import Archived
from harness.archive.store import ComparisonStore, RunStore
from harness.archive.typed_records import recorded_settings
from harness.archive.validation import Finding, comparison_findings, findings, move_aside
from harness.core.comparisons import ComparedQuery, CrossMatch
from harness.core.errors import UsageError, did_you_mean, quoted
from harness.core.progress import Clock
from harness.core.rankings import FIT_VERSION, GroupRanking, Judged, Unjudged
from harness.core.records import GATEWAY, Failure, Query, Rollout
from harness.core.settings import Api, Settings
from harness.judging.prompt import Task
from harness.judging.verdict_cache import PairJuror, PairJury, PairLedger
from harness.pipeline.rank_groups import rank_part
from harness.pipeline.resolve import make_redactor
from harness.pipeline.trust import agent_of_run, trust_in
from harness.rollouts.loading import AgentEnv, LoadedAgent
from harness.rollouts.packed_calls import parts
from harness.rollouts.raw import RawCall, unpack
from harness.rollouts.replay import Replayed, ReplayOptions, replay_rollout
from harness.rollouts.variation import vary_in
from harness.tournament.group import Rules, recorded_rules
from harness.tournament.group_ranking import learnt_from_all, refit
from harness.tournament.pairwise import CrossPair, TournamentRanker, play_cross
from harness.tournament.ranker import METHODS
from harness.transcripts.tokens import ESTIMATE, can_count_by
from harness.transcripts.transcript import NEWEST_RENDERING, Transcript

_TEXTS = 64
"""Long texts that are kept at hand: the rollouts of a group have system prompts and tools in common."""
_BLOCKS: tuple[dict[str, Any], ...] = ({}, {"path": ""}, {"answer": ""})
_HIDDEN = (*_BLOCKS, *({"record": None, **block} for block in _BLOCKS))
"""What is kept from a judge: a block that the rubric does not mark (`Rubric.shown`), the record from a model."""
_FEWEST = 2
"""Only a jury's ranking names its judges' seats."""
_OF_ROUNDING = 1e-6
_OF_A_SEARCH = 1e-3
"""How far places may be from those of another machine, where a search for the most probable judge is behind them."""
_Place = tuple[int, int]


def _recorded_jury(verdicts: Sequence[Judged], settings: Settings, seats: Mapping[str, int] | None = None) -> PairJury:
    """Seat each juror that gave one of the verdicts; who is in `seats` and gave none of them has nothing to say."""
    seat_of = dict(seats or {})
    free = max(_FEWEST, 1 + max(seat_of.values())) if seat_of else 0
    others = dict.fromkeys(verdict.judge for verdict in verdicts if verdict.judge not in seat_of)
    seat_of |= {judge: free + number for number, judge in enumerate(others)}
    by_seat = {seat: [v for v in verdicts if v.judge == judge] for judge, seat in seat_of.items()}
    seated = range(max(free, 1 + max(by_seat, default=-1)))
    return PairJury([RecordedJuror(by_seat.get(seat, ())) for seat in seated], settings.jury)


class RecordedJuror(PairJuror):
    """Has one judge's recorded verdicts, by the transcripts in the order shown; asks nobody."""

    def __init__(self, verdicts: Sequence[Judged]) -> None:
        self._verdicts = {(v.first, v.second, v.repeat): v for v in verdicts}

    def cached(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Judged | None:
        """Return the recorded verdict; None where there is none."""
        del ledger
        for hidden in _HIDDEN:
            shown = replace(first, **hidden).hash, replace(second, **hidden).hash
            if verdict := self._verdicts.get((*shown, task.repeat)):
                return verdict
        return None

    async def get(self, ledger: PairLedger, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Return the recorded verdict, or a failed one."""
        return self.cached(ledger, task, first, second) or Unjudged(
            key=f"{first.hash}/{second.hash}",
            query="",
            first=first.hash,
            second=second.hash,
            rubric="",
            judge="",
            started_at=datetime.fromtimestamp(0, UTC),
            duration_s=0.0,
            failure=Failure(kind="internal", type="NotThere", message="no match has that verdict"),
        )


@dataclass(frozen=True)
class Validation:
    """The findings; and after a repair those that remain."""

    findings: tuple[Finding, ...]
    remaining: tuple[Finding, ...]

    @property
    def damaged(self) -> int:
        """How many things are still damaged."""
        return _damage(self.remaining)


def validate_parts(archived: Archived, clock: Clock, *, repair: bool = False) -> dict[Path, Validation]:
    """Validate a run or a comparison; of an improvement all of its own. Raises ArchiveDamaged for its other files."""
    improvement = ImproveFolder(archived.folder) if archived.kind == "improvement" else None
    parts = improvement.whole_parts() if improvement else [archived]
    stores = {"comparison": ComparisonStore, "run": RunStore}
    return {folder: validate_folder(folder, clock, stores[kind], repair=repair) for folder, kind in parts}


def validate_folder(
    folder: Path, clock: Clock, store: type[RunStore | ComparisonStore] = RunStore, *, repair: bool = False
) -> Validation:
    """Look at an archive and play its rankings or matches again. Raises as the store does.

    `repair` moves damaged lines aside, while nobody else writes there.
    """
    look = _look_at_run if store is RunStore else _look_at_comparison
    before = remaining = look(folder)
    if repair and _damage(before) and not any(finding.by_hand for finding in before):
        last: tuple[Finding, ...] | None = None
        with store(folder, clock()):
            while _damage(remaining) and remaining != last:
                move_aside(folder, [finding for finding in remaining if finding.kind == "damage"])
                last, remaining = remaining, look(folder)
    return Validation(before, remaining)


def _damage(of_folder: tuple[Finding, ...]) -> int:
    return sum(f.kind == "damage" for f in of_folder)


def _look_at_run(folder: Path) -> tuple[Finding, ...]:
    blobs = Blobs(folder / "blobs")
    get = lru_cache(_TEXTS)(blobs.get)

    def parts_of(name: str) -> Iterator[str]:
        text = blobs.get(name)
        yield from parts(text)
        unpack(text, get, blobs.place(name))  # once its parts are known to be there

    of_records = tuple(findings(folder, parts_of))
    if _damage(of_records):
        return of_records  # ranks are compared once the records are whole
    with RunReader(folder) as reader:
        return (*of_records, *(f for ranking in reader.rankings() for f in wrong_ranks(reader, ranking)))


def wrong_ranks(reader: RunReader, ranking: RankingFile) -> Iterator[Finding]:
    """Play a ranking again, and yield the lines whose ranks do not follow from their matches; or why that cannot be."""
    settings = recorded_settings(ranking.head.settings, ranking.path)
    if not METHODS[settings.judge].ranks_from_matches:
        return
    path = ranking.path or reader.folder
    counter = str(ranking.head.judge.get("counter", ESTIMATE))
    if reason := _incomparable(ranking, counter):
        yield Finding("notice", path, f"ranks not compared: {reason}")
        return
    rules = recorded_rules(ranking.head, settings, counter)
    judge = learnt_from_all(ranking.queries, ranking.stored, rules) if rules.estimator == "pooled" else None
    changed, moved = list[str](), list[str]()
    for stored in ranking.groups:
        again = _played_again(reader, stored, settings, rules)
        if again is None:
            continue
        if judge and not _same_matches(again, stored):
            changed.append(stored.query)
            continue
        if judge and not stored.provisional:
            (again,) = refit(judge, [again], rules)
        if not _same_places(again, stored, _OF_A_SEARCH if judge else _OF_ROUNDING):
            moved.append(stored.query)
    # A changed match changes the judge that is learnt from all, and with it all places: blame is its line's alone.
    for query in changed or moved:
        line = ranking.line_of(query)
        yield Finding("damage", path, f"the ranks of {query!r} do not follow from its matches", line)


def _incomparable(ranking: RankingFile, counter: str) -> str | None:
    """Return why a ranking cannot be played again here; None where it can."""
    if not can_count_by(counter):
        return f"{counter} of its transcripts is not on this machine"
    if ranking.head.rendering > NEWEST_RENDERING:
        return f"only a later version writes transcripts in way {ranking.head.rendering}"
    if ranking.head.fit_version > FIT_VERSION:
        return "only a later version fits as this ranking was fitted"
    return None


def _played_again(reader: RunReader, stored: GroupRanking, settings: Settings, rules: Rules) -> GroupRanking | None:
    """Return what follows from a group's verdicts; None where there is nothing to compare."""
    unranked = all(r.rank is None for r in stored.rollouts)  # it claims nothing
    if not stored.matches and (unranked or stored.origin):  # imported places follow from no match
        return None
    query = reader.query(stored.query)
    group = query and reader.group(query)
    if group is None or stored.basis != group.basis:
        return None  # a newer record of a rollout: the one that it rests on is no longer read
    verdicts = [v for match in stored.matches for key in match.verdicts if (v := reader.verdict(key))]
    of_jury = [match for match in stored.matches if match.jurors]
    named = (pair for match in of_jury for pair in zip(match.verdicts, match.jurors, strict=True))
    seats = {verdict.judge: seat for key, seat in named if (verdict := reader.verdict(key))}
    return anyio.run(rank_part, TournamentRanker(_recorded_jury(verdicts, settings, seats), rules), group, settings)


def _same_matches(again: GroupRanking, stored: GroupRanking) -> bool:
    """Tell whether the same matches ended with the same scores."""
    met, stored_met = ([(m.a, m.b, m.score_a, m.score_b) for m in r.matches] for r in (again, stored))
    return met == stored_met


def _same_places(again: GroupRanking, stored: GroupRanking, tolerance: float) -> bool:
    places, stored_places = (
        [(r.index, r.rank, r.reward, r.advantage, r.score) for r in ranking.rollouts] for ranking in (again, stored)
    )
    return len(places) == len(stored_places) and all(
        (a is None) == (b is None) and (a is None or b is None or abs(a - b) <= tolerance)
        for pair in zip(places, stored_places, strict=True)
        for a, b in zip(*pair, strict=True)
    )


def _look_at_comparison(folder: Path) -> tuple[Finding, ...]:
    of_records = tuple(comparison_findings(folder))
    if _damage(of_records):
        return of_records  # matches are compared once the records are whole
    wrong = list[Finding]()
    with ComparisonReader(folder) as reader:
        for file in reader.files():
            labels = [side.label for side in file.head.sides]
            for line, query in enumerate(file.queries, 2):
                texts = {
                    (side, r.index): Transcript(reader.blobs.get(r.path_blob), reader.blobs.get(r.answer_blob))
                    for side, rollouts in enumerate(query.rollouts)
                    for r in rollouts
                    if r.path_blob and r.answer_blob
                }
                reasons = (*_wrong_texts(query, texts, labels), *_wrong_matches(reader, query, texts, labels))
                where = f"query {query.query!r}"
                wrong += [Finding("damage", file.path, f"{where}: {reason}", line) for reason in reasons]
    return (*of_records, *wrong)


def _wrong_texts(query: ComparedQuery, texts: Mapping[_Place, Transcript], labels: Sequence[str]) -> Iterator[str]:
    """Say which transcripts are not the ones whose hashes the line holds, and which are missing."""
    for side, rollouts in enumerate(query.rollouts):
        for rollout in rollouts:
            text = texts.get((side, rollout.index))
            if text and text.hash != rollout.transcript:
                yield f"the transcript of rollout {rollout.index} of {labels[side]} does not match its hash"
    judged = {place for match in query.matches if match.verdicts for place in _places(match)}
    for side, index in sorted(judged - texts.keys()):
        yield f"rollout {index} of {labels[side]} was judged, and has no transcript"


def _wrong_matches(
    reader: ComparisonReader, query: ComparedQuery, texts: Mapping[_Place, Transcript], labels: Sequence[str]
) -> Iterator[str]:
    stored = [match for match in query.matches if match.winner]  # an open one claims nothing
    if any(match.verdicts and not texts.keys() >= _places(match) for match in stored):
        return
    rollouts = {(side, r.index): r for side, listed in enumerate(query.rollouts) for r in listed}
    verdicts = [v for match in stored for key in match.verdicts if (v := reader.verdict(key))]
    pairs = [CrossPair(match.sides, match.role, match.first, match.second) for match in stored]
    settings, task = reader.settings, Task(query.query, query.text)
    jury, repeats = _recorded_jury(verdicts, settings), settings.judge_repeats
    played = anyio.run(play_cross, pairs, rollouts, texts, task, jury, PairLedger(), repeats)
    for before, again in zip(stored, played.matches, strict=True):
        if before != again:
            first, second = (labels[side] for side in before.sides)
            pair = f"rollout {before.first} of {first} and rollout {before.second} of {second}"
            yield f"the match of {pair} does not follow from its verdicts"


def _places(match: CrossMatch) -> set[_Place]:
    return {(match.sides[0], match.first), (match.sides[1], match.second)}


async def replay_run(
    folder: Path,
    loaded: LoadedAgent | None,
    environ: Mapping[str, str],
    *,
    query: str | None = None,
    rollout: int | None = None,
    live_tools: bool = False,
    trust_archive: bool = False,
) -> AsyncGenerator[Replayed]:
    """Drive the agent's code again on what an archived run recorded: free, offline, and nothing is written.

    Yields each outcome, of one query or rollout where named. Raises UsageError, ArchiveDamaged.
    """
    with RunReader(folder) as reader:
        if origin := next(_chosen(reader, query, rollout))[1].origin:
            what = "was made by another program, whose code" if origin == GATEWAY else "was imported: it holds what"
            raise UsageError(f"run {reader.info.id} {what} no replay can drive again")
        trust = trust_in(reader, environ, trust_archive=trust_archive)
        loaded = loaded or agent_of_run(reader, environ, "replay")
        loaded = replace(loaded, instructions=reader.info.instructions)
        settings = trust.checked(reader.settings) if live_tools else trust.replayed(reader.settings)
        redact = make_redactor(loaded, settings, environ)
        for of_query, recorded in _chosen(reader, query, rollout):
            calls, name = list[RawCall](), recorded.raw_calls
            if name:
                calls = unpack(reader.blobs.get(name), reader.blobs.get, reader.blobs.place(name))
            # a run that does not say which API it spoke shows it: Chat Completions gives the SDK no response id
            spoke: Api = "responses" if any(call.reply.response_id for call in calls) else "chat"
            env = AgentEnv(
                api=reader.info.agent_api or settings.api or spoke,
                offline=reader.info.agent_offline,
                corpus=settings.corpus,
                model=settings.model,
                rng=random.Random(f"{settings.seed}/{recorded.query}/{recorded.index}"),
            )
            options = ReplayOptions(
                settings.max_turns, settings.timeout, redact, reader.blobs.get, live_tools, vary_in(settings)
            )
            yield await replay_rollout(loaded, env, of_query, recorded, calls, options)


def _chosen(reader: RunReader, query: str | None, rollout: int | None) -> Iterator[tuple[Query, Rollout]]:
    """Yield the rollouts of a run that are meant. Raises UsageError where there are none."""
    queries = list(reader.queries())
    if query is not None and query not in (ids := [q.id for q in queries]):
        raise UsageError(f"no query {quoted(query)} in run {reader.info.id}{did_you_mean(query, ids)}")
    pairs = (
        (asked, recorded)
        for asked in queries
        if query in (None, asked.id)
        for recorded in reader.group(asked).rollouts
        if rollout in (None, recorded.index)
    )
    if (first := next(pairs, None)) is None:
        raise UsageError(f"run {reader.info.id} has no rollout {'at all' if rollout is None else rollout}")
    yield first
    yield from pairs
