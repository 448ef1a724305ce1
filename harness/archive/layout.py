"""Where things are in `runs/`, how a run is named, and which run the user's word names."""

import hashlib
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from harness.archive.kept_rubric import check_rubric_text
from harness.archive.lines import check_version, parse
from harness.archive.raw_lines import LONGEST
from harness.archive.record_faults import run_faults
from harness.archive.run_files import read_file, runs_in
from harness.archive.typed_records import checked
from harness.core.errors import ArchiveDamaged, UsageError, did_you_mean, on_a_line, quoted
from harness.core.records import Record
from harness.core.wording import call

SEGMENTS = ("blobs", "queries", "rollouts", "verdicts", "rankings")
"""The folders of a run that hold files of records."""
ASIDE = "damaged"
"""The folder of a run into which a repair moves damaged lines."""
LOCK = "run.lock"
PAGE = "report.html"
LABELS = "labels.jsonl"
"""Which of two answers is better, as people say: one pair a line, as `doctor --judge --pairs` reads them."""
_TIME = len("20260721T140320")
_NO_REPAIR = "It holds the run's settings and is written once: no repair can make it anew; restore it from a copy"


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
    """The way in which transcripts were written when the run began (harness.transcripts); 0.1.0 did not say."""
    instructions: str | None = None
    """The text of --instructions; None without that, and where a key or a pattern of --redact stands in it."""
    queries: int | None = None
    """How many queries were known, and written down, when the run began; None where they came as a stream."""
    accepted: tuple[str, ...] = ()
    """What the user was warned of and went on with."""
    rubric_text: str | None = None
    """The rubric's own text, whole; None in records of 0.1.0, and where a key or a pattern of --redact stands in it."""

    @model_validator(mode="after")
    def _text_has_its_fingerprint(self) -> Self:
        check_rubric_text(self.rubric, self.rubric_text)
        return self


def new_run_id(agent: str, at: datetime, salt: str) -> str:
    """Return `<time>-<agent>-<short hash>`. `salt` keeps two runs of one second apart."""
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in agent).strip("-") or "agent"
    short = hashlib.sha256(f"{at.isoformat()} {agent} {salt}".encode()).hexdigest()[:6]
    return f"{at:%Y%m%dT%H%M%S}-{name[:40]}-{short}"


def list_runs(runs_dir: Path) -> list[Path]:
    """Return the folders of all runs, oldest first; a link is none (see `linked_runs`). Raises UsageError."""
    runs, _ = _listed(runs_dir)
    # a name holds the time to the second, and two runs may begin in the same second
    return sorted(runs, key=lambda p: (p.name[:_TIME], runs[p], p.name))


def linked_runs(runs_dir: Path) -> list[ArchiveDamaged]:
    """Return what is to be said of each link in a folder of runs: nobody follows such a link. Raises UsageError."""
    return [_linked(path) for path in _listed(runs_dir)[1]]


def find_run(word: str, runs_dir: Path) -> Path:
    """Return the run that `word` names: `last`, an id, an unambiguous prefix, or a path.

    Raises UsageError where it names none, or several; ArchiveDamaged where it is the id of a link.
    """
    if _is_run(Path(word)):
        return Path(word)
    runs = list_runs(runs_dir)
    if word == "last":
        if not runs:
            raise UsageError(f"no run in {on_a_line(runs_dir)}/ yet; make one with {call('run', agent='search')}")
        return runs[-1]
    matching = [p for p in runs if p.name == word] or [p for p in runs if p.name.startswith(word)]
    if not matching and (link := runs_dir / word) in _listed(runs_dir)[1]:
        raise _linked(link)
    if not matching:
        hint = did_you_mean(word, [p.name for p in runs])
        raise UsageError(f"no run {quoted(word)} in {on_a_line(runs_dir)}/{hint}; {call('ls')} lists them")
    if len(matching) > 1:
        raise UsageError(
            f"{quoted(word)} fits {len(matching)} runs: {', '.join(p.name for p in matching[:4])}; say more of it"
        )
    return matching[0]


def read_info(folder: Path) -> tuple[RunInfo, str]:
    """Read `run.json`, and return it with the sha256 (hex) of its bytes.

    Raises ArchiveDamaged if it cannot be read, NeedsUpgrade for a newer schema.
    """
    path = folder / "run.json"
    data = read_file(path, LONGEST)
    return _info_of(data, path), hashlib.sha256(data).hexdigest()


def read_labels(folder: Path) -> str | None:
    """Return the text of the file of labels, or None if there is none. Raises ArchiveDamaged if it cannot be read."""
    path = folder / LABELS
    if not os.path.lexists(path):
        return None
    try:
        return read_file(path, LONGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ArchiveDamaged(f"{path}: it is not UTF-8 text") from None


def _info_of(data: bytes, path: Path) -> RunInfo:
    try:
        members = parse(data)
        check_version(members.get("schema_version"), path)
        return checked(members, RunInfo.model_validate, path, run_faults)
    except ValueError as exc:
        raise ArchiveDamaged(f"{path}: Invalid JSON: {exc}. {_NO_REPAIR}") from None
    except ArchiveDamaged as exc:
        raise ArchiveDamaged(f"{exc}. {_NO_REPAIR}") from None


def _is_run(folder: Path) -> bool:
    try:
        (folder / "run.json").lstat()
    except (OSError, ValueError):  # a word may be too long to be a path, or hold a NUL
        return False
    return True


def _listed(runs_dir: Path) -> tuple[dict[Path, int], list[Path]]:
    try:
        return runs_in(runs_dir)
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except OSError as exc:
        raise UsageError(f"cannot list the runs in {runs_dir}/: {exc.strerror}") from None


def _linked(path: Path) -> ArchiveDamaged:
    return ArchiveDamaged(f"{path}: a link stands where a run should be; name the folder that it leads to")
