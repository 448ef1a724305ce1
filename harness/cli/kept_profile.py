"""`harness stats --profile FILE`: what a ranking taught of its judge, written to a file that --judge-profile takes."""

from pathlib import Path

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.cli.new_files import refuse_existing, write_new
from harness.core.errors import NothingRankable, UsageError
from harness.report.learnt_judges import judge_profiles


def write_profile(reader: RunReader, ranking: RankingFile, path: Path, *, force: bool) -> None:
    """Write the profile of a ranking's judge as JSON.

    Raises UsageError for a file that is there, and for a jury; NothingRankable without a judged pair; CannotWrite.
    """
    if not force:
        refuse_existing(path)
    profiles = judge_profiles(reader, ranking)
    if not profiles:
        raise NothingRankable(f"ranking {ranking.head.id} of run {reader.info.id} rests on no judged pair")
    if len(profiles) > 1:
        judges = ", ".join(profile.judge for profile in profiles)
        raise UsageError(
            f"--profile: ranking {ranking.head.id} has a jury ({judges}), and --judge-profile is for one judge; "
            "`stats --json` holds each juror's profile"
        )
    write_new(path, profiles[0].model_dump_json(indent=1) + "\n", force=force)
