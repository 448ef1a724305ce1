"""A run that is cut short: one error for many, what is kept of the run, and the command that goes on with it."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.layout import find_archived
from harness.archive.reader import RunReader
from harness.archive.run_state import find_missing_work
from harness.archive.run_store import ComparisonStore, RunStore
from harness.core.errors import CannotWrite, HarnessError, Refused, first_error
from harness.core.wording import call, counted


def what_is_kept(folder: Path | None) -> str:
    """Return what became of a run that was cut short, and the command that goes on with it."""
    if folder is None:
        return "Nothing had begun"
    if find_archived(str(folder), folder.parent).kind == "comparison":
        with ComparisonReader(folder) as comparison:
            verdicts = len(list(comparison.verdicts()))
        kept = counted(verdicts, "verdict is kept", "verdicts are kept")
        if not verdicts:  # the sides' rollouts are in runs of their own
            kept = "No verdict is bought yet; what was rolled out is in the sides' runs, and the comparison"
        return f"{kept} in {folder}; {call('resume', folder)} does what is missing"
    with RunReader(folder) as reader:
        missing, newest = find_missing_work(reader), reader.newest_ranking()
        begun = newest if newest and not newest.finished else None
        if missing.nothing and begun is None:
            return f"{folder} is whole, and no ranking in it was cut short"
        if begun and not missing.rollouts and (begun.head.free or len(reader.heads()) > 1):
            queries = counted(len(reader.index.queries), "query", "queries")
            whole = f"{len(begun.groups) - begun.incomplete:,} of {queries}"
            if begun.head.free:
                return f"The new ranking has {whole} in full, and is kept in {folder}; rank again for the others"
            kept = f"The new ranking has {whole} in full; it and all verdicts that were bought are kept in {folder}"
        else:
            ended = _count_statuses(reader)
            rollouts = counted(ended.total(), "rollout that was", "rollouts that were")
            kept = f"{ended['ok']:,} of {rollouts} begun ended well; all are kept in {folder}"
    return f"{kept}; {call('resume', folder)} does what is missing"


def _count_statuses(reader: RunReader) -> Counter[str]:
    return Counter(place.status for group in reader.index.rollouts.values() for place in group.values())


@contextmanager
def one_error(store: RunStore | ComparisonStore, *, new: bool) -> Generator[None]:
    """Raise the first of a group of errors, and say what is kept; a new run that cost nothing is taken away."""
    try:
        yield
    except* Refused as group:
        if new and store.is_empty:
            store.discard()
            raise first_error(group) from None
        kept = what_is_kept(store.folder)
        if isinstance(store, RunStore):
            with RunReader(store.folder) as reader:  # the store's own knows less than it wrote
                if "ok" in _count_statuses(reader):
                    kept += f", {call('rescore', store.folder, judge_model='MODEL')} takes another judge"
        raise type(first_error(group))(f"{first_error(group)}. {kept}") from None
    except* CannotWrite as group:
        advice = f"make room, then {call('resume', store.folder)}"
        raise CannotWrite(f"{first_error(group)}; {advice}") from None
    except* HarnessError as group:
        if new and store.is_empty:
            store.discard()
        raise first_error(group) from None
