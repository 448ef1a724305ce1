"""What many calls that judge share: a folder of verdicts, and one ceiling on what all of them spend."""

import weakref
from dataclasses import dataclass
from pathlib import Path

from harness.api.outside import credentials_of, surroundings_of
from harness.archive.folder_store import VerdictFolder
from harness.core.settings import Settings
from harness.core.wording import from_python
from harness.endpoints.costs import Ceiling
from harness.pipeline.costs import ceiling_of, check_prices
from harness.pipeline.resolve import redactor_of, resolve_judge
from harness.pipeline.run_environment import RunEnvironment


class OpenVerdicts:
    """A folder of verdicts that is open as long as anybody holds this."""

    def __init__(self, folder: VerdictFolder) -> None:
        """Close the folder when nobody holds this any more, or when the process ends."""
        self.folder = folder
        weakref.finalize(self, folder.close)


_OPEN = weakref.WeakValueDictionary[Path, OpenVerdicts]()
"""The folders that this process has open: a folder has one lock, and a process may judge in several places."""


@dataclass(frozen=True)
class SharedJudging:
    """Where verdicts are kept, if they are, and what may be spent."""

    verdicts: OpenVerdicts | None
    ceiling: Ceiling


def share_judging(settings: Settings, folder: Path | None = None) -> SharedJudging:
    """Open the folder of verdicts, or make it. Keys in force, and what `settings` name, are kept out of it.

    A folder that this process has open is shared. Raises UsageError for a judge that cannot be used or has no price
    under a ceiling; ArchiveLocked, CannotWrite and ArchiveDamaged for the folder.
    """
    run_env = surroundings_of(None)
    with from_python():
        judge = resolve_judge(settings, credentials_of(settings, run_env), None, offline=settings.offline)
        check_prices(settings, judge)
        verdicts = _opened(folder.resolve(), settings, run_env) if folder else None
        return SharedJudging(verdicts, ceiling_of(settings, judge))


def _opened(folder: Path, settings: Settings, run_env: RunEnvironment) -> OpenVerdicts:
    if (verdicts := _OPEN.get(folder)) is None:
        redact = redactor_of(None, settings, run_env.environ)
        verdicts = _OPEN[folder] = OpenVerdicts(VerdictFolder(folder, run_env.clock(), redact=redact))
    return verdicts
