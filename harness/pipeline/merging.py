"""One run made of several: each is compared with the others and copied, rankings are joined, the result is checked.

Groups' lines are taken as they are, but with `pooled`, which learns the judge from all groups, they are fitted again.
"""

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.archive.attestations import AgentOrigin, Attestation, attest, attests_queries, read_attestation
from harness.archive.folder_store import make_folder, segment_names
from harness.archive.merging import at_rest, copy_records, refuse_damage, write_ranking
from harness.archive.reader import Blobs, RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_files import write_file
from harness.archive.run_info import LABELS, RUN_FILE, RunInfo, new_run_id, read_labels
from harness.archive.run_state import find_missing_work
from harness.archive.typed_records import RankingHead, recorded_settings
from harness.core.errors import ArchiveDamaged, CannotWrite, UsageError, call, on_a_line, option, quoted
from harness.core.rankings import GroupRanking
from harness.core.setting import shard_in
from harness.core.settings import SETTINGS
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.validation import wrong_ranks
from harness.rollouts.packed_calls import parts
from harness.tournament.group import recorded_rules
from harness.tournament.group_ranking import learnt_from_all, refit
from harness.tournament.ranker import METHODS

_MAY_DIFFER = {
    *("shard", "runs_dir", "concurrency", "judge_concurrency", "max_unjudged", "grace", "give_up", "max_cost"),
    *("max_failures", "engine", "ray_address", "ship", "isolate", "memory"),  # which part, where, how: not what
    *("instructions", "rubric"),  # files that each machine may have elsewhere: what was in them is compared
}
"""Settings in which runs may differ."""
_NAMES = {
    "agent": "their agent",
    "agent_file": "the file of their agent",
    "instructions": "the text of their instructions",
}


def counting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a ranking's settings that decide what its records say."""
    return {name: value for name, value in settings.items() if name not in _MAY_DIFFER}


def _differences(first: RunReader, other: RunReader) -> Iterator[tuple[str, Any, Any]]:
    a, b = first.info, other.info
    if a.offline != b.offline or a.agent_offline != b.agent_offline:
        yield "what they ran on", _ran_on(a), _ran_on(b)
    for name, what in _NAMES.items():
        yield what, getattr(a, name), getattr(b, name)
    imported = not a.judge and not b.judge  # `n` is then the size of the largest group
    for name in SETTINGS:
        if name not in _MAY_DIFFER and not (imported and name == "n"):
            yield option(name).removesuffix("="), getattr(first.settings, name), getattr(other.settings, name)
    for part in ("judge", "endpoint"):
        ours: Mapping[str, Any] = getattr(a, part) or {}
        theirs: Mapping[str, Any] = getattr(b, part) or {}
        for name in dict.fromkeys([*ours, *theirs]):
            yield f"`{part}.{name}` of run.json", ours.get(name), theirs.get(name)
    for name in ("agent_api", "rubric", "rendering"):
        yield f"`{name}` of run.json", getattr(a, name), getattr(b, name)


def _ran_on(info: RunInfo) -> str:
    if info.offline == info.agent_offline:
        return "embedded models" if info.offline else "endpoints"
    return "the embedded judge"


def refuse_unfit(folders: Sequence[Path]) -> None:
    """Compare every run with the first. Raises UsageError for one that differs; ArchiveLocked, ArchiveDamaged."""
    named: set[Path] = set()
    with RunReader(folders[0]) as first:
        for folder in folders:
            if (place := folder.resolve()) in named:
                raise UsageError(f"run {on_a_line(place.name)} is named twice: name each run once")
            named.add(place)
            with at_rest(folder), RunReader(folder) as reader:
                for what, ours, theirs in _differences(first, reader):
                    if ours != theirs:
                        mine, its = ("none" if value is None else quoted(value) for value in (ours, theirs))
                        raise UsageError(
                            f"runs {on_a_line(first.id)} and {on_a_line(reader.id)} differ in {what}: {mine} "
                            f"and {its}; only runs of one agent, judge, rubric and settings can be merged"
                        )


