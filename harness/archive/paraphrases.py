"""Paraphrases of instructions that a model wrote, in `$XDG_STATE_HOME/arena-harness/paraphrases`.

They are kept as soon as they are there: a run that is killed before it begins has not paid for nothing. The runs hold
their texts themselves.
"""

from collections.abc import Mapping
from pathlib import Path

from harness.archive.attestations import read_own, write_own
from harness.core.records import Record, digest
from harness.core.user_files import state_folder


class Paraphrases(Record):
    """What a model replied to the request for paraphrases."""

    reply: str


def kept_paraphrases(own: str, count: int, place: str, environ: Mapping[str, str]) -> str | None:
    """Return the reply of the model at `place` (model@host), if it was asked for so many on this machine."""
    kept = read_own(_path(own, count, place, environ), Paraphrases)
    return kept and kept.reply


def keep_paraphrases(reply: str, own: str, count: int, place: str, environ: Mapping[str, str]) -> None:
    """Keep a reply. Raises CannotWrite."""
    write_own(_path(own, count, place, environ), Paraphrases(reply=reply))


def _path(own: str, count: int, place: str, environ: Mapping[str, str]) -> Path:
    return state_folder(environ) / "paraphrases" / f"{digest([own, count, place])}.json"
