"""The runs that are merged: each is compared with the first and with what the others hold, and then copied."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.archive.merging import at_rest, copy_records
from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.core.errors import ArchiveDamaged, UsageError, on_a_line, quoted
from harness.core.settings import SETTINGS
from harness.core.verdicts import AnyVerdict, Judged, Scored
from harness.core.wording import option

_MAY_DIFFER = frozenset(
    {"shard", "runs_dir", "concurrency", "judge_concurrency", "max_unjudged", "grace", "give_up", "max_cost"}
    | {"max_failures", "engine", "ray_address"}
)
"""Settings in which runs may differ: they say which part, where, how fast and how long, and decide no record."""
_BY_CONTENT = {"instructions", "rubric"}
"""Settings that name a file. What was in the file is compared, and each machine may have it elsewhere."""
_NAMES = {
    "agent": "their agent",
    "agent_file": "the file of their agent",
    "instructions": "the text of their instructions",
}


def refuse_unlike(first: RunReader, other: RunReader) -> None:
    """Raise UsageError where two runs are not of one agent, settings, judge and rubric, naming the first difference."""
    if difference := next(_differences(first, other), None):
        what, ours, theirs = difference
        raise UsageError(
            f"runs {on_a_line(first.id)} and {on_a_line(other.id)} differ in {what}: {_shown(ours)} and "
            f"{_shown(theirs)}; only runs of one agent, judge, rubric and settings can be merged"
        )


def counting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a ranking that decide something of it."""
    return {name: value for name, value in settings.items() if name not in _MAY_DIFFER | _BY_CONTENT}


def _differences(first: RunReader, other: RunReader) -> Iterator[tuple[str, Any, Any]]:
    a, b = first.info, other.info
    if a.offline != b.offline or a.agent_offline != b.agent_offline:
        yield "what they ran on", _ran_on(a), _ran_on(b)
    for name, what in _NAMES.items():
        yield from _unequal(what, a, b, name)
    yield from _in_settings(first, other)
    for name in ("judge", "endpoint"):
        yield from _in_parts(name, getattr(a, name) or {}, getattr(b, name) or {})
    for name in ("agent_api", "rubric", "rendering"):
        yield from _unequal(f"`{name}` of run.json", a, b, name)


def _ran_on(info: RunInfo) -> str:
    if info.offline == info.agent_offline:
        return "embedded models" if info.offline else "endpoints"
    return "the embedded judge"


def _unequal(what: str, a: object, b: object, name: str) -> Iterator[tuple[str, Any, Any]]:
    if getattr(a, name) != getattr(b, name):
        yield what, getattr(a, name), getattr(b, name)


def _in_settings(first: RunReader, other: RunReader) -> Iterator[tuple[str, Any, Any]]:
    a, b = first.settings, other.settings
    imported = not first.info.judge and not other.info.judge  # `n` is then the size of the largest group
    for name in SETTINGS:
        if name not in _MAY_DIFFER | _BY_CONTENT and not (imported and name == "n"):
            yield from _unequal(option(name).removesuffix("="), a, b, name)


def _in_parts(what: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in [*a, *(name for name in b if name not in a)]:
        if a.get(name) != b.get(name):
            yield f"`{what}.{name}` of run.json", a.get(name), b.get(name)


def _shown(value: Any) -> str:
    return "none" if value is None else quoted(value)


def refuse_unfit(folders: Sequence[Path]) -> None:
    """Compare every run with the first before anything is copied.

    Raises UsageError for a run named twice or another agent, judge, rubric or setting; ArchiveLocked for one that is
    being written to; ArchiveDamaged.
    """
    named: set[Path] = set()
    with RunReader(folders[0]) as first:
        for folder in folders:
            if (place := folder.resolve()) in named:
                raise UsageError(f"run {on_a_line(place.name)} is named twice: name each run once")
            named.add(place)
            with at_rest(folder), RunReader(folder) as reader:
                refuse_unlike(first, reader)


@dataclass
class Copying:
    """What has been copied so far, and where each query and each verdict is."""

    target: Path
    names: Iterator[str]
    copies: dict[Path, Path] = field(default_factory=dict[Path, Path])
    """Which file is a copy of which."""
    queries: dict[str, int] = field(default_factory=dict[str, int])
    """Of each query, in which of the runs it is."""
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
            self._note_queries(reader)
            self._note_verdicts(reader)
            if text := reader.labels():
                self.labels.append(text if text.endswith("\n") else text + "\n")
            self.copies |= copy_records(folder, self.target, self.names)

    def end(self) -> None:
        """Forget what only a further run would need to be held against."""
        self.queries.clear()
        self.verdicts.clear()

    def _note_queries(self, reader: RunReader) -> None:
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

    def _note_verdicts(self, reader: RunReader) -> None:
        keys = reader.index.verdicts.made_of_all(lambda all_: np.fromiter((_short(key) for key, _ in all_), np.int64))
        keys.sort()
        for folder, earlier in zip(self.folders, self.verdicts, strict=False):
            if len(shared := np.intersect1d(earlier, keys)):
                self._compare(folder, reader, set(shared.tolist()))
        self.verdicts.append(keys)

    def _compare(self, folder: Path, reader: RunReader, shared: AbstractSet[int]) -> None:
        """Take note if a run holds another verdict than the one in `folder`, under keys that are so in short."""
        keys = [key for key, _ in reader.index.verdicts.items() if _short(key) in shared]
        with RunReader(folder) as before:
            both = (key for key in keys if key in before.index.verdicts)
            if any(_scores(_verdict(before, key)) != _scores(_verdict(reader, key)) for key in both):
                self.contradicted = reader.id


def _short(key: str) -> int:
    """Return 64 bits of a key's hash."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


def _verdict(reader: RunReader, key: str) -> AnyVerdict | None:
    return reader.verdict(key) or reader.scored(key)


def _scores(verdict: AnyVerdict | None) -> object:
    match verdict:
        case Judged():
            return verdict.a, verdict.b
        case Scored():
            return verdict.scores
        case _:
            return None
