"""Which rubric a judging goes by: one that the user names now, or the text that the run holds.

A rubric's file that an archive names is never read.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.archive.comparison_reader import ComparisonInfo
from harness.archive.run_info import RunInfo
from harness.archive.typed_records import RankingHead
from harness.core.errors import UsageError
from harness.core.redaction import Redactor
from harness.core.settings import DEFAULT_RUBRIC, Settings
from harness.core.wording import call, option
from harness.rollouts.loading import LoadedAgent
from harness.tournament.ranker import METHODS, AnyRubric

_QUOTED = 200


def rubric_of(settings: Settings) -> AnyRubric:
    """Return what the judge goes by, as the settings of today's command name it. Raises UsageError."""
    return METHODS[settings.judge].load_rubric(named_rubric(settings))


def named_rubric(settings: Settings) -> str:
    """Return the word for the rubric: the default's name where none is set."""
    return settings.rubric or DEFAULT_RUBRIC


def rubric_of_run(loaded: LoadedAgent, settings: Settings) -> tuple[Settings, AnyRubric]:
    """Return what a new run is judged by, and the settings that name it.

    Where the user names none, the RUBRIC of the agent's file holds for judging in pairs, else the default.
    Raises UsageError.
    """
    if settings.rubric is None and loaded.rubric is not None and settings.judge == "pairwise":
        word = _from_here(loaded.rubric)
        try:
            return replace(settings, rubric=word), METHODS[settings.judge].load_rubric(word)
        except UsageError as exc:
            reason = str(exc).removeprefix(option("rubric")).strip()
            raise UsageError(f"RUBRIC in {loaded.file or loaded.name}: {reason}") from None
    settings = replace(settings, rubric=named_rubric(settings))
    return settings, rubric_of(settings)


def _from_here(word: str) -> str:
    """Return the path of a file as the user would type it here; a name of a packaged rubric stays."""
    path, here = Path(word), Path.cwd()
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else word


def text_to_keep(rubric: AnyRubric, redact: Redactor) -> str | None:
    """Return a rubric's text for the archive; None where redaction would make another rubric of it."""
    return whole_text(rubric.source, redact)


def whole_text(text: str | None, redact: Redactor) -> str | None:
    """Return a text for the archive; None where redaction would make another text of it."""
    written = json.dumps(text)
    return text if text is not None and redact(text) == text and redact.secret(written) == written else None


def rubric_for_rescoring(info: RunInfo, settings: Settings, changes: Mapping[str, Any]) -> AnyRubric:
    """Return the rubric of `changes`, else the run's own; `settings` are the changed ones. Raises UsageError."""
    method = METHODS[settings.judge]
    if changes.get("rubric") is not None or _is_packaged_for_another_judge(info, settings):
        return method.load_rubric(named_rubric(settings))
    if info.rubric_text is not None:
        return method.parse_rubric(info.rubric_text, info.rubric or "", _where(info))
    if method.is_packaged(named_rubric(settings)):
        return method.load_rubric(named_rubric(settings))
    raise UsageError(
        f"run {_id(info)} does not hold the text of its rubric, and a file that a run names is not read: name the "
        f"rubric with {option('rubric')}"
    )


def _is_packaged_for_another_judge(info: RunInfo, settings: Settings) -> bool:
    """Whether the run's own text is for another way of judging, and its settings name a rubric of the package."""
    return settings.judge != info.settings.get("judge", settings.judge) and METHODS[settings.judge].is_packaged(
        named_rubric(settings)
    )


def rubric_as_begun(
    info: RunInfo | ComparisonInfo, like: RankingHead | None, settings: Settings, word: str | None
) -> AnyRubric:
    """Return the rubric of a run, or of the ranking that is to be made again; `word` is one that the user names now.

    Raises UsageError where the rubric named now, or the one of the package, is not the one of then.
    """
    method, label = METHODS[settings.judge], like.rubric if like else info.rubric
    text = next((r.rubric_text for r in (like, info) if r and r.rubric == label and r.rubric_text is not None), None)
    if word is None and text is not None:
        return method.parse_rubric(text, label or "", _where(info))
    if word is None and not method.is_packaged(named_rubric(settings)):
        raise UsageError(
            f"run {_id(info)} does not hold the text of its rubric ({str(label)[:_QUOTED]}), and a file that a run "
            f"names is not read: name the file with {call('resume', 'RUN', rubric='FILE')}"
        )
    rubric = method.load_rubric(word if word is not None else named_rubric(settings))
    if label not in (None, rubric.label):
        raise UsageError(
            f"the rubric is no longer {label[:_QUOTED]}, but {rubric.label}: restore it, or judge anew with "
            f"{call('rescore')}"
        )
    return rubric


def _where(info: RunInfo | ComparisonInfo) -> str:
    return f"the rubric in run {_id(info)}"


def _id(info: RunInfo | ComparisonInfo) -> str:
    return info.id[:_QUOTED]
