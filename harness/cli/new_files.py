"""Files that a command writes for a user to edit: never over one that is there, unless the user says so."""

from pathlib import Path

from harness.core.errors import CannotWrite, UsageError, on_a_line


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file, in a new folder where there is none.

    Raises UsageError for a file that is there, unless `force`; CannotWrite where the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        if isinstance(exc, FileExistsError) and path.exists():
            raise UsageError(f"{on_a_line(path)} is there already; --force writes over it") from None
        raise CannotWrite(f"cannot write {on_a_line(path)}: {getattr(exc, 'strerror', None) or exc}") from None
