"""What rollouts under way have had so far, line by line: a process that is killed loses the calls in flight alone.

The lines of `checkpoints/` come as it happens: a `reply` for each model reply that led on, an `output` for each tool
call that ended. A rollout that has its record needs them no more, unless the record tells of a failure that
`resume` mends; `RunStore` takes away what nobody needs.

A kept reply drives the agent's tools. So each line is signed with a key that only this machine's record of the run has,
and a line of a stranger's counts for nothing.
"""

import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import not_
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue

from harness.archive.lines import LocatedRecord, Members, decode, read_lines, whole_lines
from harness.archive.run_files import files_in, remove_file, replaced_file
from harness.archive.typed_records import SEGMENT_HEAD, RecordType, read_record
from harness.core.errors import ArchiveDamaged
from harness.core.records import Record, is_none, to_json

CHECKPOINTS = "checkpoints"
"""The folder of a run that holds them."""
RolloutKey = tuple[str, int]
"""A rollout by the id of its query and its index."""


class KeptReply(Record):
    """A model call with its reply."""

    query: str
    index: int
    attempt: str
    """One attempt at the rollout."""
    call: str
    """Request and reply, packed as a part of the attempt's raw calls (harness.rollouts.raw)."""
    model: str | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    wire: Mapping[str, JsonValue]
    """What the reply said of itself on the wire."""
    tokens: str | None = None
    """Blob with the reply in tokens, where the server sent them."""
    snapshot: str | None = Field(default=None, exclude_if=is_none)
    """Blob with the state outside before it."""
    own_model: str | None = None
    parent: str | None
    """The span that the call was made under, which tells what stands beside it."""
    started_at: str
    ended_at: str | None
    elapsed_s: float
    """How long the attempt had taken."""
    is_prefix: bool = Field(default=False, exclude_if=not_)
    """It is a call of the rollout that the attempt's one is a branch of."""
    signature: str | None = Field(default=None, exclude_if=is_none)


class KeptOutput(Record):
    """What a tool call gave."""

    query: str
    index: int
    attempt: str
    call: int
    """Which of the attempt's replies asked for it, from 0."""
    call_id: str
    output: str | tuple[Mapping[str, JsonValue], ...]
    """As the next request has it: a text, or parts."""
    error: str | None = None
    """What the tool raised, where a message of it is the output."""
    started_at: str
    ended_at: str
    signature: str | None = Field(default=None, exclude_if=is_none)


def signature_of(body: str, key: str) -> str:
    """Return the signature of a record's JSON without one: HMAC-SHA256."""
    return hmac.digest(key.encode(), body.encode(), "sha256").hex()


CHECKPOINT_KINDS: dict[type[KeptReply | KeptOutput], str] = {KeptReply: "reply", KeptOutput: "output"}
CHECKPOINT_LINES: dict[str, RecordType[Any]] = {
    kind: RecordType(kind, of.model_validate) for of, kind in CHECKPOINT_KINDS.items()
}
"""Every kind of line but the header."""


@dataclass
class KeptAttempt:
    """The lines of one attempt."""

    id: str
    replies: list[KeptReply] = field(default_factory=list[KeptReply])
    outputs: list[KeptOutput] = field(default_factory=list[KeptOutput])


def read_checkpoints(
    folder: Path, wanted: Callable[[RolloutKey], bool], key: str | None
) -> tuple[dict[RolloutKey, KeptAttempt], set[RolloutKey]]:
    """Return the newest attempt at each rollout of a run that is `wanted`, and the rollouts with lines of strangers.

    Ours are the lines signed with `key`. Raises ArchiveDamaged.
    """
    attempts, strange = dict[RolloutKey, KeptAttempt](), set[RolloutKey]()
    for path in files_in(folder / CHECKPOINTS):
        for located in read_lines(path):
            if located.members["kind"] == SEGMENT_HEAD or not wanted(_key(located.members)):
                continue
            record = read_checkpoint(located)
            of = record.query, record.index
            unsigned = to_json(record.model_copy(update={"signature": None}))
            if not key or not hmac.compare_digest(signature_of(unsigned, key), record.signature or ""):
                strange.add(of)
                continue
            if of not in attempts or attempts[of].id != record.attempt:
                attempts[of] = KeptAttempt(record.attempt)
            if isinstance(record, KeptReply):
                attempts[of].replies.append(record)
            else:
                attempts[of].outputs.append(record)
    return {of: attempt for of, attempt in attempts.items() if of not in strange}, strange


def read_checkpoint(located: LocatedRecord) -> KeptReply | KeptOutput:
    """Return the record of a line. Raises ArchiveDamaged."""
    line = CHECKPOINT_LINES.get(located.members["kind"])
    if line is None:
        raise ArchiveDamaged(f"{located.where}: a record of the kind {located.members['kind']!r} among checkpoints")
    return read_record(located, line)


def drop_checkpoints(paths: Iterable[Path], is_needed: Callable[[RolloutKey], bool]) -> None:
    """Take the lines of rollouts for which they are not needed out of files; a file of which none is left goes.

    Raises ArchiveDamaged, OSError.
    """
    for path in paths:
        records = (line.members for line in read_lines(path) if line.members["kind"] != SEGMENT_HEAD)
        needed = {is_needed(_key(members)) for members in records}
        if True not in needed:
            remove_file(path)
        elif False in needed:
            with replaced_file(path) as file:
                for line, place in whole_lines(path):  # one by one: they may be as much as all raw calls
                    members = decode(line.data, place)
                    if members["kind"] == SEGMENT_HEAD or is_needed(_key(members)):
                        file.write(line.data)


def _key(members: Members) -> RolloutKey:
    return members.get("query", ""), members.get("index", -1)
