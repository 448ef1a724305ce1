"""Where rubrics come from: the package, a file that the user names, the text that a run keeps."""

import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from harness.core.errors import UsageError, did_you_mean, on_a_line, option, quoted
from harness.core.records import digest
from harness.judging.rubric import Rubric, RubricFaults, read_by
from harness.rubric_text.bounded import TRUSTED, in_child
from harness.rubric_text.front_matter import Faulty

LIST_RUBRIC = "ruler"
PAIRWISE_DEFAULT = "writing"
_PACKAGED = files("harness.judging") / "rubrics"
_MOST_BYTES = 1_000_000


def packaged_rubrics() -> list[str]:
    """Return the names of the rubrics that come with the package."""
    return sorted(p.name.removesuffix(".md") for p in _PACKAGED.iterdir() if p.name.endswith(".md"))


def load_rubric(name: str) -> Rubric:
    """Load a packaged rubric by name, or a file by its path. Raises UsageError with the line of what is wrong."""
    return parse_rubric(rubric_source(name), option("rubric", on_a_line(name)))


def rubric_source(name: str, where: str | None = None) -> str:
    """Return the text of a packaged rubric or of a file. Raises UsageError as load_rubric does, but naming `where`."""
    if name in packaged_rubrics():
        return (_PACKAGED / f"{name}.md").read_text("utf-8")
    if not is_file_name(name):
        known = packaged_rubrics()
        meant = f"{did_you_mean(name, known)}; known: {', '.join(known)}, or pass a FILE.md"
        raise UsageError(f"no rubric {quoted(name)}{meant}")
    return text_of_file(name, where)


def parse_rubric(source: str, where: str) -> Rubric:
    """Read a rubric from its text. Raises UsageError naming `where`, the line and the first fault."""
    return usable(read_rubric(source), where)


def usable(result: Rubric | RubricFaults, where: str) -> Rubric:
    """Return a rubric. Raises UsageError with the first fault of what is none."""
    if isinstance(result, Rubric):
        return result
    first, *others = result
    name = where.removeprefix(option("rubric")).strip()
    more = f" (and {len(others)} more: see `harness rubric check {name}`)" if others else ""
    raise UsageError(f"{where}:{first.line}: {first.text}{more}")


def read_rubric(source: str) -> Rubric | RubricFaults:
    """Return a rubric, or its faults by line. What is not packaged is read in a child of limited time and memory."""
    try:
        return _read_once(source)
    except _NoRubric as exc:
        return exc.faults


class _NoRubric(Exception):
    def __init__(self, faults: RubricFaults) -> None:
        super().__init__()
        self.faults = faults


@lru_cache(maxsize=16)
def _read_once(source: str) -> Rubric:
    """Return a rubric. Raises _NoRubric, which is not remembered: a busy machine may have been the reason."""
    if source in _packaged_texts():
        read = read_by(TRUSTED, source)
    else:
        try:
            with in_child() as reader:
                read = read_by(reader, source)
        except Faulty as exc:
            raise _NoRubric((exc.fault,)) from None
    if isinstance(read, Rubric):
        return read
    raise _NoRubric(read)


@lru_cache(maxsize=1)
def _packaged_texts() -> frozenset[str]:
    return frozenset((_PACKAGED / f"{name}.md").read_text("utf-8") for name in packaged_rubrics())


def is_file_name(name: str) -> bool:
    """Whether a word names a file rather than a packaged rubric: it has a suffix, or it is there."""
    try:
        return bool(Path(name).suffix) or Path(name).exists()
    except OSError:  # too long for a file's name
        return True


def text_of_file(name: str, where: str | None = None) -> str:
    """Return the text of a file of the user's. Raises UsageError, naming `where`, else the option, above 1 MB, too."""
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a FIFO keeps nobody waiting
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is no plain file")  # noqa: TRY301
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")  # noqa: TRY301
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as exc:  # ValueError: no UTF-8, or a NUL in the name
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"{where or option('rubric', on_a_line(name))}: cannot be read ({reason})") from None


@dataclass(frozen=True)
class ListRubric:
    """What a listwise judge goes by: a text in plain words."""

    name: str
    text: str

    @property
    def fingerprint(self) -> str:
        """The sha256 (hex) of the text."""
        return digest(self.text)

    @property
    def source(self) -> str:
        """The text that a run keeps."""
        return self.text

    @property
    def label(self) -> str:
        """Name and the start of the fingerprint, for people."""
        return f"{self.name} {self.fingerprint[:12]}"


def is_packaged_list_rubric(name: str) -> bool:
    """Whether a name stands for the packaged text: its own, or the pairwise default's, which settings hold."""
    return name in {LIST_RUBRIC, PAIRWISE_DEFAULT}


def load_list_rubric(name: str | None) -> ListRubric:
    """Return the packaged text for None (or the pairwise default's name), else that of a file of the user's own.

    Raises UsageError for a file that cannot be read or is empty, and for a rubric of the pairwise judge's.
    """
    if name is None or is_packaged_list_rubric(name):
        return ListRubric(LIST_RUBRIC, files("harness.judging").joinpath("ruler.md").read_text("utf-8").strip())
    if not is_file_name(name):
        raise UsageError(
            f"{option('rubric', on_a_line(name))}: {option('judge', 'ruler')} goes by {LIST_RUBRIC!r} or by a text "
            f"FILE.md of your own{did_you_mean(name, [LIST_RUBRIC, *packaged_rubrics()])}"
        )
    return parse_list_rubric(text_of_file(name), Path(name).stem, option("rubric", on_a_line(name)))


def parse_list_rubric(text: str, name: str, where: str) -> ListRubric:
    """Return a text as a rubric of that name. Raises UsageError naming `where` for one that no list is judged by."""
    text = text.strip()
    if not text:
        raise UsageError(f"{where}: it is empty")
    if stray := re.search("[\0\ud800-\udfff]", text):
        raise UsageError(f"{where}:{text[: stray.start()].count(chr(10)) + 1}: it is no text: it holds {stray[0]!a}")
    if text.startswith("---\n"):
        ours, theirs = option("judge", "ruler"), option("judge", "pairwise")
        raise UsageError(f"{where}: front matter is for {theirs}, {ours} goes by plain text")
    return ListRubric(name, text)
