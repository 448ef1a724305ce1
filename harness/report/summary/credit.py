"""Which step won or lost a rollout, read from an archive: states from the recorded calls, worth from the judging."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.branch_point import BranchPoint
from harness.core.errors import ArchiveDamaged
from harness.core.rankings import GroupRanking
from harness.core.records import Query, Rollout
from harness.ranking.credit import GroupMargins, SiblingPair, StepCredit, group_credit, mean_spread
from harness.ranking.margins import fit_margins
from harness.ranking.path_graph import PathGraph, path_graph
from harness.ranking.pooled import fit_by
from harness.ranking.reward_classes import RankedClass, learnt_from_queries, ranked_classes
from harness.ranking.rewards import EPS
from harness.report.summary.pooled_fit import JudgeOnce, is_by_pooled, is_by_reward, judge_at_need
from harness.report.summary.ranking import group_of
from harness.report.text import beginning, signed
from harness.rollouts.packed_calls import unpack_plain
from harness.rollouts.states import StateBy, state_names

_TEXTS = 64
"""Long texts that are kept at hand: the rollouts of a group have system prompts and tools in common."""
_AT_ONCE = 256
"""Groups that are fitted at once."""
_WORDS = 60
"""Characters of a call's arguments that a sentence has."""
_DIGITS, _FEWEST = 6, 2
_SIDES = ("better", "worse")
_Calls = Sequence[tuple[dict[str, Any], dict[str, Any]]]
"""Requests and replies."""
WORTHS = ("margin", "verified")
"""What credits are points of: the margins of judged rollouts, or their verifiable rewards."""
_NOT_RANKED = "it is not ranked yet"
_NOT_JUDGED = "it is not judged"
_ALONE = "of its rollouts fewer than two ended well, so there was nothing to judge"
_LISTWISE = "a listwise judge gave its scores, and says nothing of how sure they are"
_TOO_FEW = "fewer than two of its rollouts have both a margin and recorded calls"
_NO_CALLS = "no calls are recorded"
_NO_SIGNAL = "the judging tells its rollouts apart by nothing (signal none)"


class CreditedStep(NamedTuple):
    """A model call of a rollout, and what it was worth."""

    call: int
    """From 1, in the order in which the calls began."""
    agent: str | None
    tools: tuple[tuple[str, str], ...]
    """The tools that it called, each with its arguments; none where it only said something."""
    state: str
    """The name of what it was shown."""
    worth: StepCredit

    @property
    def stands_out(self) -> bool:
        """Whether its interval leaves no doubt which way it went."""
        return self.worth.interval[0] > 0 or self.worth.interval[1] < 0

    @property
    def did(self) -> str:
        """What it did, in words."""
        if not self.tools:
            return "its answer"
        (tool, arguments), *others = self.tools
        return f"{tool} {beginning(arguments, _WORDS)}".strip() + (f" and {len(others)} more" if others else "")

    @property
    def amount(self) -> str:
        """Its credit with half of its interval, such as +1.80 ± 0.40."""
        low, high = self.worth.interval
        return f"{signed(self.worth.credit)} ± {(high - low) / 2:.2f}"

    def as_json(self) -> dict[str, Any]:
        """Return what `harness credit --json` has of it."""
        worth = self.worth
        return {
            "call": self.call,
            "agent": self.agent,
            "tools": [tool for tool, _ in self.tools],
            "state": self.state,
            "value": round(worth.value, _DIGITS) + 0.0,
            "credit": round(worth.credit, _DIGITS) + 0.0,
            "interval": [round(bound, _DIGITS) + 0.0 for bound in worth.interval],
            "shared": worth.shared,
            "named": worth.named,
        }


