"""What all judging methods share: the rules, who takes part, what the judge is shown of the task, and the notes."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

from harness.archive.typed_records import RankingHead
from harness.core.errors import option
from harness.core.judge_profile import JudgeLeanings, JudgeProfile, profile_in
from harness.core.rankings import FIT_VERSION, AnyVerdict
from harness.core.records import AGENT_FAILURES, Group, Role, Rollout
from harness.core.settings import EstimatorName, OrderPolicy, RewardFrom, Settings, TopologyName
from harness.judging.prompt import Task
from harness.judging.transcript_form import TranscriptForm, form_of_rendering
from harness.judging.verdict_cache import Averaging
from harness.ranking.comparisons import Prior
from harness.ranking.conclusions import Rule
from harness.ranking.estimators import rests_on_pooled
from harness.ranking.margins import EarlyStop, fit_margins
from harness.ranking.pooled import fit_alone
from harness.ranking.profile import lent_prior
from harness.ranking.rewards import split_by_reward
from harness.ranking.topologies import Entry, make_topology
from harness.ranking.topology import UNITS, Topology
from harness.transcripts.tokens import ESTIMATE, transcript_budget
from harness.transcripts.transcript import RENDERING, Transcript


@dataclass(frozen=True)
class Rules:
    """How a group is ranked: the judging orders, what becomes of failed rollouts, what the judge is shown."""

    topology: TopologyName = "arena"
    budget: int | None = None
    order: OrderPolicy | None = None
    estimator: EstimatorName = "tiers"
    reward: RewardFrom = "rank"
    failed: Literal["by-cause", "exclude", "last"] = "by-cause"
    anchor_failed: Literal["rank", "stop"] = "rank"
    show_instructions: bool = True
    judge_when: Literal["always", "tied"] = "always"
    confidence: float | None = None
    """Stop `cyclic` once its leader is the winner for certain (1), or with this probability."""
    form: TranscriptForm = field(default_factory=TranscriptForm)
    """How the judge's transcripts are made."""
    require_citations: bool = False
    """Whether each remark of a verdict must cite what stands there."""
    repeats: int = 1
    """Verdicts a pair and order, of which the mean counts."""
    averaging: Averaging = "mean"
    """How the scores of several jurors become one."""
    agents_when: Literal["always", "unsure"] = "always"
    """Whether the agents of a jury are asked only where its models are not sure."""
    profile: JudgeProfile | None = None
    """What `pooled` knows of the judge from elsewhere."""
    leanings: JudgeLeanings | None = None
    """What probes show of the judge; without them, what the profile has."""
    seed: int = 0
    """What chance is drawn from, together with a query's id."""
    fit_version: int = FIT_VERSION
    """The version of the fits: an earlier one where a ranking of it is followed."""
    one_of_many: bool = False
    """Whether there are other groups, or classes of this one, from which `pooled` learns the judge, too."""

    @property
    def by_pooled(self) -> bool:
        """Whether `pooled` ranks, or gives the probabilities beside what ranks."""
        return rests_on_pooled(self.estimator)

    @property
    def provisional(self) -> bool:
        """Whether a group's ranking is finalized once all groups are in: its places by `pooled`, else what it says."""
        return self.one_of_many and self.by_pooled

    @property
    def pooled_alone(self) -> bool:
        """Whether `pooled` fits a group by itself, once and for all."""
        return self.by_pooled and not self.one_of_many

    @cached_property
    def prior(self) -> Prior:
        """What `pooled` believes of the judge beforehand, as this version of the fits has it."""
        return lent_prior(self.profile, self.fit_version, self.leanings)

    @cached_property
    def rule(self) -> Rule:
        """How a group is ranked by itself."""
        return Rule(self.estimator, self.reward, self.prior, self.provisional)

    def rng(self, query: str) -> random.Random:
        """Return the chance of one query's ranking, named by its id: the same for the same seed and query."""
        return random.Random(f"{self.seed}/{query}")


def rules_of(settings: Settings, counter: str = ESTIMATE, rendering: int = RENDERING) -> Rules:
    """Return what a ranking takes from the settings.

    `counter` names how the judge budget is counted, `rendering` how transcripts are written. Raises UsageError for a
    judge's profile that is not the text of one.
    """
    return Rules(
        topology=settings.tournament,
        budget=settings.budget,
        order=settings.order,
        estimator=settings.estimator,
        reward=settings.reward,
        failed=settings.failed,
        anchor_failed=settings.anchor_failed,
        show_instructions=settings.show_instructions,
        judge_when=settings.judge_when,
        confidence=settings.confidence,
        form=form_of_rendering(
            rendering, transcript_budget(settings.judge_budget, counter), records=settings.judge_agent is not None
        ),
        require_citations=settings.require_citations,
        repeats=settings.judge_repeats,
        averaging=settings.jury,
        agents_when="always" if settings.judge_agent is None else settings.judge_agent_when,
        profile=profile_in(settings.judge_profile, option("judge_profile")) if settings.judge_profile else None,
        seed=settings.seed,
    )


def recorded_rules(head: RankingHead, settings: Settings, counter: str = ESTIMATE) -> Rules:
    """Return what a ranking took from its recorded settings; its judge was learnt from all groups, where it was."""
    rules = rules_of(settings, counter, head.rendering)
    return replace(rules, one_of_many=True, fit_version=head.fit_version, leanings=head.leanings)


