"""Judging methods by the name that --judge takes. A further one is a file beside this one, and a line in METHODS."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from anyio.abc import TaskGroup

from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.judging.judge_model import JudgeModel
from harness.judging.verdict_cache import VerdictCache
from harness.tournament.cached import CachedRanker
from harness.tournament.group import Rules
from harness.tournament.listwise import ListwiseMethod
from harness.tournament.pairwise import EarlyVerdicts, PairwiseMethod


class Ranker(Protocol):
    """Ranks groups by what its judges say of them."""

    @property
    def topology(self) -> str:
        """What its rankings name as their topology."""
        ...

    @property
    def estimator(self) -> str:
        """What its rankings name as their estimator."""
        ...

    @property
    def provisional(self) -> bool:
        """Whether its rankings count only once `finalize` has made them anew."""
        ...

    @property
    def adaptive(self) -> bool:
        """Whether verdicts decide which calls follow, so that a group's calls can only be bounded beforehand."""
        ...

    @property
    def way(self) -> str | None:
        """The name of the way of judging (`tournament/way.py`); None where extracts of groups do not hold it."""
        ...

    @property
    def cached_ranker(self) -> CachedRanker | None:
        """What ranks groups by their caches; None where that does not suffice."""
        ...

    def call_bounds(self, n: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls for a group of n rollouts that ended well, repair turns aside."""
        ...

    def early(self, tasks: TaskGroup) -> EarlyVerdicts | None:
        """Give what asks in `tasks` for verdicts of a group that is still being rolled out; None: it asks for none."""
        ...

    async def __call__(self, group: Group, early: EarlyVerdicts | None = None) -> GroupRanking:
        """Judge and rank a group, of which verdicts may have been asked for early.

        Verdicts that cannot be had leave the ranking incomplete; raises Refused.
        """
        ...

    def finalize(self, queries: Sequence[str], provisional: Callable[[str], GroupRanking]) -> Iterator[GroupRanking]:
        """Yield the rankings of the queries that count, once all groups are in; `provisional` has those of before."""
        ...


class AnyRubric(Protocol):
    """What judges go by."""

    @property
    def name(self) -> str:
        """The rubric's name."""
        ...

    @property
    def label(self) -> str:
        """Name and fingerprint, as archives hold them."""
        ...

    @property
    def source(self) -> str:
        """The whole text, as archives hold it."""
        ...


RubricT = TypeVar("RubricT", bound=AnyRubric)


class JudgingMethod(Protocol[RubricT]):
    """A way of judging: its rubric, what it costs, and how a ranker is made of models that judge."""

    @property
    def summary(self) -> str:
        """What it does, as the end of a sentence."""
        ...

    @property
    def without_effect(self) -> Sequence[str]:
        """Settings that change nothing here."""
        ...

    @property
    def ranks_from_matches(self) -> bool:
        """Whether a tournament played again on the verdicts that its matches name gives the same ranks."""
        ...

    def load_rubric(self, name: str) -> RubricT:
        """Return the rubric of that name or file. Raises UsageError."""
        ...

    def is_packaged(self, name: str) -> bool:
        """Whether a rubric of that name comes with the package."""
        ...

    def parse_rubric(self, text: str, label: str, where: str) -> RubricT:
        """Return a rubric from its own text, of the label that it had. Raises UsageError naming `where`."""
        ...

    def describe(self, rules: Rules, n: int) -> str | None:
        """Return in words how calls are spent on n rollouts; None where there is no choice."""
        ...

    def call_bounds(self, rules: Rules, n: int) -> tuple[int, int]:
        """Return the fewest and the most calls of one juror for n rollouts, repair turns aside."""
        ...

    def ranker(self, models: Sequence[JudgeModel], rubric: RubricT, cache: VerdictCache, rules: Rules) -> Ranker:
        """Seat a judge for each model."""
        ...


METHODS: Mapping[str, JudgingMethod[Any]] = {"pairwise": PairwiseMethod(), "ruler": ListwiseMethod()}
"""By the value of the setting `judge`. Any: each takes the rubric that it has loaded."""
