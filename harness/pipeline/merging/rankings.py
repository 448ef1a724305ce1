"""Rankings of merged runs: of each ranking that all runs have and have finished, one of all groups is made.

Groups are ranked each by itself, so their lines are taken as they are. Not so with `pooled`, which learns the judge
from all groups: there the groups are told anew from the matches that they hold. No verdict is bought for either.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from harness.archive.merging import write_ranking
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.typed_records import RankingHead, recorded_settings
from harness.core.rankings import GroupRanking
from harness.pipeline.merging.likeness import counting
from harness.tournament.group import Rules, rules_of
from harness.tournament.pooling import learnt_from_all, told_by
from harness.tournament.ranker import METHODS


@dataclass(frozen=True)
class JoinedRanking:
    """A ranking that all runs have: the file of each, in the order of the runs."""

    files: Sequence[RankingFile]

    @property
    def queries(self) -> list[str]:
        """The queries of its groups, in the order in which they are written."""
        return [query for file in self.files for query in file.queries]

    def head(self, at: datetime, runs_dir: Path) -> RankingHead:
        """Return the head of the ranking of all groups, made `at` this time for a run in `runs_dir`."""
        head = self.files[0].head
        settings = {name: value for name, value in head.settings.items() if name != "shard"}
        settings["runs_dir"] = str(runs_dir)
        changes = {"id": f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", "created_at": at, "settings": settings}
        return head.model_copy(update=changes)

    def groups(self) -> Iterator[GroupRanking]:
        """Yield the ranking of every group, told anew where the judge is learnt from all. Raises ArchiveDamaged."""
        as_they_are = chain.from_iterable(file.groups for file in self.files)
        rules = self._rules()
        if rules is None:
            return as_they_are
        of_query = {query: file for file in self.files for query in file.queries}
        judge = learnt_from_all(self.queries, lambda query: of_query[query].stored(query), rules)
        return told_by(judge, as_they_are, rules)

    def place_of(self, number: int) -> str:
        """Return the place, file and line, of the group that stands so far down, from 0."""
        query = self.queries[number]
        file = next(file for file in self.files if query in file.queries)
        return f"{file.path}:{file.line_of(query)}"

    def _rules(self) -> Rules | None:
        """Return the rules by which a ranking is told anew; None where each group is ranked by itself."""
        head = self.files[0].head
        settings = recorded_settings({"judge_budget": 0} | head.settings, self.files[0].path)
        rules = rules_of(settings, rendering=head.rendering)
        rules = replace(rules, one_of_many=True, fit_version=head.fit_version)
        return rules if METHODS[settings.judge].ranks_from_matches and rules.provisional else None


def joined_rankings(folders: Sequence[Path]) -> tuple[list[JoinedRanking], list[str]]:
    """Return the rankings that all runs have and have finished, the oldest first; and the ids of the others."""
    by_run = [_finished(folder) for folder in folders]
    shared = [kind for kind in by_run[0] if all(kind in rankings for rankings in by_run)]
    joined = [JoinedRanking([rankings[kind] for rankings in by_run]) for kind in shared]
    kept = {file.head.id for ranking in joined for file in ranking.files}
    return joined, [name for folder in folders for name in _ids(folder) if name not in kept]


def write_rankings(
    target: Path, rankings: Sequence[JoinedRanking], at: datetime, runs_dir: Path
) -> dict[Path, JoinedRanking]:
    """Write rankings of a run in `runs_dir` into `target`, the last as the newest. Return which file holds which."""
    times = (at + timedelta(microseconds=number) for number in range(len(rankings)))
    return {
        write_ranking(target, ranking.head(time, runs_dir), ranking.groups()): ranking
        for ranking, time in zip(rankings, times, strict=True)
    }


def _finished(folder: Path) -> Mapping[str, RankingFile]:
    """Return the newest finished ranking of each kind, by what decides its content, the oldest kind first."""
    finished: dict[str, RankingFile] = {}
    with RunReader(folder) as reader:
        for ranking in reader.rankings():
            if ranking.finished:
                kind = _kind(ranking.head)
                finished.pop(kind, None)
                finished[kind] = ranking
    return finished


def _ids(folder: Path) -> list[str]:
    with RunReader(folder) as reader:
        return [head.id for head in reader.heads()]


def _kind(head: RankingHead) -> str:
    decides: list[Any] = [counting(head.settings), head.judge, head.rubric, head.rendering, head.fit_version, head.free]
    return json.dumps(decides, sort_keys=True)