@dataclass
class Copying:
    """What has been copied so far, and where each query and each verdict is."""

    target: Path
    names: Iterator[str]
    copies: dict[Path, Path] = field(default_factory=dict[Path, Path])
    queries: dict[str, int] = field(default_factory=dict[str, int])
    verdicts: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])
    """Of each run its verdicts' keys, shortened and sorted: there are many, and few runs share any."""
    query_count: int = 0
    rollouts: int = 0
    labels: list[str] = field(default_factory=list[str])
    folders: list[Path] = field(default_factory=list[Path])
    contradicted: str | None = None
    """A run that holds another verdict than an earlier run under the same key; None where no run does."""

    def add(self, folder: Path) -> None:
        """Copy a run. Raises UsageError for a query that an earlier run has, ArchiveDamaged, ArchiveLocked."""
        with at_rest(folder), RunReader(folder) as reader:
            self.folders.append(folder)
            number, index = len(self.folders) - 1, reader.index
            for name in index.queries:
                if (before := self.queries.setdefault(name, number)) != number:
                    raise UsageError(
                        f"runs {on_a_line(self.folders[before].name)} and {on_a_line(reader.id)} both hold the query "
                        f"{quoted(name)}: only runs of different queries can be merged"
                    )
            self.query_count += len(index.queries)
            for name, places in index.rollouts.items():
                if name not in index.queries:
                    place = next(iter(places.values())).place
                    raise ArchiveDamaged(f"{place}: it refers to query {quoted(name)}, which is not there")
                self.rollouts += len(places)
            keys = np.fromiter(map(_short, reader.index.verdicts), np.int64)
            keys.sort()
            for other, earlier in zip(self.folders, self.verdicts, strict=False):
                if len(shared := np.intersect1d(earlier, keys)):
                    self._compare(other, reader, set(shared.tolist()))
            self.verdicts.append(keys)
            if text := read_labels(folder):
                self.labels.append(text if text.endswith("\n") else text + "\n")
            self.copies |= copy_records(folder, self.target, self.names)

    def _compare(self, folder: Path, reader: RunReader, shared: AbstractSet[int]) -> None:
        """Note whether a run contradicts the one in `folder` under keys whose short forms are `shared`."""
        keys = [key for key in reader.index.verdicts if _short(key) in shared]
        with RunReader(folder) as before:
            both = (key for key in keys if key in before.index.verdicts)
            if any(_scores(before, key) != _scores(reader, key) for key in both):
                self.contradicted = reader.id


