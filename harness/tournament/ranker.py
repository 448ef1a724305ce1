"""Judging methods by the name that --judge takes. A further one is a file beside this one, and a line in METHODS."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.judging import rubric
from harness.judging.judge_model import JudgeModel
from harness.judging.rubric import ListRubric, Rubric
from harness.judging.verdict_cache import VerdictCache
from harness.tournament.group import Rules
from harness.tournament.listwise import ListwiseRanker, list_bounds, seat_list_jury
from harness.tournament.pairwise import TournamentRanker, describe_plan, pair_bounds, seat_pair_jury

Ranker = TournamentRanker | ListwiseRanker
"""Ranks groups by what its judges say of them."""
AnyRubric = Rubric | ListRubric
"""What judges go by."""


@dataclass(frozen=True)
class JudgingMethod:
    """A way of judging: its rubric, what it costs, and how a ranker is made of models that judge."""

    summary: str
    """What it does, as the end of a sentence."""
    without_effect: Sequence[str]
    """Settings that change nothing here."""
    ranks_from_matches: bool
    """Whether a tournament played again on the verdicts that its matches name gives the same ranks."""
    load_rubric: Callable[[str], AnyRubric]
    """Returns the rubric of that name or file. Raises UsageError."""
    is_packaged: Callable[[str], bool]
    """Whether a rubric of that name comes with the package."""
    parse_rubric: Callable[[str, str, str], AnyRubric]
    """Returns a rubric from its own text, of the label that it had. Raises UsageError naming the third, a place."""
    describe: Callable[[Rules, int], str | None]
    """Returns in words how calls are spent on n rollouts; None where there is no choice."""
    call_bounds: Callable[[Rules, int], tuple[int, int]]
    """Returns the fewest and the most calls of one juror for n rollouts, repair turns aside."""
    ranker: Callable[[Sequence[JudgeModel], Any, VerdictCache, Rules], Ranker]
    """Seats a judge for each model. Any: each takes the rubric that it has loaded."""


METHODS: Mapping[str, JudgingMethod] = {
    "pairwise": JudgingMethod(
        summary="compares two rollouts at a time",
        without_effect=(),
        ranks_from_matches=True,
        load_rubric=rubric.load_rubric,
        is_packaged=lambda name: name in rubric.packaged_rubrics(),
        parse_rubric=lambda text, _label, where: rubric.parse_rubric(text, where),
        describe=describe_plan,
        call_bounds=pair_bounds,
        ranker=seat_pair_jury,
    ),
    "ruler": JudgingMethod(
        summary="scores a whole group at once",
        without_effect=("topology", "order", "estimator", "budget", "confidence", "judge_repeats"),
        ranks_from_matches=False,
        load_rubric=rubric.load_list_rubric,
        is_packaged=rubric.is_packaged_list_rubric,
        parse_rubric=lambda text, label, where: rubric.parse_list_rubric(text, label.rpartition(" ")[0], where),
        describe=lambda _rules, _n: None,
        call_bounds=list_bounds,
        ranker=seat_list_jury,
    ),
}
"""By the value of the setting `judge`."""
