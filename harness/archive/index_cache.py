"""The index of a run. A large run's is kept in the user's cache folder: segments only grow, so only news is read.

It is never more than a cache, and never in the run, which may come from a stranger. It may be deleted at any time; one
that does not fit the run is made anew, and what cannot be read or written is done without.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness.archive.index import INDEXED, Index
from harness.archive.run_counts import RunCounts
from harness.archive.run_files import files_in
from harness.core.errors import ArchiveDamaged
from harness.core.user_files import cache_folder

WORTH_KEEPING = 8_000_000
"""Bytes of segments from which on the index is kept: below, a scan takes a tenth of a second."""


def usual_caches() -> Path | None:
    """Return the user's folder of caches; None for a user without a home.

    This reads the process's environment, for whoever opens a run without naming a folder: where a cache is changes
    nothing that a command prints, and every function that opens a run would have to pass the folder on.
    """
    try:
        return cache_folder(os.environ)
    except RuntimeError:
        return None


def is_worth_keeping(sizes: Iterable[int]) -> bool:
    """Tell whether the index of segments of these sizes, in bytes, is kept."""
    return sum(sizes) >= WORTH_KEEPING


def build_index(
    folder: Path, cache: Path | None, segments: Sequence[str] = INDEXED, *, anew: bool = False
) -> tuple[Index, bool]:
    """Return the index of a folder, and whether any of it comes from the file `cache`, unless it is made `anew`.

    Raises ArchiveDamaged for a broken line that the cache does not pass over.
    """
    sizes = _sizes(folder, segments)
    cached = None if anew or cache is None else _loaded(cache, sizes)
    index = cached or Index()
    is_kept = cache is not None and is_worth_keeping(sizes.values())

    def relieve() -> None:
        """Put the verdicts read so far on disk, with the whole of the index as far as it goes."""
        if cache and _kept(cache, index):
            _move_to_disk(cache, index, _sizes(folder, segments))

    try:
        fresh = _scanned(index, sizes, relieve if is_kept else None)
    except ArchiveDamaged:
        if cached is None:
            raise
        return build_index(folder, cache, segments, anew=True)
    if fresh and is_kept:
        relieve()
    return index, cached is not None


def kept_counts(folder: Path, cache: Path | None, segments: Sequence[str] = INDEXED) -> RunCounts | None:
    """Return the counts of a folder's records that stand in the file `cache`; None unless it knows every record."""
    if cache is None or not cache.is_file():
        return None
    from harness.archive.kept_index import load_counts  # noqa: PLC0415 - SQLite is for large runs alone

    return load_counts(cache, _sizes(folder, segments))


def _sizes(folder: Path, segments: Iterable[str]) -> dict[Path, int]:
    return {path: size for name in segments for path, size in files_in(folder / name).items()}


def _scanned(index: Index, paths: Iterable[Path], relieve: Callable[[], None] | None) -> bool:
    """Read what is new; tell whether anything was. The index is closed where reading fails."""
    try:
        return index.scan(paths, relieve)
    except BaseException:
        index.close()
        raise


def _loaded(cache: Path, sizes: Mapping[Path, int]) -> Index | None:
    if not cache.is_file():
        return None
    from harness.archive.kept_index import load_index  # noqa: PLC0415 - SQLite is for large runs alone

    return load_index(cache, sizes)


def _kept(cache: Path, index: Index) -> bool:
    from harness.archive.kept_index import keep_index  # noqa: PLC0415 - as above

    return keep_index(cache, index)


def _move_to_disk(cache: Path, index: Index, sizes: Mapping[Path, int]) -> None:
    from harness.archive.kept_index import move_to_disk  # noqa: PLC0415 - as above

    move_to_disk(cache, index, sizes)
