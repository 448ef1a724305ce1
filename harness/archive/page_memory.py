"""Which pages this machine wrote, in the user's cache folder: of what each was made, and the state of its file then."""

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from harness.core.records import BUILT_LATER

WrittenPage = tuple[str, tuple[int, int, int, int]]
"""Of a page: what it was made of, and inode, size, time of the content and time of the change of its file."""
_Count = Annotated[int, Field(ge=0)]
_MEMORY = TypeAdapter(dict[str, tuple[str, tuple[_Count, _Count, int, int]]], config=BUILT_LATER)
_MOST = 64_000_000
"""Bytes of a file above which the harness did not write it."""


def remembered_pages(memory: Path | None) -> dict[str, WrittenPage]:
    """Return what this machine wrote; nothing where that cannot be read: each page is then drawn and compared."""
    try:
        if memory is None or memory.stat().st_size > _MOST:
            return {}
        return dict(_MEMORY.validate_json(memory.read_bytes()))
    except (OSError, ValidationError):
        return {}


def remember_pages(memory: Path, pages: Mapping[str, WrittenPage]) -> None:
    """Note what was written. Where that cannot be noted, pages are compared the next time."""
    part = memory.with_name(f".{memory.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.write_text(json.dumps(pages), "utf-8")
        part.replace(memory)
