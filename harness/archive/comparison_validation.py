"""Is a comparison whole? Every line, checksum, hash and reference is checked.

Reads the files alone, never the index. harness.pipeline.comparing compares what the matches say with their verdicts.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.archive.comparison_records import (
    COMPARED_QUERY,
    COMPARISON_FOOTER,
    COMPARISON_HEAD,
    ComparisonHead,
    read_comparison_info,
)
from harness.archive.folder_check import Finding, FolderCheck, check_count, reason_of, refers, unknown_kind
from harness.archive.layout import COMPARISON_FILE, COMPARISON_SEGMENTS
from harness.archive.lines import LocatedRecord
from harness.archive.typed_records import read_record, recorded_settings
from harness.core.comparisons import ComparedQuery
from harness.core.errors import ArchiveDamaged, TooOld, UsageError


def comparison_findings(folder: Path) -> Iterator[Finding]:
    """Yield what is wrong with the comparison in `folder`."""
    path, runs = folder / COMPARISON_FILE, None
    try:
        info, _ = read_comparison_info(folder)
        runs = [(side.run, side.sha256) for side in info.sides]
        recorded_settings(info.settings, path)
    except TooOld:
        raise
    except (ArchiveDamaged, UsageError) as exc:
        yield Finding("damage", path, reason_of(exc, path), by_hand=True)
    yield from _ComparisonCheck(runs).findings(folder, COMPARISON_FILE)


class _ComparisonCheck(FolderCheck):
    """Looks at the records of a comparison of `runs`, each an id and a sha256; None where these are not known."""

    segments = COMPARISON_SEGMENTS
    results = "comparisons"

    def __init__(self, runs: list[tuple[str, str]] | None) -> None:
        super().__init__()
        self._runs = runs

    def check(self, located: LocatedRecord, segment: str, counted: Counter[str]) -> None:
        """Check one record and what it refers to. Raises ArchiveDamaged."""
        match segment, located.members["kind"]:
            case "comparisons", "header":
                self._check_sides(read_record(located, COMPARISON_HEAD))
            case "comparisons", "compared":
                self._check_query(read_record(located, COMPARED_QUERY))
            case "comparisons", "footer":
                check_count(read_record(located, COMPARISON_FOOTER).queries, counted["compared"], "queries")
            case _:
                raise unknown_kind(located)

    def _check_sides(self, head: ComparisonHead) -> None:
        if self._runs is not None and [(side.run, side.sha256) for side in head.sides] != self._runs:
            raise ArchiveDamaged("its sides are not those of compare.json")

    def _check_query(self, query: ComparedQuery) -> None:
        """Raise ArchiveDamaged for a text or a verdict that is missing, or other sides than the comparison has."""
        if self._runs is not None and len(query.rollouts) != len(self._runs):
            raise ArchiveDamaged(f"it has {len(query.rollouts)} sides, and the comparison {len(self._runs)}")
        texts = (name for side in query.rollouts for r in side for name in (r.path_blob, r.answer_blob))
        self.use_blobs(name for name in texts if name is not None)
        for key in (key for match in query.matches for key in match.verdicts):
            refers(key in self.verdicts, f"verdict {key}")
