"""Reading files of trajectories: which format each is in, and errors that name file and line."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import ValidationError

from harness.core.errors import UsageError
from harness.formats.atif import is_atif, read_atif
from harness.formats.foreign import Foreign
from harness.formats.messages import read_messages
from harness.transcripts import valid_unicode

Format = Literal["messages", "atif"]
FORMATS: tuple[Format, ...] = get_args(Format)
_READERS: Mapping[Format, Callable[[Mapping[str, Any]], Foreign]] = {"messages": read_messages, "atif": read_atif}


def read_foreign(paths: Sequence[Path], format: Format | None = None) -> Iterator[Foreign]:  # noqa: A002 - the option's name
    """Yield the trajectories of files, as they are read: JSON (an object, or a list of them) or JSONL.

    Without `format` each object tells by itself what it is. Raises UsageError naming file, line and what is wrong.
    """
    for path in paths:
        count = 0
        for where, told in _objects(path):
            chosen: Format = format or ("atif" if is_atif(told) else "messages")
            try:
                yield _READERS[chosen](told)
            except (ValueError, TypeError, KeyError, AttributeError) as exc:
                raise UsageError(f"{where}: no trajectory in the format {chosen!r} ({_said(exc)})") from None
            count += 1
        if not count:
            raise UsageError(f"{path}: no trajectory in it")


def _objects(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        if path.suffix.lower() == ".json":
            told = _json(path.read_text("utf-8"), str(path))
            found = cast("list[Any]", told) if isinstance(told, list) else [told]
            for number, one in enumerate(found, 1):
                yield _object(f"{path} item {number}" if len(found) > 1 else str(path), one)
            return
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _object(f"{path}:{number}", _json(line.removeprefix("\ufeff"), f"{path}:{number}"))
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read ({getattr(exc, 'strerror', None) or exc})") from None


def _json(text: str, where: str) -> Any:
    try:
        told = json.loads(text)
        return json.loads(valid_unicode(json.dumps(told, ensure_ascii=False, allow_nan=False)))
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{where}: not JSON ({exc})") from None


def _object(where: str, told: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(told, dict):
        raise UsageError(f"{where}: expected an object, found a {type(told).__name__}")
    return where, cast("dict[str, Any]", told)


def _said(exc: Exception) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors()[0]
        return f"{'.'.join(str(at) for at in first['loc'])}: {first['msg']}"
    return str(exc).splitlines()[0] if isinstance(exc, ValueError) else f"{type(exc).__name__}: {exc}"
