"""This machine's own record of the runs that were made here: `$XDG_STATE_HOME/arena-harness/runs/<run id>.json`.

It counts only for the run.json that it was written for: a run from a stranger has none, whatever id the run bears. The
agent runs without a question only on the queries that the record was written for.
"""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import Field, ValidationError

from harness.archive.reader import FolderReader
from harness.archive.run_files import files_in, open_file
from harness.core.errors import CannotWrite
from harness.core.records import Record, to_json
from harness.core.user_files import state_folder

_LARGEST = 1_000_000
"""Bytes; a record has some hundred."""
_PIECE = 1 << 20
_Own = TypeVar("_Own", bound=Record)
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,100}")


class AgentOrigin(NamedTuple):
    """Where a run's agent comes from, as far as it is known."""

    word: str | None = None
    """What names it."""
    file: Path | None = None
    here: Path | None = None
    """The folder from which it is named."""


_NOT_KNOWN = AgentOrigin()


class Attestation(Record):
    """What this machine knows of a run that was made here."""

    run: str
    sha256: str
    """Of the run's run.json."""
    queries: str | None = None
    """The sha256 of the lines of the run's queries; None in a record that an earlier version wrote."""
    agent_word: str | None = None
    """What --agent was given; None for an agent given from Python, and for an imported run."""
    agent_file: Path | None = None
    """The agent's file, absolute."""
    here: Path | None = None
    """The working folder from which the agent was named, absolute."""
    checkpoint_key: str | None = Field(default=None, repr=False)
    """What signs the run's checkpoints; None in a record that an earlier version wrote."""
    addresses: tuple[str, ...] = ()
    """Where its user sent keys, beside OpenAI's own address; users, passwords and queries left out."""

    @property
    def origin(self) -> AgentOrigin:
        """Where its agent comes from."""
        return AgentOrigin(self.agent_word, self.agent_file, self.here)


def read_attestation(reader: FolderReader, environ: Mapping[str, str]) -> Attestation | None:
    """Return this machine's record of a run; None without one that can be read, or where its run.json has changed."""
    record = read_own(_path(reader.id, environ), Attestation)
    return record if record and (record.run, record.sha256) == (reader.id, reader.info_sha256) else None


def read_own(path: Path, kind: type[_Own]) -> _Own | None:
    """Return a record that this machine keeps for itself; None without one that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                return None
            return kind.model_validate_json(file.read(_LARGEST))
    except (OSError, ValidationError):
        return None


def attests_queries(record: Attestation, reader: FolderReader) -> bool:
    """Return whether a run's queries are those that it was made with. Raises ArchiveDamaged."""
    return record.queries == _hash_queries(reader)


def _hash_queries(reader: FolderReader) -> str:
    """Return the sha256 of all lines, as they stand: no record is read for it."""
    digest = hashlib.sha256()
    for path in files_in(reader.folder / "queries"):
        with open_file(path) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    return digest.hexdigest()


def attest(
    reader: FolderReader,
    environ: Mapping[str, str],
    addresses: Iterable[str] = (),
    agent: AgentOrigin = _NOT_KNOWN,
    *,
    checkpoint_key: str | None = None,
) -> Attestation:
    """Write down that a run is made here and now; return the record. Raises CannotWrite, ArchiveDamaged."""
    record = Attestation(
        run=reader.id,
        sha256=reader.info_sha256,
        queries=_hash_queries(reader),
        agent_word=agent.word,
        agent_file=agent.file and agent.file.resolve(),
        here=agent.here and agent.here.resolve(),
        checkpoint_key=checkpoint_key,
        addresses=tuple(dict.fromkeys(addresses)),
    )
    write_own(_path(record.run, environ), record)
    return record


def attest_addresses(record: Attestation, environ: Mapping[str, str], addresses: Iterable[str]) -> None:
    """Write down that the user of a run that was made here has named more addresses. Raises CannotWrite."""
    together = tuple(dict.fromkeys((*record.addresses, *addresses)))
    if together != record.addresses:
        write_own(_path(record.run, environ), record.model_copy(update={"addresses": together}))


def withdraw(run_id: str, environ: Mapping[str, str]) -> None:
    """Forget a run that was taken away again."""
    with suppress(OSError):  # a record without its run does no harm
        _path(run_id, environ).unlink(missing_ok=True)


def _path(run_id: str, environ: Mapping[str, str]) -> Path:
    """Return the file of a run's record. An id comes from an archive, and may be any text."""
    plain = _PLAIN_ID.fullmatch(run_id)
    name = run_id if plain else f"sha256-{hashlib.sha256(run_id.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return state_folder(environ) / "runs" / f"{name}.json"


def write_own(path: Path, record: Record) -> None:
    """Write a record that this machine keeps for itself, whole or not at all. Raises CannotWrite."""
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".", delete=False) as file:  # with mode 0600
            file.write(to_json(record).encode())
        Path(file.name).replace(path)
    except OSError as exc:
        raise CannotWrite(f"cannot write {path}: {exc.strerror}") from None
