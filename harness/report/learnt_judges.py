"""The profiles of a ranking's judges: learnt from the verdicts that its matches rest on, and put into words."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.judge_profile import JudgeProfile
from harness.core.plurals import counted
from harness.core.rankings import GroupRanking
from harness.ranking.comparisons import CEILING_FROM, Comparisons
from harness.ranking.judge_stats.tally import JudgeCall, judge_calls
from harness.ranking.pooled_judge import GROUPS_LEARNT_FROM
from harness.ranking.profile import calls_of_judge, learn_profile, single_call_right, single_call_right_sd
from harness.report.summary.match_verdicts import VerdictLookup, verdict_keys
from harness.report.text import fixed

FEW_GROUPS = 8
"""Below this many queries the prior says about as much of the judge as the verdicts do."""
_LEVELS = ((0.1, "nothing"), (0.35, "a third"), (0.65, "half"), (0.9, "most"), (math.inf, "all"))
"""How much of the absolute level marks carry, in words, up to which share."""


def judge_profiles(reader: RunReader, ranking: RankingFile) -> list[JudgeProfile]:
    """Return what each judge's verdicts in a ranking teach of it; nothing of a listwise judge.

    A ranking that keeps it says so itself. Of very many groups some are read, evenly spread.
    """
    if ranking.profiles:
        return list(ranking.profiles)
    calls: defaultdict[str, list[Comparisons]] = defaultdict(list)
    some = min(len(ranking.groups), GROUPS_LEARNT_FROM)
    for at in range(some):
        group = ranking.groups[at * len(ranking.groups) // some]
        for judge, of_group in _calls_by_judge(group, reader.verdict).items():
            calls[judge].append(calls_of_judge(of_group))
    learnt = (
        learn_profile(groups, judge, ranking.head.rubric, ranking.head.rendering) for judge, groups in calls.items()
    )
    return [profile for profile in learnt if profile]


def _calls_by_judge(group: GroupRanking, verdicts: VerdictLookup) -> dict[str, list[JudgeCall]]:
    judged = (verdict for key in verdict_keys(group.matches) if (verdict := verdicts(key)))
    return judge_calls(group, judged, {})


def is_at_ceiling(profile: JudgeProfile) -> bool:
    """Tell whether so many scores stand at the ends of the scale that differences are cut off."""
    return profile.at_ends >= CEILING_FROM


def profile_words(profile: JudgeProfile) -> list[str]:
    """Return what a profile says, in sentences; what follows a plus-minus sign is one standard deviation."""
    return [*_sentences(profile), *_cautions(profile)]


def _sentences(profile: JudgeProfile) -> Iterable[str]:
    at = profile.parameters
    yield f"a single call is right {100 * single_call_right(at):.0f} % of the time on two random rollouts"
    carried = next(word for bound, word in _LEVELS if at.level_share < bound)
    share = f"{fixed(at.level_share)} ± {fixed(profile.sd('level_share'))}"
    yield f"its marks carry {carried} of the absolute level ({share})"
    worth = f"{fixed(at.first_side, 1)} ± {fixed(profile.sd('first_side'), 1)}"
    yield f"standing first is worth {worth} points, and varies by {_sd(at.log_side_var)} from query to query"
    noise = math.exp(at.log_preference_noise) + math.exp(at.log_position_noise)
    yield (
        f"rollouts of a query differ by {_sd(at.log_quality_var)} points (standard deviation), the noise of one "
        f"call's margin is {fixed(math.sqrt(noise), 1)}"
    )


def _cautions(profile: JudgeProfile) -> Iterable[str]:
    if is_at_ceiling(profile):
        yield (
            f"ceiling: {100 * profile.at_ends:.0f} % of its scores stand at an end of the scale, so the intervals of "
            "`pooled` and `margins` are too narrow"
        )
    if not profile.converged:
        yield "the fit did not come to rest: do not believe these figures"
    queries = counted(profile.groups, "query", "queries")
    few = "; so few say little more than what is believed of any judge" if profile.groups < FEW_GROUPS else ""
    yield f"learnt from {queries} and {counted(profile.calls, 'call')}{few}"


def _sd(log_variance: float) -> str:
    return fixed(math.exp(log_variance / 2), 1)


def profile_json(profile: JudgeProfile) -> dict[str, Any]:
    """Return a profile as JSON: its figures, its words, and the whole record as it may be lent."""
    at = profile.parameters
    return {
        "single_call_right": {"share": single_call_right(at), "sd": single_call_right_sd(profile)},
        "level_share": {"value": at.level_share, "sd": profile.sd("level_share")},
        "first_side": {"points": at.first_side, "sd": profile.sd("first_side")},
        "at_ends": profile.at_ends,
        "ceiling": is_at_ceiling(profile),
        "words": profile_words(profile),
        "record": profile.model_dump(mode="json"),
    }
