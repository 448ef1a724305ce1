"""What a judging goes by: its rubric and a judge's profile, never read where only an archive names their files."""

import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.archive.comparison_reader import ComparisonInfo
from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo, find_run
from harness.archive.typed_records import RankingHead
from harness.core.errors import UsageError, before_colon, call, on_a_line, option
from harness.core.judge_profile import JudgeLeanings, JudgeProfile, profile_in
from harness.core.redaction import Redactor
from harness.core.settings import DEFAULT_RUBRIC, Settings
from harness.core.user_files import is_file, read_text
from harness.pipeline.resolve import JudgeSpec
from harness.ranking.estimators import rests_on_pooled
from harness.ranking.judge_kinds import KINDS
from harness.ranking.profile import profile_of_kind
from harness.report.learnt_judges import judge_profiles, jury_profile
from harness.rollouts.loading import LoadedAgent
from harness.tournament.ranker import METHODS, AnyRubric

_QUOTED = 200
_MOST_BYTES = 1 << 20


def load_named_rubric(settings: Settings) -> AnyRubric:
    """Return what the judge goes by, as the settings of today's command name it. Raises UsageError."""
    return METHODS[settings.judge].load_rubric(_named_rubric(settings))


def _named_rubric(settings: Settings) -> str:
    """Return the word for the rubric: the default's name where none is set."""
    return settings.rubric or DEFAULT_RUBRIC


def rubric_for_run(loaded: LoadedAgent, settings: Settings) -> tuple[Settings, AnyRubric]:
    """Return what a new run is judged by: named, its agent's RUBRIC, or the default; and the settings that name it."""
    if settings.rubric is None and loaded.rubric is not None and settings.judge == "pairwise":
        path, here = Path(loaded.rubric), Path.cwd()
        word = str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else loaded.rubric
        try:
            return replace(settings, rubric=word), METHODS[settings.judge].load_rubric(word)
        except UsageError as exc:
            reason = str(exc).removeprefix(option("rubric")).strip()
            raise UsageError(f"RUBRIC in {loaded.file or loaded.name}: {reason}") from None
    settings = replace(settings, rubric=_named_rubric(settings))
    return settings, load_named_rubric(settings)


def whole_text(text: str | None, redact: Redactor) -> str | None:
    """Return a text for the archive; None where redaction would make another text of it."""
    written = json.dumps(text)
    return text if text is not None and redact(text) == text and redact.secret(written) == written else None


def rescoring_rubric(info: RunInfo, settings: Settings, changes: Mapping[str, Any]) -> AnyRubric:
    """Return the rubric of `changes`, else the run's own; `settings` are the changed ones. Raises UsageError."""
    method, word = METHODS[settings.judge], _named_rubric(settings)
    is_packaged, of_run = method.is_packaged(word), f"run {info.id[:_QUOTED]}"
    is_other = settings.judge != info.settings.get("judge", settings.judge) and is_packaged
    if changes.get("rubric") is None and not is_other and info.rubric_text is not None:
        return method.parse_rubric(info.rubric_text, info.rubric or "", f"the rubric in {of_run}")
    if changes.get("rubric") is not None or is_packaged:
        return method.load_rubric(word)
    raise UsageError(
        f"{of_run} does not hold the text of its rubric, and a file that a run names is not read: name the rubric with "
        f"{option('rubric')}"
    )


def rubric_as_begun(
    info: RunInfo | ComparisonInfo, like: RankingHead | None, settings: Settings, word: str | None
) -> AnyRubric:
    """Return the rubric of a run, or of a ranking made again, or `word`. Raises UsageError if that is another."""
    method, label = METHODS[settings.judge], like.rubric if like else info.rubric
    text = next((r.rubric_text for r in (like, info) if r and r.rubric == label and r.rubric_text is not None), None)
    if word is None and text is not None:
        return method.parse_rubric(text, label or "", f"the rubric in run {info.id[:_QUOTED]}")
    named = _named_rubric(settings)
    if word is None and not method.is_packaged(named):
        raise UsageError(
            f"run {info.id[:_QUOTED]} does not hold the text of its rubric ({str(label)[:_QUOTED]}), and a file that a "
            f"run names is not read: name the file with {call('resume', 'RUN', rubric='FILE')}"
        )
    rubric = method.load_rubric(named if word is None else word)
    if label not in (None, rubric.label):
        raise UsageError(
            f"the rubric is no longer {label[:_QUOTED]}, but {rubric.label}: restore it, or judge anew with "
            f"{call('rescore')}"
        )
    return rubric


