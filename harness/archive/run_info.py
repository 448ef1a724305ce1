"""`run.json`, the file that makes a folder a run; it is written once and never changed."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from pydantic import Field, JsonValue, model_validator

from harness.archive.layout import RUN_FILE
from harness.archive.lines import check_version, parse
from harness.archive.raw_lines import LONGEST
from harness.archive.record_faults import settings_faults
from harness.archive.run_files import read_file
from harness.archive.typed_records import check_rubric_text, checked
from harness.core.errors import ArchiveDamaged, TooOld
from harness.core.records import Record
from harness.core.settings import Api

OLDEST_READABLE = "0.1.0"
"""The oldest version of the harness whose runs and comparisons this one reads."""
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
T = TypeVar("T")


class RunInfo(Record):
    """`run.json`: written once, when the run begins. A folder is a run if and only if it holds one."""

    schema_version: int
    id: str
    created_at: datetime
    agent: str
    agent_file: str | None = None
    settings: Mapping[str, JsonValue]
    judge: Mapping[str, JsonValue]
    """The judge as resolved when the run began: model, base_url, api."""
    offline: bool
    """The agent's model, or the judge, is the embedded one: the ranks say nothing of any LLM."""
    agent_offline: bool = False
    """The agent's own part of `offline`: it stays so whoever judges the run later."""
    agent_api: Literal["responses", "chat"] | None = None
    """The API that the agent's models were spoken to by; None where they were the agent's own, or it is not known."""
    versions: Mapping[str, str]
    agent_word: str | None = None
    """What --agent was given, so that `resume` finds the agent again; None for one given from Python."""
    endpoint: Mapping[str, JsonValue] | None = None
    """Where the agent's models were: base_url (None: OpenAI's own), api. None where it ran on none of ours."""
    rubric: str | None = None
    """The rubric's label when the run began."""
    rendering: Annotated[int, Field(ge=1, le=999)] = 1
    """The way in which transcripts were written when the run began (harness.transcripts)."""
    instructions: str | None = None
    """The text of --instructions; None without that, and where a key or a pattern of --redact stands in it."""
    queries: int | None = None
    """How many queries were known, and written down, when the run began; None where they came as a stream."""
    accepted: tuple[str, ...] = ()
    """What the user was warned of and went on with."""
    rubric_text: str | None = None
    """The rubric's own text, whole; None where a key or a pattern of --redact stands in it."""

    _text_has_its_fingerprint = model_validator(mode="after")(check_rubric_text)


def run_faults(info: RunInfo) -> Iterator[str]:
    """Yield what is wrong with `run.json`."""
    yield from settings_faults(info)
    endpoint = info.endpoint or {}
    if not isinstance(endpoint.get("base_url"), str | None):
        yield "endpoint.base_url: an address is expected"
    if endpoint.get("api") not in {None, *get_args(Api)}:
        yield f"endpoint.api: one of {', '.join(get_args(Api))} is expected"


def read_info(folder: Path) -> tuple[RunInfo, str]:
    """Return `run.json` and the sha256 (hex) of its bytes. Raises ArchiveDamaged, NeedsUpgrade, TooOld."""
    return read_info_file(folder / RUN_FILE, RunInfo.model_validate, run_faults, "run")


def read_info_file(
    path: Path, validate: Callable[[Any], T], faults_of: Callable[[T], Iterator[str]], whose: str
) -> tuple[T, str]:
    """Return what a file holds that is written once, with the sha256 (hex) of its bytes. Raises as `read_info` does."""
    data = read_file(path, LONGEST)
    why = f"It holds the {whose}'s settings and is written once: no repair can make it anew; restore it from a copy"
    try:
        members = parse(data)
        check_version(members.get("schema_version"), path)
        versions = members.get("versions")
        version = cast("dict[str, object]", versions).get("arena-harness") if isinstance(versions, dict) else None
        stated = _VERSION.match(version) if isinstance(version, str) else None
        if stated and tuple(map(int, stated.groups())) < tuple(map(int, OLDEST_READABLE.split("."))):
            raise TooOld(path, stated[0], OLDEST_READABLE)
        return checked(members, validate, path, faults_of), hashlib.sha256(data).hexdigest()
    except ValueError as exc:
        raise ArchiveDamaged(f"{path}: Invalid JSON: {exc}. {why}") from None
    except ArchiveDamaged as exc:
        raise ArchiveDamaged(f"{exc}. {why}") from None
