"""Which rubric a judging goes by: one that the user names now, or the text that the run holds.

A rubric's file that an archive names is never read.
"""

import json
from collections.abc import Mapping
from typing import Any

from harness.archive import RankingHead, RunInfo
from harness.core.errors import UsageError
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.core.wording import call, option
from harness.tournament import METHODS, AnyRubric

_QUOTED = 200


def rubric_of(settings: Settings) -> AnyRubric:
    """Return what the judge goes by, as the settings of today's command name it. Raises UsageError."""
    return METHODS[settings.judge].load_rubric(settings.rubric)


def text_to_keep(rubric: AnyRubric, redact: Redactor) -> str | None:
    """Return a rubric's text for the archive; None where redaction would make another rubric of it."""
    written = json.dumps(rubric.source)
    whole = redact(rubric.source) == rubric.source and redact.secret(written) == written
    return rubric.source if whole else None


def rubric_for_rescoring(info: RunInfo, settings: Settings, changes: Mapping[str, Any]) -> AnyRubric:
    """Return the rubric of `changes`, else the run's own; `settings` are the changed ones. Raises UsageError."""
    method = METHODS[settings.judge]
    if changes.get("rubric") is not None or _is_packaged_for_another_judge(info, settings):
        return method.load_rubric(settings.rubric)
    if info.rubric_text is not None:
        return method.parse_rubric(info.rubric_text, info.rubric or "", _where(info))
    if method.is_packaged(settings.rubric):
        return method.load_rubric(settings.rubric)
    raise UsageError(
        f"run {_id(info)} does not hold the text of its rubric, and a file that a run names is not read: name the "
        f"rubric with {option('rubric')}"
    )


def _is_packaged_for_another_judge(info: RunInfo, settings: Settings) -> bool:
    """Whether the run's own text is for another way of judging, and its settings name a rubric of the package."""
    return settings.judge != info.settings.get("judge", settings.judge) and METHODS[settings.judge].is_packaged(
        settings.rubric
    )


def rubric_as_begun(info: RunInfo, like: RankingHead | None, settings: Settings, word: str | None) -> AnyRubric:
    """Return the rubric of a run, or of the ranking that is to be made again; `word` is one that the user names now.

    Raises UsageError where the rubric named now, or the one of the package, is not the one of then.
    """
    method, label = METHODS[settings.judge], like.rubric if like else info.rubric
    text = next((r.rubric_text for r in (like, info) if r and r.rubric == label and r.rubric_text is not None), None)
    if word is None and text is not None:
        return method.parse_rubric(text, label or "", _where(info))
    if word is None and not method.is_packaged(settings.rubric):
        raise UsageError(
            f"run {_id(info)} does not hold the text of its rubric ({str(label)[:_QUOTED]}), and a file that a run "
            f"names is not read: name the file with {call('resume', _id(info), rubric='FILE')}"
        )
    rubric = method.load_rubric(word if word is not None else settings.rubric)
    if label not in (None, rubric.label):
        raise UsageError(
            f"the rubric is no longer {label[:_QUOTED]}, but {rubric.label}: restore it, or judge anew with "
            f"{call('rescore')}"
        )
    return rubric


def _where(info: RunInfo) -> str:
    return f"the rubric in run {_id(info)}"


def _id(info: RunInfo) -> str:
    return info.id[:_QUOTED]