def _short(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


def _scores(reader: RunReader, key: str) -> object:
    if verdict := reader.verdict(key):
        return verdict.a, verdict.b
    scored = reader.scored(key)
    return scored and scored.scores


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
        """Yield the ranking of every group, fitted again where the judge is learnt from all. Raises ArchiveDamaged."""
        as_they_are, head = chain.from_iterable(file.groups for file in self.files), self.files[0].head
        settings = recorded_settings({"judge_budget": 0} | head.settings, self.files[0].path)
        rules = recorded_rules(head, settings)
        if not (METHODS[settings.judge].ranks_from_matches and rules.provisional):
            return as_they_are  # each group is ranked by itself
        of_query = {query: file for file in self.files for query in file.queries}
        judge = learnt_from_all(self.queries, lambda query: of_query[query].stored(query), rules)
        return refit(judge, as_they_are, rules)


def joined_rankings(folders: Sequence[Path]) -> tuple[list[JoinedRanking], list[str]]:
    """Return the rankings that all runs have and have finished, the oldest first; and the ids of the others."""
    by_run, ids = list[dict[str, RankingFile]](), list[str]()
    for folder in folders:
        finished: dict[str, RankingFile] = {}  # the newest of each kind, by what decides its content
        with RunReader(folder) as reader:
            ids += [head.id for head in reader.heads()]
            for ranking in reader.rankings():
                if ranking.finished:
                    head = ranking.head
                    decides = [counting(head.settings), head.judge, head.rubric, head.rendering]
                    leanings = head.leanings and head.leanings.model_dump(mode="json")
                    kind = json.dumps([*decides, head.fit_version, head.free, leanings], sort_keys=True)
                    finished.pop(kind, None)
                    finished[kind] = ranking
        by_run.append(finished)
    shared = [kind for kind in by_run[0] if all(kind in rankings for rankings in by_run)]
    joined = [JoinedRanking([rankings[kind] for rankings in by_run]) for kind in shared]
    kept = {file.head.id for ranking in joined for file in ranking.files}
    return joined, [name for name in ids if name not in kept]


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Merged:
    """A run made of several."""

    path: Path
    queries: int
    rollouts: int
    rankings: int
    """How many rankings all runs had, each now one of all groups."""
    notes: tuple[str, ...]


def merge_runs(folders: Sequence[Path], to: str | None, runs_dir: Path, run_env: RunEnvironment) -> Merged:
    """Make one run of several, and name it `to`: a name in `runs_dir`, or a path; None: a new id, as for any run.

    Raises UsageError for runs that differ and for a name that is taken; ArchiveLocked, ArchiveDamaged, CannotWrite.
    """
    at = run_env.clock()
    if not folders:
        raise UsageError("there is no run to merge: name one at least")
    target = None if to is None else Path(to) if "/" in to else runs_dir / to
    if target and (not _NAME.fullmatch(target.name) or target.name == "last"):
        raise UsageError(
            f"{option('output', to)}: a run's name has letters, digits, - _ and ., begins with a letter or a digit, "
            "and is not `last`"
        )
    if target and (target.exists() or target.is_symlink()):
        raise UsageError(f"{option('output', to)}: that is there already; choose another name")
    refuse_unfit(folders)
    infos, attestations = list[RunInfo](), list[Attestation | None]()
    for folder in folders:
        with RunReader(folder) as reader:
            infos.append(reader.info)
            record = read_attestation(reader, run_env.environ)
            attestations.append(record if record and attests_queries(record, reader) else None)
    first = infos[0]
    name = target.name if target else new_run_id(first.agent, at, secrets.token_hex(8))
    target = target or runs_dir / name
    settings = {key: value for key, value in first.settings.items() if key != "shard"}
    if sizes := [size for info in infos if isinstance(size := info.settings.get("n"), int)]:
        settings["n"] = max(sizes)
    known = [info.queries for info in infos if info.queries is not None]
    changes = {
        "id": name,
        "created_at": at,
        "settings": {**settings, "runs_dir": str(target.parent)},
        "queries": sum(known) if len(known) == len(infos) else None,
        "accepted": tuple(dict.fromkeys(what for info in infos for what in info.accepted)),
    }
    filling = _Filling(folders, at, target.parent)
    info = first.model_copy(update=changes)
    make_folder(target, RUN_FILE, info.model_dump_json(indent=1), filling.fill)
    notes = [*filling.notes, *_missing_shards(infos), *_attest(attestations, target, run_env)]
    copied = filling.copied
    with RunReader(target) as reader:
        if not find_missing_work(reader).nothing:
            notes.append(f"the merged run is not complete; {call('resume', target)} does what is missing")
    return Merged(target, copied.query_count, copied.rollouts, len(filling.rankings), tuple(notes))


class _Filling:
    copied: Copying

    def __init__(self, folders: Sequence[Path], at: datetime, runs_dir: Path) -> None:
        self._folders, self._at, self._runs_dir = folders, at, runs_dir
        self.rankings: dict[Path, JoinedRanking] = {}
        self.notes: list[str] = []

    def fill(self, target: Path) -> None:
        """Copy the runs and check what is there then."""
        self.copied = copied = Copying(target, segment_names(self._at))
        for folder in self._folders:
            copied.add(folder)
        copied.queries.clear()  # needed only to compare a further run
        copied.verdicts.clear()
        if copied.labels:
            write_file(target / LABELS, "".join(copied.labels))
        if run := copied.contradicted:
            self.notes.append(
                f"run {on_a_line(run)} holds other verdicts on texts that an earlier run holds, too: the earlier run's "
                "count, and no ranking was taken over"
            )
        else:
            joined, others = joined_rankings(self._folders)
            self.notes += _check_ranks(self._folders, joined)
            for number, ranking in enumerate(joined):  # the last as the newest
                head = ranking.head(self._at + timedelta(microseconds=number), self._runs_dir)
                self.rankings[write_ranking(target, head, ranking.groups())] = ranking
            if others:
                names = ", ".join(map(on_a_line, others[:4])) + (", ..." if len(others) > 4 else "")
                which = "1 ranking was" if len(others) == 1 else f"{len(others)} rankings were"
                self.notes.append(
                    f"{which} left out, as some run has no such ranking or did not finish its own: {names}"
                )
        blobs = Blobs(target / "blobs")
        refuse_damage(target, lambda name: parts(blobs.get(name)), copied.copies, self._locate)

    def _locate(self, path: Path, line: int | None) -> str:
        """Return where a line of a ranking comes from: after the header there is a line a group."""
        ranking = self.rankings.get(path)
        if ranking is None or line is None or not 0 <= line - 2 < len(ranking.queries):
            return str(path.name)
        query = ranking.queries[line - 2]
        file = next(file for file in ranking.files if query in file.queries)
        return f"{file.path}:{file.line_of(query)}"


def _check_ranks(folders: Sequence[Path], joined: Sequence[JoinedRanking]) -> list[str]:
    """Return why rankings could not be played again. Raises ArchiveDamaged for ranks that no match gives."""
    notes = dict[str, None]()
    for number, folder in enumerate(folders):
        with RunReader(folder) as reader:
            for ranking in joined:
                for finding in wrong_ranks(reader, ranking.files[number]):
                    if finding.kind == "damage":
                        raise ArchiveDamaged(f"{finding.path}:{finding.line}: {finding.reason}")
                    notes[f"{finding.path}: {finding.reason}"] = None
    return list(notes)


def _missing_shards(infos: Sequence[RunInfo]) -> list[str]:
    """Return a note on the shards that are not among the runs, where the runs are shards of one number."""
    words = [word for info in infos if isinstance(word := info.settings.get("shard"), str)]
    shards = set(map(shard_in, words))
    if len(words) < len(infos) or len({shard.of for shard in shards}) != 1:
        return []
    of = next(iter(shards)).of
    missing = [f"{k}/{of}" for k in range(1, of + 1) if k not in {shard.number for shard in shards}]
    names = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
    is_missing = f"shard {names} is" if len(missing) == 1 else f"shards {names} are"
    return [f"{is_missing} not among the merged runs (a shard without a query has no run)"] if missing else []


def _attest(attestations: Sequence[Attestation | None], target: Path, run_env: RunEnvironment) -> list[str]:
    """Write down that the run was made here, if all of its parts were. Return a note where not."""
    made_here = [attestation for attestation in attestations if attestation]
    if len(made_here) < len(attestations):
        return ["not all of the runs were made here: `resume` and `rescore` will ask where keys may go"]
    first, addresses = made_here[0], [address for record in made_here for address in record.addresses]
    is_one = len({record.origin for record in made_here}) == 1
    origin = first.origin if is_one else AgentOrigin(first.agent_word)
    with RunReader(target) as reader:
        try:
            attest(reader, run_env.environ, addresses, origin)
        except CannotWrite as exc:
            return [f"{exc}; `resume` and `rescore` of this run will ask where keys may go"]
    return []
