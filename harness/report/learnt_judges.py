"""What the verdicts of a ranking teach of its judges: profiles, and how much each juror of a jury says."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.errors import call, command, counted, option
from harness.core.judge_profile import JudgeLeanings, JudgeProfile
from harness.core.records import percent_half_up
from harness.ranking.comparisons import CEILING_FROM, Comparisons
from harness.ranking.conclusions import collect_calls
from harness.ranking.pooled import learnt_from
from harness.ranking.pooled_judge import GROUPS_LEARNT_FROM
from harness.ranking.profile import as_profile, calls_of_judge, learn_profile, single_call_right, single_call_right_sd
from harness.report.summary.group import calls_by_judge
from harness.report.summary.pooled_fit import is_by_pooled, learnt_judge
from harness.report.text import fixed, signed


@dataclass(frozen=True)
class VoicesOfJurors:
    """What `pooled` makes of a jury."""

    shares: Mapping[str, float]
    """By juror: its share of what the jury's marks say together. They sum to 1; one who echoes another has 0."""
    shared: float
    """Share of the variance of the qualities as the jury sees them that all jurors see; the rest is their own taste."""


def voices_of_jurors(reader: RunReader, ranking: RankingFile) -> VoicesOfJurors | None:
    """Return how much each juror of a ranking says; None of a single judge, or where the fit separates no jurors."""
    pooled = [group for group in ranking.groups if is_by_pooled(group)]
    matches = [match for group in pooled for match in group.matches if match.jurors]
    seats = {seat: key for match in matches for key, seat in zip(match.verdicts, match.jurors, strict=True)}
    jury = learnt_judge(ranking).jury if seats else None
    if not jury:
        return None
    parts = {seat: jury.voices[seat].part if seat in jury.voices else 0.0 for seat in sorted(seats)}
    verdicts = {seat: reader.verdict(seats[seat]) for seat in parts}
    shares = {verdict.judge: parts[seat] / sum(parts.values()) for seat, verdict in verdicts.items() if verdict}
    return VoicesOfJurors(shares, jury.shared)


def voice_words(voices: VoicesOfJurors, juror: str) -> list[str]:
    """Return in a sentence how much a juror says; nothing of one who gave no verdict."""
    if juror not in voices.shares:
        return []
    if not voices.shares[juror]:
        return ["all of its scores are those of another juror, so `pooled` does not hear it again"]
    return [f"`pooled` takes {percent_half_up(voices.shares[juror])} % of what the jury says from it"]


def jury_words(voices: VoicesOfJurors) -> str:
    """Return in a sentence how far the jurors see the same."""
    if len([share for share in voices.shares.values() if share]) == 1:
        return "the jury: its jurors say the same, so it is as sure as one judge"
    share = percent_half_up(voices.shared)
    seen = f"{share} % of what it sees in the rollouts of a query all jurors see"
    return f"the jury: {seen}; the rest is a juror's own taste"


_FEW_GROUPS = 8
"""Below this many queries the prior says about as much of the judge as the verdicts do."""
_LEVELS = ((0.1, "nothing"), (0.35, "a third"), (0.65, "half"), (0.9, "most"), (math.inf, "all"))
"""How much of the absolute level marks carry, in words, up to which share."""


