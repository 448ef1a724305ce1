"""Ranking by tournament: who meets whom within a group, or across two runs, and how the jury is asked.

Verdicts that a tournament needs for certain are asked for while its group is still being rolled out. They go through
the cache of verdicts and into the ledger of the ranking, which so counts them as its own.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from random import Random

from anyio.abc import TaskGroup

from harness.core.answer_features import leaning_features
from harness.core.comparisons import WINNERS, ComparedRollout, CrossMatch, ForfeitedBy
from harness.core.errors import JudgeFailed, Refused, first_error
from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group, Role, Rollout, digest
from harness.core.sync import start_child
from harness.core.turns import my_turn
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import PairwiseJudge
from harness.judging.prompt import Task
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import CachedPairJudge, NotAsked, PairJury, PairLedger, VerdictCache, all_at_once
from harness.ranking.fixed_pairs import GivenPairs
from harness.ranking.topologies import TOPOLOGIES, Entry, calls_bounds, describe_design, sure_calls
from harness.tournament.cascade import play_in_stages
from harness.tournament.group import (
    Entrants,
    Rules,
    brief_task,
    briefed_rollout,
    classes_to_judge,
    open_tournaments,
    prepare_entrants,
)
from harness.tournament.group_ranking import CachedRanker, TournamentResult, finalize, rank_tournament
from harness.tournament.play import JurySource
from harness.transcripts.transcript import Transcript

_Call = tuple[tuple[int, int], int]
"""Two rollouts in the order in which they are shown, and which of the repeats it is."""


@dataclass
class EarlyVerdicts:
    """What is asked for beforehand of one group: `tasks` holds the calls that are under way."""

    jury: PairJury
    rules: Rules
    tasks: TaskGroup
    ledger: PairLedger = field(default_factory=PairLedger)
    texts: dict[int, Transcript] = field(default_factory=dict[int, Transcript])
    _asked: set[_Call] = field(default_factory=set[_Call])
    _error: Refused | JudgeFailed | None = None

    def prefetch(self, group: Group, pending: Collection[int]) -> None:
        """Ask for what is sure now that these rollouts of the group have ended; the `pending` ones are under way."""
        if not pending or self._error:
            return
        briefed = briefed_rollout(group)
        if self.rules.show_instructions and not (briefed and briefed.index < min(pending)):
            return  # the judge is told of the instructions of the first rollout, which may not be known yet
        entrants = prepare_entrants(group, self.rules, self.texts)
        self.texts |= entrants.texts
        calls = set(product(_sure_orders(entrants, sorted(pending), self.rules), range(self.rules.repeats)))
        for call in sorted(calls - self._asked):
            self._asked.add(call)
            start_child(self.tasks, self._judge, call, entrants.task)

    def raise_error(self) -> None:
        """Raise what the judge turned a call down with."""
        if self._error:
            raise self._error

    async def _judge(self, call: _Call, task: Task) -> None:
        """Ask the jury; an error waits for the ranking, so that it does not end the rollouts that are under way."""
        (first, second), repeat = call
        try:
            await self.jury.verdicts(self.ledger, replace(task, repeat=repeat), self.texts[first], self.texts[second])
        except* (Refused, JudgeFailed) as errors:
            self._error = self._error or first_error(errors)


def _sure_orders(entrants: Entrants, pending: Sequence[int], rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield the orders that are sure to be judged, whatever becomes of the `pending` rollouts.

    With --judge-when tied those of another class may still come in: an unknown reward makes all classes one.
    """
    lineup = entrants.lineup
    if rules.confidence or (rules.anchor_failed == "stop" and not lineup.anchor):
        return
    everyone, anchor = {r.index for r in lineup.ok}, lineup.anchor.index if lineup.anchor else None
    for members in classes_to_judge(lineup.ok, rules):
        here = anchor if anchor in members else None
        entry = Entry(members, here, rules.order, Random(0), rules.budget)  # what is drawn is not sure
        yield from sure_calls(rules.topology, entry, sorted({*pending} | (everyone - {*members})))


def describe_plan(rules: Rules, n: int) -> str | None:
    """Return in words how a budget of judge calls is spent on n rollouts; None where there is no choice."""
    if rules.topology != "cyclic" or n == 1:
        return None
    return f"cyclic: {describe_design(n, rules.order, rules.budget)}; ranked by {rules.estimator}"