@dataclass(frozen=True)
class CreditedRollout:
    """A rollout with the credit of its steps; or why it has none."""

    index: int
    end: float | None = None
    """The value at its end: its margin, drawn to its siblings' and not to the mean of all."""
    margin: float | None = None
    """What the fit behind the group's probabilities says of it, or its reward: above the mean of the group."""
    steps: tuple[CreditedStep, ...] = ()
    reason: str = ""
    branch: BranchPoint | None = None
    """Where it was taken up from another one, if it was."""
    instead: str = ""
    """What most others did that were shown the same before its decisive step; "" where they did the same."""

    @property
    def decisive(self) -> CreditedStep | None:
        """The step that is named, else the one with the largest credit whose interval leaves out 0; None without."""
        telling = [step for step in self.steps if step.worth.named] or [s for s in self.steps if s.stands_out]
        return max(telling, key=lambda step: abs(step.worth.credit), default=None)

    @property
    def sentence(self) -> str:
        """Which step decided; "" where none stands out."""
        if (step := self.decisive) is None:
            return ""
        verb = {"won": "won it", "lost": "lost it"}.get(step.worth.named or "") or (
            "gained most, as far as can be told," if step.worth.credit > 0 else "lost most, as far as can be told,"
        )
        instead = f" instead of {self.instead}" if self.instead else ""
        return f"rollout {self.index} {verb} at model call {step.call}: {step.did}{instead} ({step.amount})"

    def as_json(self) -> dict[str, Any]:
        """Return what `harness credit --json` has of it."""
        return {
            "index": self.index,
            "end": None if self.end is None else round(self.end, _DIGITS) + 0.0,
            "margin": None if self.margin is None else round(self.margin, _DIGITS) + 0.0,
            "reason": self.reason or None,
            **({"branch": self.branch.model_dump(mode="json")} if self.branch else {}),
            "steps": [step.as_json() for step in self.steps],
        }


class TreeWay(NamedTuple):
    """A step from one state of a group's tree to the next, or to the end of a rollout."""

    ends: tuple[str, str | int]
    """The state before it, and that after it or the rollout that ended."""
    level: int
    """At how many states its rollouts parted from others before."""
    rollouts: tuple[int, ...]
    """All that took it."""
    step: CreditedStep
    """That of the first."""
    end: float | None
    """The value at the end to which it leads."""
    bar: float
    """Its credit, as a share of the largest of the tree."""

    def as_json(self) -> dict[str, Any]:
        """Return what `harness credit --json` has of it."""
        start, end = self.ends
        return {
            "state": start,
            "next": end if isinstance(end, str) else None,
            "rollouts": list(self.rollouts),
            "credit": self.step.as_json()["credit"],
        }


def tree_ways(rollouts: Sequence[CreditedRollout]) -> list[TreeWay]:
    """Return the tree of rollouts, depth first, the ways that most took before others."""
    largest = max((abs(step.worth.credit) for one in rollouts for step in one.steps), default=0.0)
    return list(_ways(rollouts, 0, 0, largest or 1.0))


def _ways(rollouts: Sequence[CreditedRollout], at: int, level: int, largest: float) -> Iterator[TreeWay]:
    while True:
        ways: dict[tuple[str, str | int], list[CreditedRollout]] = {}
        for one in rollouts:
            if at < len(one.steps):
                after = one.steps[at + 1].state if at + 1 < len(one.steps) else one.index
                ways.setdefault((one.steps[at].state, after), []).append(one)
        for ends, took in sorted(ways.items(), key=lambda way: -len(way[1])):
            step, end = took[0].steps[at], took[0].end if isinstance(ends[1], int) else None
            indices = tuple(one.index for one in took)
            yield TreeWay(ends, level + (len(ways) > 1), indices, step, end, step.worth.credit / largest)
            if len(ways) > 1:
                yield from _ways(took, at + 1, level + 1, largest)
        if len(ways) != 1:
            return
        at += 1


@dataclass(frozen=True)
class CreditedGroup:
    """A query's rollouts with the credit of their steps; or why they have none."""

    query: Query
    rollouts: tuple[CreditedRollout, ...] = ()
    worth: str = "margin"
    """What credits are points of: margins, or the verifiable reward."""
    reason: str = ""
    pairs: tuple[SiblingPair, ...] = ()
    """Steps from one state of which one led to more, by the numbers of the rollouts."""

    @property
    def step_advantages(self) -> dict[int, list[float]]:
        """Of each rollout the credits of its steps, over the standard deviation of what the group's came to."""
        ends = [rollout.end for rollout in self.rollouts if rollout.end is not None]
        sd = statistics.pstdev(ends) if ends else 0.0
        return {r.index: [step.worth.credit / (sd + EPS) for step in r.steps] for r in self.rollouts if r.steps}

    def of(self, index: int) -> CreditedRollout:
        """Return a rollout's."""
        known = {rollout.index: rollout for rollout in self.rollouts}
        return known.get(index) or CreditedRollout(index, reason=self.reason)

    def as_json(self) -> dict[str, Any]:
        """Return what `harness credit --json` has of it."""
        return {
            "query": self.query.id,
            "worth": self.worth,
            "reason": self.reason or None,
            "rollouts": [rollout.as_json() for rollout in self.rollouts],
            "tree": [way.as_json() for way in tree_ways(self.rollouts)],
        }


