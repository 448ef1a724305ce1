"""Is a run's archive whole, and do its ranks follow from its matches? validate_run(folder, clock).

A ranking is played again by the very code that made it, on the verdicts that its matches name.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from harness.archive.blobs import Blobs
from harness.archive.folder_check import Finding
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.repair import move_aside
from harness.archive.run_store import RunStore
from harness.archive.typed_records import recorded_settings
from harness.archive.validation import findings
from harness.core.clock import Clock
from harness.core.rankings import FIT_VERSION, GroupRanking, Ranked
from harness.core.records import Group
from harness.pipeline.rank_groups import rank_part
from harness.pipeline.recorded_jury import recorded_jury
from harness.rollouts.raw import parts
from harness.tournament.group import rules_of
from harness.tournament.group_ranking import learnt_from_all, refit
from harness.tournament.pairwise import TournamentRanker
from harness.tournament.ranker import METHODS
from harness.transcripts.renderings import is_rendering
from harness.transcripts.tokens import ESTIMATE, is_at_hand

_OF_ROUNDING = 1e-6
_OF_A_SEARCH = 1e-3
"""How far places may be from those of another machine, where a search for the most probable judge is behind them."""


@dataclass(frozen=True)
class Validation:
    """The findings; and after a repair those that remain."""

    findings: tuple[Finding, ...]
    remaining: tuple[Finding, ...]

    @property
    def damaged(self) -> int:
        """How many things are still damaged."""
        return _damage(self.remaining)


def validate_run(folder: Path, clock: Clock, *, repair: bool = False) -> Validation:
    """Look at everything in a run's archive, and play its rankings again.

    With `repair` damaged lines are moved aside, and then those that refer to them, unless there is damage that only a
    person can mend. Raises CannotWrite, ArchiveLocked.
    """
    return validated(folder, _look, lambda: RunStore(folder, clock()), repair=repair)


def validated(
    folder: Path,
    look: Callable[[Path], tuple[Finding, ...]],
    lock: Callable[[], AbstractContextManager[object]],
    *,
    repair: bool,
) -> Validation:
    """Look at a folder, and with `repair` mend it while nobody else writes to it. Raises as `lock` does."""
    before = remaining = look(folder)
    if repair and _damage(before) and not any(finding.by_hand for finding in before):
        last: tuple[Finding, ...] | None = None
        with lock():
            while _damage(remaining) and remaining != last:
                move_aside(folder, [finding for finding in remaining if finding.kind == "damage"])
                last, remaining = remaining, look(folder)
    return Validation(before, remaining)


def _damage(of_folder: tuple[Finding, ...]) -> int:
    return sum(f.kind == "damage" for f in of_folder)


def _look(folder: Path) -> tuple[Finding, ...]:
    blobs = Blobs(folder / "blobs")
    of_records = tuple(findings(folder, lambda name: parts(blobs.get(name))))
    if _damage(of_records):
        return of_records  # ranks are compared once the records are whole
    with RunReader(folder) as reader:
        return (*of_records, *(f for ranking in reader.rankings() for f in _wrong_ranks(reader, ranking)))


def _wrong_ranks(reader: RunReader, ranking: RankingFile) -> Iterator[Finding]:
    """Play a ranking again on the verdicts that its matches name, and compare the places."""
    # rankings from before there was a budget had no limit
    settings = recorded_settings({"judge_budget": 0} | ranking.head.settings, ranking.path)
    if not METHODS[settings.judge].ranks_from_matches:
        return
    path = ranking.path or reader.folder
    counter = str(ranking.head.judge.get("counter", ESTIMATE))
    if not is_at_hand(counter):
        yield Finding("notice", path, f"ranks not compared: {counter} of its transcripts is not on this machine")
        return
    rendering = ranking.head.rendering
    if not is_rendering(rendering):
        yield Finding("notice", path, f"ranks not compared: only a later version writes transcripts in way {rendering}")
        return
    if ranking.head.fit_version != FIT_VERSION:
        yield Finding("notice", path, "ranks not compared: only a later version fits as this ranking was fitted")
        return
    rules = replace(rules_of(settings, counter, rendering), one_of_many=True)
    judge = learnt_from_all(ranking.queries, ranking.stored, rules) if rules.estimator == "pooled" else None
    for stored in ranking.groups:
        group = _ranked_group(reader, stored)
        if group is None or (stored.origin and not stored.matches):  # imported places follow from no match
            continue
        verdicts = [v for match in stored.matches for key in match.verdicts if (v := reader.verdict(key))]
        jury = recorded_jury(verdicts, settings, _seats(stored, reader))
        again = anyio.run(rank_part, TournamentRanker(jury, rules), group, settings)
        if judge and not stored.provisional:
            (again,) = refit(judge, [again], rules)
        if not _same_places(again, stored, _OF_A_SEARCH if judge else _OF_ROUNDING):
            line = ranking.line_of(stored.query)
            yield Finding("damage", path, f"the ranks of {stored.query!r} do not follow from its matches", line)


def _seats(stored: GroupRanking, reader: RunReader) -> dict[str, int]:
    """Return where the jurors sat whose verdicts a ranking names; of nobody where it does not say."""
    named = (pair for match in stored.matches for pair in zip(match.verdicts, match.jurors, strict=False))
    return {verdict.judge: seat for key, seat in named if (verdict := reader.verdict(key))}


def _same_places(again: GroupRanking, stored: GroupRanking, tolerance: float) -> bool:
    places, stored_places = ([_place(r) for r in ranking.rollouts] for ranking in (again, stored))
    return len(places) == len(stored_places) and all(
        (a is None) == (b is None) and (a is None or b is None or abs(a - b) <= tolerance)
        for pair in zip(places, stored_places, strict=True)
        for a, b in zip(*pair, strict=True)
    )


def _ranked_group(reader: RunReader, stored: GroupRanking) -> Group | None:
    """Return the group that a stored ranking claims something of; None where there is nothing to compare."""
    if not stored.matches and all(r.rank is None for r in stored.rollouts):
        return None  # left unranked: it claims nothing
    query = reader.query(stored.query)
    group = query and reader.group(query)
    if group is None or stored.basis not in {"", group.basis}:
        return None  # a newer record of a rollout: the one that it rests on is no longer read
    return group


def _place(ranked: Ranked) -> tuple[float | None, ...]:
    return ranked.index, ranked.rank, ranked.reward, ranked.advantage, ranked.score