def pair_bounds(rules: Rules, n: int) -> tuple[int, int]:
    """Return the fewest and the most calls of one juror for n rollouts."""
    low, high = calls_bounds(rules.topology, n, rules.order, rules.budget)
    design, pairs = TOPOLOGIES[rules.topology], n * (n - 1) // 2
    some_twice = design.matches(n, rules.order, rules.budget)[1] > pairs
    if rules.agents_when == "unsure" and (design.by_verdicts or some_twice):
        high = 2 * pairs  # what agents say changes who meets, or meets again, and models are asked of those, too
    if rules.judge_when == "tied":
        low = 0
    elif rules.confidence:
        low = min(low, n - 1)
    return low * rules.repeats, high * rules.repeats


def seat_pair_jury(
    models: Sequence[JudgeModel], rubric: Rubric, cache: VerdictCache, rules: Rules
) -> "TournamentRanker":
    """Seat a judge for each model."""
    judges = [PairwiseJudge(model, rubric, require_citations=rules.require_citations) for model in models]
    cached = [CachedPairJudge(judge, cache) for judge in judges]
    at_first = [NotAsked(j) if m.reads_records else j for j, m in zip(cached, models, strict=True)]
    before = PairJury(at_first, rules.averaging) if rules.agents_when == "unsure" else None
    jury = PairJury(cached, rules.averaging, before)
    probe, tokens = Transcript("path", "answer"), rules.form.budget.tokens if rules.form.budget else None
    keys = [judge.key(Task("", ""), probe, probe) for judge in judges]
    way = [keys, tokens, rules.show_instructions] + [rules.agents_when] * (rules.agents_when != "always")
    return TournamentRanker(jury, rules, digest(way))


