"""The two messages a listwise judge gets: fixed text first, then task and query, then the trajectories."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError, did_you_mean, on_a_line
from harness.core.records import digest
from harness.core.wording import option
from harness.judging.list_reply import list_schema
from harness.judging.prompt import Task, fence_code, packaged_text, render_template, turns
from harness.judging.rubric_files import is_file_name, packaged_rubrics, text_of_file
from harness.judging.slots import Beginning
from harness.transcripts.clean_text import legible
from harness.transcripts.transcript import Transcript

LIST_RUBRIC = "ruler"
PAIRWISE_DEFAULT = "writing"
_SYSTEM, _USER = "list_system.md.j2", "list_user.md.j2"


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


@dataclass(frozen=True)
class ListTask:
    """What all trajectories have in common. `context` holds chat messages as JSON lines, in place of a query."""

    task: Task
    context: str = ""
    tools: str = ""


@dataclass(frozen=True)
class ListPrompt:
    """One question to a listwise judge, as messages, and the material that it was made of."""

    system: str
    user: str
    about: ListTask
    shown: tuple[tuple[str, Transcript], ...]
    """Id and transcript, in the order shown."""
    repair: tuple[str, str] | None = None
    """The reply that could not be used, and what was wrong with it."""
    key: str = ""
    """Of the verdict that is asked for."""

    @property
    def beginning(self) -> Beginning:
        """Prompts of one query begin alike."""
        return self.about.task.query_id, ""

    @property
    def ids(self) -> list[str]:
        """The ids that the reply must name, in the order shown."""
        return [id_ for id_, _ in self.shown]

    def messages(self) -> list[dict[str, str]]:
        """Return chat messages, the repair turn last where there is one."""
        return turns(self.system, self.user, self.repair)

    def schema(self) -> dict[str, Any]:
        """Return the reply's form as a strict JSON schema."""
        return list_schema(self.ids)


def is_packaged_list_rubric(name: str) -> bool:
    """Whether a name stands for the packaged text: its own, or the pairwise default's, which settings hold."""
    return name in {LIST_RUBRIC, PAIRWISE_DEFAULT}


def load_list_rubric(name: str | None) -> ListRubric:
    """Return the packaged text for None (or the pairwise default's name), else that of a file of the user's own.

    Raises UsageError for a file that cannot be read or is empty, and for a rubric of the pairwise judge's.
    """
    if name is None or is_packaged_list_rubric(name):
        return ListRubric(LIST_RUBRIC, packaged_text("ruler.md").strip())
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
        raise UsageError(
            f"{where}: front matter is for {option('judge', 'pairwise')}, {option('judge', 'ruler')} goes by plain text"
        )
    return ListRubric(name, text)


def make_list_prompt(rubric: ListRubric, about: ListTask, transcripts: Sequence[Transcript]) -> ListPrompt:
    """Render the prompt on at least one transcript, ids counting from 1. The nonce is a hash of all that it fences."""
    task = about.task
    material = {
        "brief": legible(task.brief or ""),
        "reference": legible(task.reference or ""),
        "query": legible(task.query),
        "context": legible(about.context),
        "tools": legible(about.tools),
    }
    if material["context"]:
        material["query"] = ""
    shown = tuple((str(number), transcript) for number, transcript in enumerate(transcripts, 1))
    whole = "\n".join([*material.values(), *(t.hash + t.path + t.answer for _, t in shown)])
    nonce = fence_code(whole, whole)
    system = render_template(_SYSTEM, rubric=rubric.text, count=len(shown))
    user = render_template(_USER, **material, shown=shown, nonce=nonce)
    return ListPrompt(system, user, about, shown)


def list_fingerprint(rubric: ListRubric) -> str:
    """Return the hash of everything fixed in the prompt: the rubric's text and our own two templates."""
    return digest([rubric.fingerprint, *map(packaged_text, (_SYSTEM, _USER))])
