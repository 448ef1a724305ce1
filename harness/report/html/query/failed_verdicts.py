"""Verdicts that failed: which rollouts each was to compare, and why it failed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.core.verdicts import Unjudged, Unscored
from harness.transcripts.transcript import TranscriptForm


@dataclass(frozen=True)
class FailedVerdict:
    """A verdict that failed, the rollouts that it was to compare, and its record; None if the archive has no record."""

    key: str
    subject: str
    verdict: Unjudged | Unscored | None


def failures_by_key(reader: RunReader, rankings: Iterable[GroupRanking]) -> dict[str, Unjudged | Unscored]:
    """Return the newest failure of each verdict that a group had to do without, by its key."""
    open_keys = {key for ranking in rankings for key in ranking.failed_verdicts}
    if not open_keys:
        return {}
    return {v.key: v for v in reader.verdicts() if isinstance(v, Unjudged | Unscored) and v.key in open_keys}


def failed_verdicts(
    group: Group, ranking: GroupRanking, failures: Mapping[str, Unjudged | Unscored], form: TranscriptForm
) -> list[FailedVerdict]:
    """Return the verdicts that a group had to do without; `form` is how its transcripts were made."""
    if not ranking.failed_verdicts:
        return []
    labels = _labels_by_hash(group, form)
    return [
        FailedVerdict(key=key, subject=_subject(failures.get(key), labels), verdict=failures.get(key))
        for key in ranking.failed_verdicts
    ]


def _labels_by_hash(group: Group, form: TranscriptForm) -> dict[str, str]:
    """Return what to call the rollouts behind each transcript's hash."""
    indexes: dict[str, list[str]] = {}
    for rollout in group.rollouts:
        whole = form(rollout.trajectory)
        parts = (whole, replace(whole, path=""), replace(whole, answer=""))  # a rubric may mark one block only
        for transcript in {part.hash for part in parts}:
            indexes.setdefault(transcript, []).append(str(rollout.index))
    return {transcript: f"rollout {' or '.join(names)}" for transcript, names in indexes.items()}


def _subject(verdict: Unjudged | Unscored | None, labels: Mapping[str, str]) -> str:
    if isinstance(verdict, Unjudged):
        first, second = (labels.get(t, "a transcript no longer here") for t in (verdict.first, verdict.second))
        return f"{first} against {second}"
    return f"a list of {len(verdict.transcripts)}" if verdict else "a verdict no longer here"