@dataclass(frozen=True)
class TournamentRanker:
    """Ranks groups by tournaments that a jury judges."""

    jury: PairJury
    rules: Rules
    way: str | None = None
    """What it is called; None where nobody looks for what another ranking kept.

    Under one name, and over the same records, equal pairs of rollouts have equal keys of verdicts. How tokens are
    counted is not in it, since a counter has no name here.
    """
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
        """Whether its rankings count only once `finalize` has made them anew."""
        return self.rules.provisional

    def finalize(self, queries: Sequence[str], provisional: Callable[[str], GroupRanking]) -> Iterator[GroupRanking]:
        """Yield the rankings of the queries, refit with the judge learnt from all of them."""
        return finalize(queries, provisional, self.rules)

    @property
    def cached_ranker(self) -> CachedRanker | None:
        """What ranks groups by their caches; None where that takes more.

        The agreement of several jurors takes the verdicts, and a judge's leanings take the answers.
        """
        return CachedRanker(self.rules) if len(self.jury) == 1 and not self.rules.prior.leanings else None

    def call_bounds(self, n: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls for a group of n, those of all jurors."""
        low, high = pair_bounds(self.rules, n)
        return low * len((self.jury.before or self.jury).asked), high * len(self.jury)

    def early(self, tasks: TaskGroup) -> EarlyVerdicts:
        """Give what asks for the sure verdicts of a group that is still being rolled out."""
        return EarlyVerdicts(self.jury.before or self.jury, self.rules, tasks)

    async def __call__(self, group: Group, early: EarlyVerdicts | None = None) -> GroupRanking:
        """Return the group's ranking; see rank_group."""
        return await rank_group(group, self.jury, self.rules, self.rules.rng(group.query.id), early)


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
    entrants = prepare_entrants(group, rules, early.texts if early else None)
    lineup, classes = entrants.lineup, classes_to_judge(entrants.lineup.ok, rules)
    topologies = open_tournaments(lineup, classes, rules, rng)
    source = JurySource(jury, entrants.texts, entrants.task, ledger, rules.repeats)
    played = await all_at_once(partial(play_in_stages, topology, source) for topology in topologies)
    await my_turn()  # groups that end together are not ranked in one go
    if rules.prior.leanings and len(jury) == 1:
        features = {index: leaning_features(text.answer).values for index, text in entrants.texts.items()}
        played = [tournament.with_features(features) for tournament in played]
    return rank_tournament(TournamentResult(lineup, classes, played, len(jury)), ledger, rules)


Place = tuple[int, int]
"""A rollout by its side's place in the comparison and its index."""


@dataclass(frozen=True)
class CrossPair:
    """Two rollouts that are to meet: the one of `sides[0]`, then the one of `sides[1]`."""

    sides: tuple[int, int]
    role: Role
    first: int
    second: int

    @property
    def places(self) -> tuple[Place, Place]:
        """Where the two are."""
        return (self.sides[0], self.first), (self.sides[1], self.second)


@dataclass(frozen=True)
class PlayedPairs:
    """What the pairs of one query came to, in their order."""

    matches: tuple[CrossMatch, ...]
    failed_verdicts: tuple[str, ...]
    """Keys of the verdicts that could not be had: a juror's, where the others' stand, or those of an open match."""


@dataclass(frozen=True)
class SharedTask:
    """The one task that the judge is shown for all sides."""

    task: Task
    differs: bool = False
    """The sides' instructions or tools differ, so that the judge is shown neither: it would judge by one side's."""


def shared_task(groups: Sequence[Group], rules: Rules, name: str, brief: str | None = None) -> SharedTask:
    """Return the task of a query that every side has; `brief` replaces the agents' instructions and tools."""
    briefs = [brief_task(group, rules).brief for group in groups]
    differs = brief is None and len(set(briefs)) > 1
    query = groups[0].query
    return SharedTask(Task(name, query.text, brief or (None if differs else briefs[0]), query.reference), differs)


async def play_cross(
    pairs: Sequence[CrossPair],
    rollouts: Mapping[Place, Rollout | ComparedRollout],
    texts: Mapping[Place, Transcript],
    task: Task,
    jury: PairJury,
    ledger: PairLedger,
    repeats: int,
) -> PlayedPairs:
    """Play the pairs. A rollout that failed loses without being judged; where both failed, the two tie.

    A match of which a verdict is missing stays open.
    """
    numbers = {place: number for number, place in enumerate(dict.fromkeys(p for pair in pairs for p in pair.places))}
    forfeits: dict[CrossPair, ForfeitedBy | None] = {pair: _forfeit(pair, rollouts) for pair in pairs}
    judged = [pair for pair in pairs if forfeits[pair] is None]
    if not judged:
        return PlayedPairs(tuple(_cross_match(pair, None, forfeits[pair]) for pair in pairs), ())
    by_number = {numbers[place]: texts[place] for pair in judged for place in pair.places}
    met = [(numbers[pair.places[0]], numbers[pair.places[1]]) for pair in judged]
    played = await play_in_stages(GivenPairs(met), JurySource(jury, by_number, task, ledger, repeats))
    matches = {(match.a, match.b): match for match in played.matches}
    results = {pair: matches.get(pair_met) for pair, pair_met in zip(judged, met, strict=True)}
    return PlayedPairs(
        tuple(_cross_match(pair, results.get(pair), forfeits[pair]) for pair in pairs),
        tuple(sorted({*played.open_verdicts, *played.absent_verdicts})),
    )


def _forfeit(pair: CrossPair, rollouts: Mapping[Place, Rollout | ComparedRollout]) -> ForfeitedBy | None:
    first, second = (rollouts[place].status == "failed" for place in pair.places)
    if first and second:
        return "both"
    return "first" if first else "second" if second else None


def _cross_match(pair: CrossPair, match: Match | None, forfeit: ForfeitedBy | None) -> CrossMatch:
    """Return a pair as a record: judged, lost unjudged, or, without either, open."""
    plain = CrossMatch(
        sides=pair.sides,
        role=pair.role,
        first=pair.first,
        second=pair.second,
        winner=forfeit and WINNERS[forfeit],
        forfeit=forfeit,
    )
    if match is None:
        return plain
    first_stood_first = [shown == match.a for shown in match.shown_first]
    scores = zip(first_stood_first, match.scores, strict=True)
    return plain.model_copy(
        update={
            "verdicts": match.verdicts,
            "shown_first": tuple("first" if first else "second" for first in first_stood_first),
            "scores": tuple((a, b) if first else (b, a) for first, (a, b) in scores),
            "score_first": match.score_a,
            "score_second": match.score_b,
            "winner": "tie" if match.winner is None else "first" if match.winner == match.a else "second",
            "flipped": match.flipped,
            "inconsistent": match.inconsistent,
        }
    )
