"""What many calls that judge share: a folder of verdicts, and one ceiling on what all of them spend."""

from dataclasses import dataclass
from pathlib import Path

from harness.api.outside import credentials_of, surroundings_of
from harness.archive import VerdictFolder
from harness.core.settings import Settings
from harness.core.wording import from_python
from harness.endpoints import Ceiling
from harness.pipeline import ceiling_of, check_prices, redactor_of, resolve_judge


@dataclass(frozen=True)
class SharedJudging:
    """Where verdicts are kept, if they are, and what may be spent."""

    verdicts: VerdictFolder | None
    ceiling: Ceiling

    def close(self) -> None:
        """Close the folder of verdicts."""
        if self.verdicts:
            self.verdicts.close()


def share_judging(settings: Settings, folder: Path | None = None) -> SharedJudging:
    """Open the folder of verdicts, or make it. Keys in force, and what `settings` name, are kept out of it.

    Raises UsageError for a judge that cannot be used or has no price under a ceiling; ArchiveLocked, CannotWrite and
    ArchiveDamaged for the folder.
    """
    surroundings = surroundings_of(None)
    with from_python():
        judge = resolve_judge(settings, credentials_of(settings, surroundings), None, offline=settings.offline)
        check_prices(settings, judge)
        ceiling = ceiling_of(settings, judge)
        redact = redactor_of(None, settings, surroundings.environ)
        verdicts = VerdictFolder(folder, surroundings.clock(), redact=redact) if folder else None
    return SharedJudging(verdicts, ceiling)