class _Ends(NamedTuple):
    """How good the rollouts of a group turned out to be."""

    entrants: Sequence[int]
    margins: GroupMargins
    worth: str


class GroupPaths(NamedTuple):
    """The paths of the rollouts of a group that have a margin, and what became of them."""

    rollouts: Sequence[Rollout]
    calls: Mapping[int, _Calls]
    """By rollout."""
    states: Sequence[Sequence[str]]
    graph: PathGraph
    margins: GroupMargins
    spread: float
    """The mean spread of all groups."""
    without: Sequence["CreditedRollout"]
    """The others."""


class RunCredit:
    """The credit of the steps of a ranked run, a group at a time."""

    def __init__(
        self, reader: RunReader, ranking: RankingFile, by: StateBy = "requests", judge: JudgeOnce | None = None
    ) -> None:
        """Take a ranking, what makes two states one, and its judge, if another reader of it learns the judge, too."""
        self._reader, self._ranking = reader, ranking
        self._by: StateBy = by
        self._text = lru_cache(_TEXTS)(reader.blobs.get)
        self._judge = judge or judge_at_need(ranking)

    def of_all(self, queries: Iterable[Query]) -> Iterator[CreditedGroup]:
        """Yield the credit of the groups of queries, in order."""
        left = iter(queries)
        while some := list(islice(left, _AT_ONCE)):
            ends = self._ends(ranked for query in some if (ranked := self._ranking.of(query)))
            for query in some:
                yield self._group(query, ends.get(query.id, _NOT_RANKED))

    def of(self, query: Query) -> CreditedGroup:
        """Return the credit of one group."""
        return next(self.of_all([query]))

    def paths(self, query: Query) -> GroupPaths | str:
        """Return the paths of a group; or why it has no credit, in words."""
        ranked = self._ranking.of(query.id)
        ends = self._ends([ranked])[query.id] if ranked else _NOT_RANKED
        paths = ends if isinstance(ends, str) else self._paths(query, ends)
        return paths if isinstance(paths, GroupPaths | str) else _TOO_FEW

    def of_readable(self, query: Query) -> CreditedGroup | None:
        """Return the credit of one group; None where its recorded calls are damaged: little else needs them."""
        try:
            return self.of(query)
        except ArchiveDamaged:
            return None

    def _group(self, query: Query, ends: _Ends | str) -> CreditedGroup:
        if isinstance(ends, str):
            return CreditedGroup(query, reason=ends)
        paths = self._paths(query, ends)
        if not isinstance(paths, GroupPaths):
            return CreditedGroup(query, tuple(paths), ends.worth, _TOO_FEW)
        able, calls, without = paths.rollouts, paths.calls, paths.without
        credit = group_credit(paths.graph, paths.margins, paths.spread)
        told = zip(able, paths.states, credit.steps, paths.margins.means.tolist(), strict=True)
        credited = [_credited(one, calls[one.index], path, steps, margin) for one, path, steps, margin in told]
        done = Counter((step.state, step.did) for one in credited for step in one.steps)
        credited = [replace(one, instead=_instead(one.decisive, done)) for one in credited]
        every = tuple(sorted([*credited, *without], key=lambda rollout: rollout.index))
        pairs = tuple(
            pair._replace(**{side: (able[at].index, step) for side, (at, step) in zip(_SIDES, pair[:2], strict=True)})
            for pair in credit.pairs
        )
        return CreditedGroup(query, every, ends.worth, pairs=pairs)

    def _paths(self, query: Query, ends: _Ends) -> GroupPaths | list[CreditedRollout]:
        """Return the paths of a group; where too few have any, all rollouts without credit."""
        without, calls = list[CreditedRollout](), dict[int, _Calls]()
        group, blobs = group_of(self._reader, query, self._ranking.stored(query.id)), self._reader.blobs
        for rollout in group.rollouts:
            name, reason = str(rollout.raw_calls), _reason(rollout, ends.entrants)
            if not reason and (made := unpack_plain(blobs.get(name), self._text, blobs.place(name))):
                calls[rollout.index] = made
            else:
                without.append(CreditedRollout(rollout.index, reason=reason or _NO_CALLS, branch=rollout.branch))
        if len(calls) < _FEWEST:
            return without
        able = [rollout for rollout in group.rollouts if rollout.index in calls]
        chosen = [ends.entrants.index(rollout.index) for rollout in able]
        margins = GroupMargins(ends.margins.means[chosen], ends.margins.covariance[np.ix_(chosen, chosen)])
        states = [state_names((q for q, _ in calls[r.index]), r.calls, self._by, r.temporary_folders) for r in able]
        replayed = [rollout.branch.call if rollout.branch else 0 for rollout in able]
        graph = path_graph(states, replayed)
        return GroupPaths(able, calls, states, graph, margins, self._spreads[ends.worth], without)

    @cached_property
    def _spreads(self) -> Mapping[str, float]:
        """By what credits are points of, the mean spread of the groups of the run."""
        names = learnt_from_queries(self._ranking.queries)
        found = [ends for ends in self._ends(map(self._ranking.stored, names)).values() if not isinstance(ends, str)]
        return {worth: mean_spread([ends.margins for ends in found if ends.worth == worth]) for worth in WORTHS}

    def _ends(self, rankings: Iterable[GroupRanking]) -> dict[str, _Ends | str]:
        """Return the margins of groups by their queries; of a group that has none why."""
        found, pooled = dict[str, _Ends | str](), dict[str, RankedClass]()
        for ranked in rankings:
            classes = ranked_classes(ranked, by_reward=is_by_reward(self._ranking))
            verified = {r.index: r.verified for r in ranked.rollouts if r.verified is not None}
            if len(classes) != 1 and len(set(verified.values())) > 1:
                means = np.array(list(verified.values()))
                certain = GroupMargins(means - means.mean(), np.zeros((len(means), len(means))))
                found[ranked.query] = _Ends(list(verified), certain, "verified")
            elif not classes:
                is_alone = len(ranked.rollouts) == 1 or any(r.rank is not None for r in ranked.rollouts)
                found[ranked.query] = _LISTWISE if ranked.verdicts else _ALONE if is_alone else _NOT_JUDGED
            elif ranked.signal == "none" or len(classes) > 1:
                found[ranked.query] = _NO_SIGNAL
            elif is_by_pooled(ranked):
                pooled[ranked.query] = classes[0]
            else:
                fit = fit_margins(classes[0].calls)
                found[ranked.query] = _Ends(classes[0].entrants, GroupMargins.of(fit), "margin")
        calls = [of_class.calls for of_class in pooled.values()]
        fits = fit_by(self._judge(), calls, tell_p_value=False) if calls else []
        for (query, of_class), fit in zip(pooled.items(), fits, strict=True):
            found[query] = _Ends(of_class.entrants, GroupMargins.of(fit), "margin")
        return found


