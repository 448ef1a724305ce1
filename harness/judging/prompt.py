"""The two messages that a judge gets: fixed text first, then task and query, then the pair or the list."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from harness.core.records import digest
from harness.judging.citations import CITATION_NOTE
from harness.judging.flags import FLAG_RULES
from harness.judging.reply import example, list_schema, schema
from harness.judging.rubric import ListRubric, Rubric
from harness.judging.slots import Beginning
from harness.judging.transcript_form import EVIDENCE_NOTE
from harness.transcripts.clean_text import legible
from harness.transcripts.transcript import Transcript

_SYSTEM, _USER = "system.md.j2", "user.md.j2"
_LIST_SYSTEM, _LIST_USER = "list_system.md.j2", "list_user.md.j2"


@dataclass(frozen=True)
class Task:
    """What both rollouts were asked: the query, the brief they worked under, the answer expected (if known)."""

    query_id: str
    query: str
    brief: str | None = None
    reference: str | None = None
    repeat: int = 0
    """Which of several askings of the very same question this is; no part of the prompt, but of the verdict's key."""


@dataclass(frozen=True, kw_only=True)
class _Question:
    """One question to a judge, as messages."""

    system: str
    user: str
    repair: tuple[str, str] | None = None
    """The reply that could not be used, and what was wrong with it."""
    key: str = ""
    """Of the verdict that is asked for."""

    def messages(self) -> list[dict[str, str]]:
        """Return chat messages, the repair turn last where there is one."""
        messages = [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]
        if self.repair:
            reply, complaint = self.repair
            form = "Reply again with the whole JSON object in the form asked for, and nothing else."
            again = f"That reply cannot be used: {complaint} {form}"
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": again}]
        return messages


@dataclass(frozen=True, kw_only=True)
class Prompt(_Question):
    """A question on a pair, and the material that it was made of, as far as the judge sees it."""

    rubric: Rubric
    task: Task
    first: Transcript
    second: Transcript

    @property
    def beginning(self) -> Beginning:
        """Prompts of one rubric with equal beginnings are the same up to the second transcript."""
        return self.task.query_id, self.first.hash

    def schema(self) -> dict[str, Any]:
        """Return the reply's form as a strict JSON schema."""
        return schema(self.rubric)


@dataclass(frozen=True)
class ListTask:
    """What all trajectories have in common. `context` holds chat messages as JSON lines, in place of a query."""

    task: Task
    context: str = ""
    tools: str = ""


@dataclass(frozen=True, kw_only=True)
class ListPrompt(_Question):
    """A question on a list, and the material that it was made of."""

    about: ListTask
    shown: tuple[tuple[str, Transcript], ...]
    """Id and transcript, in the order shown."""

    @property
    def beginning(self) -> Beginning:
        """Prompts of one query begin alike."""
        return self.about.task.query_id, ""

    @property
    def ids(self) -> list[str]:
        """The ids that the reply must name, in the order shown."""
        return [id_ for id_, _ in self.shown]

    def schema(self) -> dict[str, Any]:
        """Return the reply's form as a strict JSON schema."""
        return list_schema(self.ids)


def make_pair_prompt(rubric: Rubric, task: Task, first: Transcript, second: Transcript) -> Prompt:
    """Render the prompt. A fence's code is a hash that no fenced text contains, so none can close or open a block.

    The code of task, reference and query is a hash of these, that of the pair's blocks a hash of these and the first
    transcript: prompts of a group begin alike, so that providers' prompt caches hit. Of a block that the rubric does
    not mark (weight 0) nothing is shown.
    """
    first, second = rubric.shown(first), rubric.shown(second)
    material = {
        "task": legible(task.brief or ""),
        "reference": legible(task.reference or ""),
        "query": legible(task.query),
        "first": first,
        "second": second,
    }
    texts = [m.hash + m.path + m.answer if isinstance(m, Transcript) else m for m in material.values()]
    whole, asked = "\n".join(texts), digest([m for m in material.values() if isinstance(m, str)])
    codes = {"nonce": fence_code(digest([asked, first.hash]), whole), "task_nonce": fence_code(asked, whole)}
    user = _template(_USER).render(**material, **_marked(rubric), **codes)
    return Prompt(system=fixed_message(rubric), user=user, rubric=rubric, task=task, first=first, second=second)


@cache
def prompt_fingerprint(rubric: Rubric) -> str:
    """Return the hash of all that is fixed: the rubric's file, our two templates, what is flagged if flags count."""
    rules = [*([FLAG_RULES] if rubric.caps else []), *_notes(rubric)]
    return digest([rubric.fingerprint, packaged_text(_SYSTEM), packaged_text(_USER), *rules])


@cache
def fixed_message(rubric: Rubric) -> str:
    """Return the first message, which depends on the rubric alone: its body, the dimensions, the reply's form."""
    return _template(_SYSTEM).render(
        body="\n\n".join([rubric.instructions, *_notes(rubric)]),
        dimensions=rubric.dimensions,
        example=json.dumps(example(rubric), indent=1),
        path_weight=rubric.path_weight,
        answer_weight=rubric.answer_weight,
        max_words=rubric.max_words,
        **_marked(rubric),
    )


def _notes(rubric: Rubric) -> list[str]:
    notes = {EVIDENCE_NOTE: rubric.evidence, CITATION_NOTE: rubric.require_citations}
    return [note for note, holds in notes.items() if holds]


def _marked(rubric: Rubric) -> dict[str, bool]:
    return {"marks_path": bool(rubric.block("path")), "marks_answer": bool(rubric.block("answer"))}


def fence_code(seed: str, whole: str) -> str:
    """Return a code made of `seed` that does not occur in `whole`."""
    code = hashlib.sha256(seed.encode()).hexdigest()[:16]
    while code in whole:
        code = hashlib.sha256((code + whole).encode()).hexdigest()[:16]
    return code


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
    system = _template(_LIST_SYSTEM).render(rubric=rubric.text, count=len(shown))
    user = _template(_LIST_USER).render(**material, shown=shown, nonce=nonce)
    return ListPrompt(system=system, user=user, about=about, shown=shown)


def list_fingerprint(rubric: ListRubric) -> str:
    """Return the hash of everything fixed in the prompt: the rubric's text and our own two templates."""
    return digest([rubric.fingerprint, *map(packaged_text, (_LIST_SYSTEM, _LIST_USER))])


@cache
def packaged_text(name: str) -> str:
    """Return a text file of this room's."""
    return (files("harness.judging") / name).read_text("utf-8")


@cache
def _template(name: str) -> Template:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - text, not HTML
    return environment.from_string(packaged_text(name))
