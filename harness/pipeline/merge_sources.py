"""The runs that are merged: each is compared with the first and with what the others hold, and then copied."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.archive.layout import read_labels
from harness.archive.merging import at_rest, copy_records
from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.core.errors import ArchiveDamaged, UsageError, on_a_line, quoted
from harness.core.settings import SETTINGS
from harness.core.wording import option

_MAY_DIFFER = {
    *("shard", "runs_dir", "concurrency", "judge_concurrency", "max_unjudged", "grace", "give_up", "max_cost"),
    *("max_failures", "engine", "ray_address"),  # which part, where, how fast and how long: they decide no record
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