def _credited(
    rollout: Rollout, calls: _Calls, path: Sequence[str], steps: Sequence[StepCredit], margin: float
) -> CreditedRollout:
    agents = {call.raw: call.agent for call in rollout.calls}
    told = enumerate(zip(calls, path, steps, strict=True))
    made = (CreditedStep(at + 1, agents.get(at), _tools(reply), state, step) for at, ((_, reply), state, step) in told)
    return CreditedRollout(rollout.index, steps[-1].value + steps[-1].credit, margin, (*made,), branch=rollout.branch)


def _instead(step: CreditedStep | None, done: Mapping[tuple[str, str], int]) -> str:
    others = {did: times for (state, did), times in done.items() if step and state == step.state and did != step.did}
    return max(others, key=lambda did: others[did], default="")


def _reason(rollout: Rollout, entrants: Sequence[int]) -> str:
    """Return why a rollout has no credit; "" for one that has."""
    if rollout.failure:
        return f"failed ({rollout.failure.kind})"
    if not rollout.raw_calls:
        return f"imported: {_NO_CALLS}" if rollout.origin else _NO_CALLS
    return "" if rollout.index in entrants else "it has no margin"


def _tools(reply: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the tools that a reply calls, each with its arguments."""
    output: Any = reply.get("output")
    items = cast("list[Any]", output) if isinstance(output, list) else []
    calls = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    return tuple(
        (str(item.get("name") or kind.removesuffix("_call")), str(item.get("arguments") or item.get("input") or ""))
        for item in calls
        if (kind := str(item.get("type"))).endswith("_call")
    )