def judge_profiles(reader: RunReader, ranking: RankingFile) -> list[JudgeProfile]:
    """Return what each judge's verdicts teach of it, in some of very many groups; nothing of a listwise judge.

    Its leanings are those that the run's probes show, else those that the ranking was lent.
    """
    head, calls = ranking.head, defaultdict[str, list[Comparisons]](list)
    some = 0 if ranking.profiles else min(len(ranking.groups), GROUPS_LEARNT_FROM)
    for at in range(some):
        group = ranking.groups[at * len(ranking.groups) // some]
        for judge, of_group in calls_by_judge(group, reader.verdict).items():
            calls[judge].append(calls_of_judge(of_group))
    learnt = [learn_profile(groups, judge, head.rubric, head.rendering) for judge, groups in calls.items()]
    profiles = list(ranking.profiles) or [profile for profile in learnt if profile]
    for at, profile in enumerate(profiles):
        shown = reader.leanings(profile.judge, profile.rubric, profile.rendering) or profile.leanings
        if shown is None and head.judge.get("identity") == profile.judge:
            shown = head.leanings
        profiles[at] = profile.model_copy(update={"leanings": shown}) if shown else profile
    return profiles


def jury_profile(ranking: RankingFile) -> JudgeProfile | None:
    """Return what the verdicts of a jury teach of it as of one judge; None of a single judge."""
    some = min(len(ranking.groups), GROUPS_LEARNT_FROM)
    of_groups = (ranking.groups[at * len(ranking.groups) // some].matches for at in range(some))
    calls = [collect_calls(sorted({each for m in met for each in (m.a, m.b)}), met) for met in of_groups if met]
    learnt = learnt_from([each for each in calls if each.first.size])
    if learnt.jury is None:
        return None
    heard, head = [learnt.jury.as_one(each) for each in calls if each.first.size], ranking.head
    return as_profile(learnt, heard, str(head.judge.get("identity")), head.rubric, head.rendering)


def is_at_ceiling(profile: JudgeProfile) -> bool:
    """Tell whether so many scores stand at the ends of the scale that differences are cut off."""
    return profile.at_ends >= CEILING_FROM


def profile_words(profile: JudgeProfile) -> list[str]:
    """Return what a profile says, in sentences; what follows a plus-minus sign is one standard deviation."""
    at = profile.parameters
    carried = next(word for bound, word in _LEVELS if at.level_share < bound)
    share = f"{fixed(at.level_share)} ± {fixed(profile.sd('level_share'))}"
    worth = f"{fixed(at.first_side, 1)} ± {fixed(profile.sd('first_side'), 1)}"
    noise = fixed(math.sqrt(math.exp(at.log_preference_noise) + math.exp(at.log_position_noise)), 1)
    differ = f"rollouts of a query differ by {_sd(at.log_quality_var)} points (standard deviation)"
    lines = [
        f"a single call is right {100 * single_call_right(at):.0f} % of the time on two random rollouts",
        f"its marks carry {carried} of the absolute level ({share})",
        f"standing first is worth {worth} points, and varies by {_sd(at.log_side_var)} from query to query",
        f"{differ}, the noise of one call's margin is {noise}",
    ]
    if is_at_ceiling(profile):
        lines.append(
            f"ceiling: {100 * profile.at_ends:.0f} % of its scores stand at an end of the scale, so the intervals of "
            "`pooled` and `margins` are too narrow"
        )
    if not profile.converged:
        lines.append("the fit did not come to rest: do not believe these figures")
    lines += leaning_words(profile.leanings) if profile.leanings else ()
    queries = counted(profile.groups, "query", "queries")
    few = "; so few say little more than what is believed of any judge" if profile.groups < _FEW_GROUPS else ""
    return [*lines, f"learnt from {queries} and {counted(profile.calls, 'call')}{few}"]


def leanings_left(profile: JudgeProfile, ranking: RankingFile, correlation: float | None, run: str) -> list[str]:
    """Return what is to be said of leanings: where a ranking by `pooled` does not go by them, or is by a bracket.

    `correlation`: of an answer's length with its score, which is all that the run alone tells.
    """
    is_of_one = ranking.head.judge.get("identity") == profile.judge
    if not is_of_one or not any(map(is_by_pooled, ranking.groups)):
        return []
    if profile.leanings:
        left = f"this ranking still has these leanings in it; {call('rescore', run)} takes them out"
        spread = f"under such a judge as many calls, spread evenly, rank better: {option('topology', 'auto')}"
        is_bracket = ranking.head.settings.get("topology") == "arena" and profile.leanings.are_shown
        return [*([] if ranking.head.leanings else [left]), *([spread] if is_bracket else [])]
    seen = "" if correlation is None else f" (its scores and the length of answers correlate by {signed(correlation)})"
    how = f"`{command()} doctor --judge --probe {run}` tells by 40 calls"
    return [f"what it gives for length and formatting alone is not known{seen}; {how}"]


_BY_HALF = math.log(1.5)


def leaning_words(leanings: JudgeLeanings) -> list[str]:
    """Return what a judge gives for each feature of an answer, in sentences; after a plus-minus sign stands one sd."""
    (length, *rest), (length_sd, *rest_sds) = leanings.points, leanings.sds
    worth = [(length * _BY_HALF, length_sd * _BY_HALF), *zip(rest, rest_sds, strict=True)]
    points = [f"{signed(value, 1)} ± {fixed(sd, 1)} points" for value, sd in worth]
    return [
        f"a longer answer by half gets {points[0]}",
        f"an answer all in headings, lists and bold lines gets {points[1]} against one in plain lines",
        f"an answer that speaks of itself or apologizes in every sentence gets {points[2]} against one that never does",
        f"these leanings are learnt from {counted(leanings.calls, 'call')} on probes",
    ]


def _sd(log_variance: float) -> str:
    return fixed(math.exp(log_variance / 2), 1)


def leanings_json(leanings: JudgeLeanings) -> dict[str, Any]:
    """Return leanings as JSON: what each feature gets a unit, and its standard deviation."""
    names = ("length", "formatting", "of_itself")
    figures = zip(names, leanings.points, leanings.sds, strict=True)
    return {name: {"points": points, "sd": sd} for name, points, sd in figures} | {"calls": leanings.calls}


def profile_json(profile: JudgeProfile) -> dict[str, Any]:
    """Return a profile as JSON: its figures, its words, and the whole record as another ranking may take it."""
    at = profile.parameters
    return {
        "single_call_right": {"share": single_call_right(at), "sd": single_call_right_sd(profile)},
        "level_share": {"value": at.level_share, "sd": profile.sd("level_share")},
        "first_side": {"points": at.first_side, "sd": profile.sd("first_side")},
        "leanings": profile.leanings and leanings_json(profile.leanings),
        "at_ends": profile.at_ends,
        "ceiling": is_at_ceiling(profile),
        "words": profile_words(profile),
        "record": profile.model_dump(mode="json"),
    }
