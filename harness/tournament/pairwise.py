"""Ranking by tournament: who meets whom, how the jury is asked, and what the matches say of the group."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from anyio.abc import TaskGroup

from harness.core.rankings import Agreement, GroupRanking, Match, Ranked
from harness.core.records import Group, Rollout
from harness.core.turns import my_turn
from harness.core.verdicts import PairJudgment, Unjudged
from harness.judging import (
    CachedPairJudge,
    JudgeModel,
    PairJury,
    PairLedger,
    PairwiseJudge,
    Rubric,
    VerdictCache,
    all_at_once,
    load_rubric,
    packaged_rubrics,
    parse_rubric,
)
from harness.ranking import (
    MARGINS,
    NEED_ANCHOR,
    UNITS,
    Conclusion,
    Cyclic,
    EarlyStop,
    Entry,
    Fit,
    Rule,
    Topology,
    agreement,
    calls_bounds,
    ceiling_note,
    comparisons_of,
    conclude,
    describe_design,
    fit_alone,
    make_topology,
    match_margins,
    prior_of,
    share_at_ends,
    stack_classes,
)
from harness.tournament.early import EarlyVerdicts
from harness.tournament.group import (
    Entrants,
    Rules,
    classes_to_judge,
    cuts,
    entrants_of,
    failed_last,
    has_anchor,
    jurors_missing,
)
from harness.tournament.group_jury import GroupJury
from harness.tournament.judge_noise import judge_noise
from harness.tournament.play import PlayedTournament, play
from harness.tournament.pooling import settled
from harness.tournament.way import way_of


class PairwiseMethod:
    """`--judge pairwise`: a tournament of matches, each judged by a rubric with dimensions."""

    summary = "compares two rollouts at a time"
    without_effect: tuple[str, ...] = ()
    ranks_from_matches = True

    def load_rubric(self, name: str) -> Rubric:
        """Return the rubric of that name or file. Raises UsageError."""
        return load_rubric(name)

    def is_packaged(self, name: str) -> bool:
        """Whether a rubric of that name comes with the package."""
        return name in packaged_rubrics()

    def parse_rubric(self, text: str, label: str, where: str) -> Rubric:
        """Return a rubric from its own text, which holds its name. Raises UsageError naming `where`."""
        del label
        return parse_rubric(text, where)

    def describe(self, rules: Rules, n: int) -> str | None:
        """Return in words how a budget of judge calls is spent on n rollouts; None where there is no choice."""
        if rules.topology != "cyclic" or n == 1:
            return None
        plan = f"cyclic: {describe_design(n, rules.order, rules.budget)}; ranked by {rules.estimator}"
        return plan if rules.budget is None else f"--budget {rules.budget} picks {plan}"

    def call_bounds(self, rules: Rules, n: int) -> tuple[int, int]:
        """Return the fewest and the most calls of one juror for n rollouts."""
        low, high = calls_bounds(rules.topology, n, rules.order, rules.budget)
        if rules.judge_when == "tied":
            low = 0
        elif rules.sure:
            low = min(low, n - 1)
        return low * rules.repeats, high * rules.repeats

    def ranker(
        self, models: Sequence[JudgeModel], rubric: Rubric, cache: VerdictCache, rules: Rules
    ) -> "TournamentRanker":
        """Seat a judge for each model."""
        judges = [PairwiseJudge(model, rubric) for model in models]
        jury = PairJury([CachedPairJudge(judge, cache) for judge in judges], rules.averaging)
        return TournamentRanker(jury, rules, way_of(judges, rules))


@dataclass(frozen=True)
class TournamentRanker:
    """Ranks groups by tournaments that a jury judges."""

    jury: PairJury
    rules: Rules
    way: str | None = None
    """What it is called; None where nobody looks for what another ranking kept."""
    adaptive = True

    @property
    def topology(self) -> str:
        """The tournament's design."""
        return self.rules.topology

    @property
    def estimator(self) -> str:
        """What turns matches into scores."""
        return self.rules.estimator

    @property
    def provisional(self) -> bool:
        """Whether its rankings count only once `settled` has told them anew."""
        return self.rules.provisional

    def settled(self, queries: Sequence[str], provisional: Callable[[str], GroupRanking]) -> Iterator[GroupRanking]:
        """Yield the rankings of the queries, told anew with the judge learnt from all of them."""
        return settled(queries, provisional, self.rules)

    def call_bounds(self, n: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls for a group of n, those of all jurors."""
        low, high = PairwiseMethod().call_bounds(self.rules, n)
        return low * len(self.jury), high * len(self.jury)

    def early(self, tasks: TaskGroup) -> EarlyVerdicts:
        """Give what asks for the sure verdicts of a group that is still being rolled out."""
        return EarlyVerdicts(self.jury, self.rules, tasks)

    async def __call__(self, group: Group, early: EarlyVerdicts | None = None) -> GroupRanking:
        """Return the group's ranking; see rank_group."""
        return await rank_group(group, self.jury, self.rules, self.rules.rng(group.query), early)


async def rank_group(
    group: Group, jury: PairJury, rules: Rules, rng: Random, early: EarlyVerdicts | None = None
) -> GroupRanking:
    """Rank a group's rollouts by tournament; verdicts asked for early are the ranking's own.

    Where the topology needs an anchor and there is none, the others play a single elimination seeded by `rng`. A
    verdict that cannot be had leaves the group incomplete and its ranks None; so does the topology `none`. `signal`
    is "none" where no two scores of any match differ and no rollout is ranked last for failing: all then share one
    rank and have advantage 0.
    """
    ledger = early.ledger if early else PairLedger()
    entrants = entrants_of(group, rules, early.texts if early else None)
    classes = classes_to_judge(entrants.ok, rules)
    topologies = _topologies(classes, entrants, rules, rng)
    group_jury = GroupJury(jury, entrants.texts, entrants.task, ledger, rules.repeats)
    played = await all_at_once(partial(play, topology, group_jury) for topology in topologies)
    tournament = _Tournament(entrants, classes, topologies, played, failed_last(group, rules))
    await my_turn()  # groups that end together are not ranked in one go
    return _ranking(group, tournament, ledger, rules)


@dataclass(frozen=True)
class _Tournament:
    """A group's tournament, over: one for each class of rollouts that may meet."""

    entrants: Entrants
    classes: Sequence[Sequence[int]]
    topologies: Sequence[Topology]
    played: Sequence[PlayedTournament]
    last: Sequence[int]
    """The failed rollouts that rank below all others."""


def _ranking(group: Group, tournament: _Tournament, ledger: PairLedger, rules: Rules) -> GroupRanking:
    topologies, played, texts = tournament.topologies, tournament.played, tournament.entrants.texts
    matches = tuple(match for p in played for match in p.matches)
    open_verdicts = sorted(key for p in played for key in p.open_verdicts)
    absent = tuple(key for p in played for key in p.absent_verdicts)
    conclusion = _conclude(tournament, rules)
    return GroupRanking(
        query=group.query.id,
        topology=topologies[0].name if topologies else rules.topology,
        estimator=rules.estimator,
        status="incomplete" if open_verdicts or _judged_later(tournament.classes, rules) else "complete",
        signal=conclusion.signal,
        matches=matches,
        rollouts=_places(group, conclusion),
        failed_verdicts=tuple(open_verdicts),
        judged=ledger.judged,
        reused=len(ledger.reused),
        spared=_spared(topologies),
        judge_usage=ledger.usage,
        judge_usd=ledger.price_usd,
        notes=(*_notes(group, tournament, conclusion, rules), *jurors_missing(absent, ledger.bought), *cuts(texts)),
        reward_from=rules.reward,
        absent_verdicts=absent,
        agreement=_agreement(matches, ledger),
        provisional=rules.provisional,
        **judge_noise(conclusion)._asdict(),
    )


def _topologies(classes: Sequence[Sequence[int]], entrants: Entrants, rules: Rules, rng: Random) -> list[Topology]:
    """Return a tournament for each class that has members; none where a failed anchor stops the ranking."""
    if entrants.stopped:
        return []
    return [_topology(members, entrants.anchor, rules, rng) for members in classes if members]


def _topology(members: Sequence[int], anchor: Rollout | None, rules: Rules, rng: Random) -> Topology:
    index = anchor.index if anchor and anchor.index in members else None
    topology = make_topology(rules.topology, Entry(members, index, rules.order, rng, rules.budget))
    if rules.sure and isinstance(topology, Cyclic):
        by_pooled = partial(fit_alone, prior=prior_of(rules.profile, rules.fit_version))
        fit = by_pooled if rules.estimator == "pooled" else MARGINS[rules.fit_version]
        return EarlyStop(topology, members, rules.sure, fit, UNITS)
    return topology


def _conclude(tournament: _Tournament, rules: Rules) -> Conclusion:
    topologies, last = tournament.topologies, tournament.last
    alone = len(topologies) == 1
    if not topologies or (rules.topology == "none" and alone):
        return Conclusion(ranked={}, signal="none", fit=None)
    rule = Rule(rules.estimator_now, rules.reward, rules.profile)
    conclusions = [
        conclude(
            played.standings,
            played.matches,
            rule=rule,
            failed_last=last if alone else (),
            finished=not played.open_verdicts,
            fit=_fit_at_hand(topology, played) if rule.estimator == "pooled" else None,
        )
        for topology, played in zip(topologies, tournament.played, strict=True)
    ]
    return conclusions[0] if alone else stack_classes(conclusions, last)


def _fit_at_hand(topology: Topology, played: PlayedTournament) -> Fit | None:
    """Return the fit that ended the judging, where it is of the very calls behind the matches."""
    fit = topology.last_fit if isinstance(topology, EarlyStop) else None
    calls = sum(len(match.scores) for match in played.matches)
    return fit if fit and fit.calls == calls == len(played.matches) else None


def _judged_later(classes: Sequence[Sequence[int]], rules: Rules) -> bool:
    """Tell whether the topology `none` leaves something to judge."""
    return rules.topology == "none" and (len(classes) == 1 or any(len(c) > 1 for c in classes))


def _places(group: Group, conclusion: Conclusion) -> tuple[Ranked, ...]:
    places = [conclusion.ranked.get(r.index, Ranked(index=r.index)) for r in group.rollouts]
    return tuple(
        place.model_copy(update={"verified": rollout.verified})
        for place, rollout in zip(places, group.rollouts, strict=True)
    )


def _spared(topologies: Sequence[Topology]) -> int:
    return sum(topology.spared for topology in topologies if isinstance(topology, EarlyStop))


def _agreement(matches: Sequence[Match], ledger: PairLedger) -> tuple[Agreement, ...]:
    def judged(key: str) -> PairJudgment | None:
        verdict = ledger.bought.get(key) or ledger.reused.get(key)
        return None if isinstance(verdict, Unjudged) else verdict

    return agreement(match_margins(matches, judged))


def _notes(group: Group, tournament: _Tournament, conclusion: Conclusion, rules: Rules) -> tuple[str, ...]:
    ceiling = _ceiling(tournament) if rules.estimator_now == "pooled" else None
    return (*_notes_on_design(group, tournament, rules), *filter(None, [conclusion.note, ceiling]))


def _ceiling(tournament: _Tournament) -> str | None:
    """Return a note where the judge's scores of this group stick to the ends of the scale."""
    entrants = [rollout.index for rollout in tournament.entrants.ok]
    matches = [match for played in tournament.played for match in played.matches]
    return ceiling_note(share_at_ends([comparisons_of(entrants, matches)])) if matches else None


def _notes_on_design(group: Group, tournament: _Tournament, rules: Rules) -> tuple[str, ...]:
    ok, classes = tournament.entrants.ok, tournament.classes
    if not ok:
        return ("no rollout ended well: nothing to rank",)
    if len(classes) > 1:
        return (_by_class(classes, rules),)
    if rules.topology == "none":
        return ("not judged, as --topology none asks; `harness rescore --topology arena` judges and ranks",)
    if len(ok) == 1 and not tournament.last:
        return ("a single rollout carries no signal: there is nothing to compare it with",)
    return () if tournament.entrants.anchor else (_without_anchor(group, rules),)


def _by_class(classes: Sequence[Sequence[int]], rules: Rules) -> str:
    within = sum(len(c) > 1 for c in classes) if rules.topology != "none" else 0
    judged = f"judged within {within} of them" if within else "nothing was judged"
    return f"ranked by verifiable reward first: {len(classes)} classes; {judged}"


def _without_anchor(group: Group, rules: Rules) -> str:
    how = "by single elimination with drawn seeds" if rules.topology in NEED_ANCHOR else "without it"
    if not has_anchor(group):
        return f"there is no anchor: ranked {how}"
    if rules.anchor_failed == "stop":
        return "the anchor failed: left unranked, as --anchor-failed stop asks"
    return f"the anchor failed: the others were ranked {how}"
