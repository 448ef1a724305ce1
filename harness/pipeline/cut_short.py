"""A run that is cut short: one error for many, what is kept of the run, and the command that goes on with it."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from harness.archive import RunReader, RunStore
from harness.core.errors import CannotWrite, HarnessError, Refused, first_error
from harness.core.wording import call


def what_is_kept(folder: Path | None) -> str:
    """Return what became of a run that was cut short, and the command that goes on with it."""
    if folder is None:
        return "Nothing had begun"
    ended = _ended(folder)
    kept = f"{ended.count('ok')} of {len(ended)} rollouts that were begun ended well; all are kept in {folder}"
    return f"{kept}; {call('resume', folder)} does what is missing"


def _ended(folder: Path) -> list[str]:
    with RunReader(folder) as reader:
        return [place.status for group in reader.index.rollouts.values() for place in group.values()]


@contextmanager
def one_error(store: RunStore, *, new: bool) -> Generator[None]:
    """Raise the first of a group of errors, and say what is kept; a new run that cost nothing is taken away."""
    try:
        yield
    except* Refused as group:
        if new and store.is_empty:
            store.discard()
            raise first_error(group) from None
        elsewhere = f", {call('rescore', store.folder, judge_model='MODEL')} takes another judge"
        kept = what_is_kept(store.folder) + (elsewhere if "ok" in _ended(store.folder) else "")
        raise type(first_error(group))(f"{first_error(group)}. {kept}") from None
    except* CannotWrite as group:
        advice = f"make room, then {call('resume', store.folder)}"
        raise CannotWrite(f"{first_error(group)}; {advice}") from None
    except* HarnessError as group:
        if new and store.is_empty:
            store.discard()
        raise first_error(group) from None