def with_profile(settings: Settings, judge: JudgeSpec, rubric: AnyRubric) -> Settings:
    """Return settings with the text of the profile that they name. Raises UsageError for one that cannot be used."""
    word = settings.judge_profile
    if word is None:
        return settings
    if settings.judge != "pairwise":
        raise UsageError(f"{option('judge_profile')} with {option('judge', settings.judge)}: a profile is of pairs")
    if settings.estimator != "pooled":
        raise UsageError(
            f"{option('judge_profile')} with {option('estimator', settings.estimator)}: a profile is for "
            f"{option('estimator', 'pooled')}"
        )
    if word in KINDS and len(judge.members) > 1:
        raise UsageError(
            f"{option('judge_profile', word)} with a jury: a kind is of one judge; name a run that the same jury judged"
        )
    mismatches, known = list[str](), (judge.identity, rubric.label, rubric.rendering)
    for profile in _profiles(word, settings.runs_dir, known):
        if (mismatch := profile.mismatch(*known)) is None:
            break
        mismatches.append(mismatch)
    else:
        reasons = on_a_line("; ".join(mismatches))
        raise UsageError(f"{before_colon('judge_profile')}: this profile does not fit: {reasons}")
    text = profile.model_dump_json()
    if Redactor((), settings.redact)(text) != text:
        raise UsageError(
            f"{option('redact')} takes something out of the profile, and it could not be kept with the run"
        )
    return replace(settings, judge_profile=text)


def leanings_for(
    settings: Settings, judge: JudgeSpec, rubric: AnyRubric, reader: RunReader | None = None
) -> JudgeLeanings | None:
    """Return what is known of a judge's leanings: as the profile of the settings has it, else by probes of the run."""
    profile = profile_in(settings.judge_profile, option("judge_profile")) if settings.judge_profile else None
    if profile and profile.leanings:
        return profile.leanings
    if reader is None or len(judge.members) > 1 or settings.judge != "pairwise":
        return None
    return (
        reader.leanings(judge.identity, rubric.label, rubric.rendering) if rests_on_pooled(settings.estimator) else None
    )


def refuse_profile(settings: Settings) -> None:
    """Raise UsageError for a profile where a judge of the caller's own judges, whose rubric nobody knows."""
    if settings.judge_profile is not None:
        raise UsageError(f"{option('judge_profile')} is for a judge that is named by its model")


def _profiles(word: str, runs_dir: Path, judging: tuple[str, str, int]) -> list[JudgeProfile]:
    """Return the profiles that a word names: a text, a file, a kind for the `judging` at hand, those of a run."""
    if word.lstrip().startswith("{"):
        return [profile_in(word, before_colon("judge_profile"))]
    path, name = Path(word), on_a_line(word)
    if is_file(path):
        return [profile_in(read_text(path, name, most=_MOST_BYTES), name)]
    if word in KINDS:
        return [profile_of_kind(word, *judging)]
    try:
        folder = find_run(word, runs_dir)
    except UsageError as exc:
        raise UsageError(
            f"{option('judge_profile', name)}: no file, and {exc}; kinds of judges are {', '.join(KINDS)}"
        ) from None
    with RunReader(folder) as reader:
        if reader.newest_head() is None:
            raise UsageError(f"{before_colon('judge_profile')}: run {reader.info.id} is not judged yet")
        ranking = reader.ranking()
        if profiles := judge_profiles(reader, ranking):
            of_jury = jury_profile(ranking)
            return [of_jury, *profiles] if of_jury else profiles
        raise UsageError(
            f"{before_colon('judge_profile')}: the newest ranking of run {reader.info.id} rests on no judged pair"
        )


@contextmanager
def open_reuse_sources(folders: Iterable[Path]) -> Generator[list[RunReader]]:
    """Open the runs of --reuse, and read where their verdicts are: damage is found before anything is spent."""
    with ExitStack() as opened:
        readers = [opened.enter_context(RunReader(folder)) for folder in folders]
        for reader in readers:
            _ = reader.index
        yield readers
