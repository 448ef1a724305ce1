"""Ways of judging, by the name that --judge takes. A further way is a file beside this one, and a line in METHODS."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from anyio.abc import TaskGroup

from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group
from harness.judging.judge_model import JudgeModel
from harness.judging.juror import ListLedger
from harness.judging.jury import ListJury
from harness.judging.list_prompt import (
    ListRubric,
    ListTask,
    is_packaged_list_rubric,
    load_list_rubric,
    parse_list_rubric,
)
from harness.judging.ruler import RulerJudge
from harness.judging.verdict_cache import CachedListJudge, VerdictCache
from harness.ranking.rewards import place
from harness.tournament.cached import CachedRanker
from harness.tournament.group import Entrants, Rules, cuts, failed_last, jurors_missing, prepare_entrants
from harness.tournament.list_scores import LIST_BUDGET, JuryScores, clipped, scale_notes, score_list
from harness.tournament.pairwise import EarlyVerdicts, PairwiseMethod

TOPOLOGY, ESTIMATOR = "listwise", "ruler"


class ListwiseMethod:
    """`--judge ruler`: one call scores a whole group, by a rubric in plain words."""

    summary = "scores a whole group at once"
    without_effect = ("topology", "order", "estimator", "reward", "budget", "sure", "judge_repeats")
    ranks_from_matches = False

    def load_rubric(self, name: str) -> ListRubric:
        """Return the packaged text, or that of a file. Raises UsageError."""
        return load_list_rubric(name)

    def is_packaged(self, name: str) -> bool:
        """Whether a text of that name comes with the package."""
        return is_packaged_list_rubric(name)

    def parse_rubric(self, text: str, label: str, where: str) -> ListRubric:
        """Return a text as a rubric of the name in `label`. Raises UsageError naming `where`."""
        return parse_list_rubric(text, label.rpartition(" ")[0], where)

    def describe(self, rules: Rules, n: int) -> str | None:
        """Return None: there is no design to choose."""
        del rules, n

    def call_bounds(self, rules: Rules, n: int) -> tuple[int, int]:
        """Return the fewest and the most calls of one juror: one list, or a list for each rollout beside the anchor."""
        del rules
        return 1, max(1, n - 1)

    def ranker(
        self, models: Sequence[JudgeModel], rubric: ListRubric, cache: VerdictCache, rules: Rules
    ) -> "ListwiseRanker":
        """Seat a judge for each model."""
        jurors = [CachedListJudge(RulerJudge(model, rubric), cache) for model in models]
        return ListwiseRanker(ListJury(jurors, rules.averaging), rules)


@dataclass(frozen=True)
class ListwiseRanker:
    """Ranks groups by the scores that a jury gives to lists."""

    jury: ListJury
    rules: Rules
    topology = TOPOLOGY
    estimator = ESTIMATOR
    way = None
    cached_ranker = None
    adaptive = False
    provisional = False

    def call_bounds(self, n: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls for a group of n, those of all jurors."""
        low, high = ListwiseMethod().call_bounds(self.rules, n)
        return low * len(self.jury), high * len(self.jury)

    def finalize(self, queries: Sequence[str], provisional: Callable[[str], GroupRanking]) -> Iterator[GroupRanking]:
        """Yield the rankings as they are: each counts as soon as its group is in."""
        return map(provisional, queries)

    def early(self, tasks: TaskGroup) -> None:
        """Give nothing: a list is judged when all of it is there."""

    async def __call__(self, group: Group, early: EarlyVerdicts | None = None) -> GroupRanking:
        """Return the group's ranking; see rank_list."""
        del early
        return await rank_list(group, self.jury, self.rules, self.rules.rng(group.query.id))


async def rank_list(group: Group, jury: ListJury, rules: Rules, rng: Random, budget: int = LIST_BUDGET) -> GroupRanking:
    """Score a group's rollouts in one list, or in several of at most `budget` characters, and rank them by score.

    The order shown is drawn by `rng`. Equal transcripts are shown once and share their score; one alone is scored on
    an absolute scale. Without a verdict the group is incomplete and nothing is ranked.
    """
    entrants, ledger = prepare_entrants(group, rules), ListLedger()
    if entrants.lineup.is_stopped(rules) or not entrants.lineup.ok:
        return _unscored(group, entrants)
    texts = entrants.texts
    shared = texts[(entrants.lineup.anchor or entrants.lineup.ok[0]).index]
    scores = await score_list(ListTask(entrants.task), list(texts.values()), shared, jury, ledger, rng, budget)
    last = failed_last(group.rollouts, rules) if scores.scores else []
    tied = len(set(scores.scores.values())) < 2
    return GroupRanking(
        query=group.query.id,
        topology=TOPOLOGY,
        estimator=ESTIMATOR,
        status="incomplete" if scores.failed else "complete",
        signal="none" if tied and not last else "ok",
        rollouts=_ranked(group, entrants, scores, last),
        failed_verdicts=scores.failed,
        judged=ledger.judged,
        reused=len(ledger.reused),
        judge_usage=ledger.usage,
        judge_usd=ledger.price_usd,
        notes=(*jurors_missing(scores.absent, ledger.bought), *_notes(entrants, scores), *cuts(entrants.lineup.cut)),
        verdicts=scores.used,
        absent_verdicts=scores.absent,
        agreement=scores.agreement,
    )


def _unscored(group: Group, entrants: Entrants) -> GroupRanking:
    stopped = "the anchor failed: left unranked, as --anchor-failed stop asks"
    return GroupRanking(
        query=group.query.id,
        topology=TOPOLOGY,
        estimator=ESTIMATOR,
        status="complete",
        signal="none",
        rollouts=tuple(Ranked(index=r.index, verified=r.verified) for r in group.rollouts),
        notes=(stopped if entrants.lineup.ok else "no rollout ended well: nothing to rank",),
    )


def _ranked(group: Group, entrants: Entrants, scores: JuryScores, last: Sequence[int]) -> tuple[Ranked, ...]:
    """Return every rollout's place; without scores nobody has one."""
    hashes = {index: text.hash for index, text in entrants.texts.items()}
    by_index = {index: scores.scores[hash_] for index, hash_ in hashes.items() if hash_ in scores.scores}
    places = place(by_index, last)
    ranked = {
        index: Ranked(
            index=index,
            score=clipped(by_index[index]) if index in by_index else None,
            rank=placed.rank,
            reward=placed.reward,
            advantage=placed.advantage,
        )
        for index, placed in places.items()
    }
    return tuple(
        ranked.get(r.index, Ranked(index=r.index)).model_copy(
            update={"verified": r.verified, "explanation": scores.explanations.get(hashes.get(r.index, ""))}
        )
        for r in group.rollouts
    )


def _notes(entrants: Entrants, scores: JuryScores) -> tuple[str, ...]:
    texts = entrants.texts
    if len(texts) == 1:
        alone = ("a single rollout carries no signal: it was scored once, on an absolute scale",)
    elif len({text.hash for text in texts.values()}) == 1:
        alone = (f"all {len(texts)} trajectories are the same: scored once, on an absolute scale",)
    else:
        alone = ()
    return (*alone, *scale_notes(scores))


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
        """Whether its rankings count only once `finalize` has told them anew."""
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