@dataclass(frozen=True, slots=True)
class Contender:
    """What a ranking must know of a rollout of its group."""

    index: int
    role: Role
    status: str
    verified: float | None
    failure: str | None
    """What it failed of."""


@dataclass(frozen=True)
class Lineup:
    """The rollouts of a group as far as a tournament of theirs goes by them."""

    query: str
    rollouts: Sequence[Contender]
    cut: Sequence[int] = ()
    """Those whose answers were cut to fit --judge-budget."""

    @cached_property
    def ok(self) -> list[Contender]:
        """Those that ended well."""
        return [r for r in self.rollouts if r.status == "ok"]

    @property
    def anchor(self) -> Contender | None:
        """The anchor, if it ended well."""
        return next((r for r in self.ok if r.role == "anchor"), None)

    def is_stopped(self, rules: Rules) -> bool:
        """Tell whether nothing is ranked because the anchor failed (--anchor-failed stop)."""
        return rules.anchor_failed == "stop" and self.anchor is None and has_anchor(self.rollouts)


@dataclass(frozen=True)
class Entrants:
    """The rollouts of a group, with what the judge reads of those that ended well, and what it is shown of the task."""

    lineup: Lineup
    texts: Mapping[int, Transcript]
    task: Task


def prepare_entrants(group: Group, rules: Rules, texts: Mapping[int, Transcript] | None = None) -> Entrants:
    """Return who can be ranked; `texts` are transcripts that are made already."""
    made = texts or {}
    able, reference = [r for r in group.rollouts if r.status == "ok"], group.query.reference
    shown = {r.index: made.get(r.index) or rules.form(r.trajectory, reference) for r in able}
    cut = [index for index, text in shown.items() if text.answer_cut]
    rollouts = [Contender(r.index, r.role, r.status, r.verified, r.failure and r.failure.kind) for r in group.rollouts]
    return Entrants(Lineup(group.query.id, rollouts, cut), shown, brief_task(group, rules))


def classes_to_judge(ok: Sequence[Contender], rules: Rules) -> list[list[int]]:
    """Return who meets whom: all of those that ended well, or those of equal verifiable reward, best class first."""
    if rules.judge_when == "tied":
        return split_by_reward({r.index: r.verified for r in ok})
    return [[r.index for r in ok]]


def open_tournaments(
    lineup: Lineup, classes: Sequence[Sequence[int]], rules: Rules, rng: random.Random
) -> list[Topology]:
    """Return a tournament for each class that has members; none where a failed anchor stops the ranking."""
    if lineup.is_stopped(rules):
        return []
    topologies: list[Topology] = []
    for members in filter(None, classes):
        anchor = lineup.anchor.index if lineup.anchor and lineup.anchor.index in members else None
        if rules.confidence and rules.topology == "cyclic":
            fit = partial(fit_alone, prior=rules.prior) if rules.by_pooled else fit_margins
            topology = EarlyStop(members, rules.order, rules.budget, sure=rules.confidence, fit=fit, units=UNITS)
        else:
            topology = make_topology(rules.topology, Entry(members, anchor, rules.order, rng, rules.budget))
        topologies.append(topology)
    return topologies


def has_anchor(rollouts: Sequence[Contender]) -> bool:
    """Tell whether a rollout of a group is its anchor, failed or not."""
    return any(r.role == "anchor" for r in rollouts)


def brief_task(group: Group, rules: Rules) -> Task:
    """Return what the judge is shown of the task: the brief is the agent's instructions and its tools' names."""
    briefed, brief = briefed_rollout(group), None
    if rules.show_instructions and briefed:
        tools = f"Tools: {', '.join(briefed.tool_names) or 'none'}"
        brief = "\n\n".join(filter(None, [(briefed.instructions or "").strip(), tools]))
    return Task(group.query.id, group.query.text, brief, group.query.reference)


def briefed_rollout(group: Group) -> Rollout | None:
    """Return the rollout whose instructions and tools the judge is shown: the agent's own, not a variant of them."""
    own = [r for r in group.rollouts if r.recipe is None or r.recipe.instructions is None]
    rollouts = own if any(r.calls for r in own) else group.rollouts
    return next((r for r in rollouts if r.instructions or r.tool_names), None)


def failed_last(rollouts: Sequence[Contender], rules: Rules) -> list[int]:
    """Return the failed rollouts of a group that rank below all others."""
    if rules.failed == "exclude":
        return []
    return [r.index for r in rollouts if r.failure and (rules.failed == "last" or r.failure in AGENT_FAILURES)]


def jurors_missing(absent: Sequence[str], bought: Mapping[str, AnyVerdict]) -> tuple[str, ...]:
    """Return a note for each juror some of whose verdicts failed, where the others' stand; and on those not bought."""
    failed = Counter(bought[key].judge for key in absent if key in bought)
    why = [(n, f"of juror {judge} failed") for judge, n in sorted(failed.items())]
    why.append((len(absent) - failed.total(), "of jurors not bought"))
    return tuple(f"{n} verdict{'s' * (n != 1)} {reason}: the other jurors' stand" for n, reason in why if n)


def cuts(rollouts: Sequence[int]) -> tuple[str, ...]:
    """Return a note on the answers that were cut to fit, if any."""
    if not rollouts:
        return ()
    cut = ", ".join(map(str, rollouts))
    return (f"longer than --judge-budget allows, so the judge saw these answers without their middle: {cut}",)
