"""--judge-profile: a judge's profile out of a run or a file, checked against who judges now, and kept as text.

The settings of a plan hold the whole profile, so that a run, and each ranking, carries what it was made with. A word
that an archive holds in its place is never looked up.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.archive.layout import find_run
from harness.archive.reader import RunReader
from harness.core.errors import UsageError, on_a_line
from harness.core.judge_profile import JudgeProfile, profile_in
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.core.user_files import is_file, read_text
from harness.core.wording import before_colon, option
from harness.pipeline.resolve import JudgeSpec
from harness.report.learnt_judges import judge_profiles
from harness.tournament.ranker import AnyRubric
from harness.transcripts.transcript import RENDERING

_MOST_BYTES = 1 << 20


def with_profile(settings: Settings, judge: JudgeSpec, rubric: AnyRubric) -> Settings:
    """Return settings with the text of the profile that they name; the settings themselves where they name none.

    Raises UsageError for what is no profile, for one of another judge, rubric or rendering, and where nothing uses it.
    """
    word = settings.judge_profile
    if word is None:
        return settings
    _check_use(settings, len(judge.members))
    profile = _fitting(_profiles(word, settings.runs_dir), judge.identity, rubric.label)
    text = profile.model_dump_json()
    if Redactor((), settings.redact)(text) != text:
        raise UsageError(
            f"{option('redact')} takes something out of the profile, and it could not be kept with the run"
        )
    return replace(settings, judge_profile=text)


def refuse_profile(settings: Settings) -> None:
    """Raise UsageError for a profile where a judge of the caller's own judges, whose rubric nobody knows."""
    if settings.judge_profile is not None:
        raise UsageError(f"{option('judge_profile')} is for a judge that is named by its model")


def _check_use(settings: Settings, judges: int) -> None:
    if settings.judge != "pairwise":
        raise UsageError(f"{option('judge_profile')} with {option('judge', settings.judge)}: a profile is of pairs")
    if settings.estimator != "pooled":
        raise UsageError(
            f"{option('judge_profile')} with {option('estimator', settings.estimator)}: a profile is for "
            f"{option('estimator', 'pooled')}"
        )
    if judges > 1:
        raise UsageError(f"{option('judge_profile')} with a jury: a profile is of one judge; name one judge")


def _profiles(word: str, runs_dir: Path) -> list[JudgeProfile]:
    """Return what a text, a file or a run holds. Raises UsageError, ArchiveDamaged."""
    if word.lstrip().startswith("{"):
        return [profile_in(word, before_colon("judge_profile"))]
    path, name = Path(word), on_a_line(word)
    if is_file(path):
        return [profile_in(read_text(path, name, most=_MOST_BYTES), name)]
    with RunReader(_run(word, runs_dir)) as reader:
        if reader.newest_head() is None:
            raise UsageError(f"{before_colon('judge_profile')}: run {reader.info.id} is not judged yet")
        if profiles := judge_profiles(reader, reader.ranking()):
            return profiles
        raise UsageError(
            f"{before_colon('judge_profile')}: the newest ranking of run {reader.info.id} rests on no judged pair"
        )


def _run(word: str, runs_dir: Path) -> Path:
    try:
        return find_run(word, runs_dir)
    except UsageError as exc:
        raise UsageError(f"{option('judge_profile', on_a_line(word))}: no file, and {exc}") from None


def _fitting(profiles: Sequence[JudgeProfile], judge: str, rubric: str) -> JudgeProfile:
    """Return the first profile of this judge and rubric. Raises UsageError naming both sides."""
    mismatches = list[str]()
    for profile in profiles:
        mismatch = profile.mismatch(judge, rubric, RENDERING)
        if mismatch is None:
            return profile
        mismatches.append(mismatch)
    raise UsageError(f"{before_colon('judge_profile')}: this profile does not fit: {on_a_line('; '.join(mismatches))}")
