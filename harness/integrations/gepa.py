"""For GEPA: `gepa.optimize(adapter=(adapter := gepa.Adapter(...)), acceptance_criterion=adapter.acceptance, ...)`.

A candidate is scored against the seed candidate's rollouts, which are made once: GEPA keeps scores of several rounds
side by side, and so they mean the same in each. gepa is not imported.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import NormalDist
from typing import Any

from agents import Agent

from harness import Judge, MemoryStore
from harness.api.best_answer import pair_words
from harness.api.one_group import rank, rollout
from harness.api.outside import AnyAgent
from harness.core.errors import JudgeFailed, NothingRankable, UsageError, quoted
from harness.core.improvements import INSTRUCTIONS
from harness.core.rankings import Judged
from harness.core.records import AGENT_FAILURES, Group, Query, Rollout
from harness.core.sync import in_step
from harness.improving.selection import CrossLead, candidate_posterior

_Texts = Mapping[str, str]
"""A candidate: the text of each component."""
_NOISE = 2**0.5
"""Standard deviation of a lead, the mean of two calls, in score points: what `margins` believes before it sees any."""
_DESIGN: dict[str, Any] = {"topology": "cyclic", "order": "both"}
_REFUSED = {"max_cost": "gepa's max_metric_calls bounds a search", "n": "rollouts=N says how many there are a query"}


@dataclass(frozen=True)
class _Pair:
    """A rollout of a candidate beside a rollout of the seed."""

    won: float
    """How probably the candidate's is better."""
    lead: float | None
    """Of the candidate, in score points; None where a rollout failed and nothing was judged."""
    words: str
    """Why."""


@dataclass(frozen=True)
class Met:
    """What came of a candidate on a query: a trajectory of GEPA's."""

    query: str
    answers: tuple[str, ...]
    score: float
    words: tuple[str, ...]
    """Why, pair by pair."""


@dataclass(frozen=True)
class Evaluation:
    """What `gepa.EvaluationBatch` holds."""

    outputs: list[tuple[str, ...]]
    """The answers on each query."""
    scores: list[float]
    trajectories: list[Met] | None
    objective_scores: None = None
    num_metric_calls: None = None


class Adapter:
    """An agent and a judge as a GEPAAdapter of gepa 0.1.4."""

    propose_new_texts = None
    """GEPA's own proposer writes the texts, by its `reflection_lm`."""

    def __init__(
        self,
        agent: Agent[Any] | Callable[[_Texts], AnyAgent],
        seed: _Texts,
        judge: str | Judge | None = None,
        *,
        rollouts: int = 2,
        least: float = 0.5,
        **settings: Any,
    ) -> None:
        """Take an Agent, whose instructions are the component `instructions`, or a function from texts to an agent.

        `seed` is GEPA's `seed_candidate`; `judge` and `settings` are those of `harness.rank` and `harness.rollout`. On
        each query a candidate is rolled out `rollouts` times, the first time at temperature 0, and each rollout meets
        the seed's of the same number, in both orders. `least` is the probability of being better than its parent from
        which a candidate is accepted. Raises UsageError.
        """
        if rollouts < 1:
            raise UsageError(f"rollouts {quoted(rollouts)}: give a whole number from 1")
        if not callable(agent) and [*seed] != [INSTRUCTIONS]:
            raise UsageError(
                f"the seed's components are {', '.join(seed) or 'none'}, and an Agent takes {INSTRUCTIONS} alone: give "
                "a function that makes the agent from the texts"
            )
        for name in _REFUSED.keys() & settings:
            raise UsageError(f"{name} is no setting here: {_REFUSED[name]}")
        self._made: Callable[[_Texts], AnyAgent] = agent if callable(agent) else lambda texts: agent.clone(**texts)
        self._seed, self._judge, self._settings = dict(seed), judge, settings
        self._rollouts, self._least = rollouts, least
        self._store = MemoryStore()
        self._groups: dict[tuple[str, str], Group] = {}
        self._pairs: dict[tuple[str, str], list[_Pair]] = {}

    def evaluate(self, batch: Sequence[Any], candidate: _Texts, capture_traces: bool = False) -> Evaluation:
        """Return the win probability of a candidate against the seed on each query: a text, a Query or a mapping.

        It is the mean over the pairs, by how far the judge sees one above the other, and 0.5 for the seed itself, which
        is rolled out when its rollouts are needed. A rollout that failed by the agent's own making loses. All is kept:
        the same candidate on the same query gets the same score for nothing. Raises NothingRankable where the
        infrastructure failed all rollouts of a query, and JudgeFailed where a verdict could not be had: no failure
        becomes a score.
        """
        met = in_step(self._meet_all)(batch, candidate, capture_traces)
        return Evaluation([m.answers for m in met], [m.score for m in met], met if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: _Texts, eval_batch: Any, components_to_update: Sequence[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return for each component, for each query, what was asked, what came, and why it won or lost."""
        del candidate
        examples = [
            {
                "Inputs": {"query": met.query},
                "Generated Outputs": "\n\n".join(met.answers),
                "Feedback": "\n".join([f"Win probability against the seed: {met.score:.2f}.", *met.words]),
            }
            for met in eval_batch.trajectories or ()
        ]
        return dict.fromkeys(components_to_update, examples)

    @property
    def acceptance(self) -> "Adapter":
        """GEPA's `acceptance_criterion`: more probably than `least` a candidate is better than its parent."""
        return self

    def should_accept(self, proposal: Any, state: Any) -> bool:
        """Tell whether a proposal is more probably than `least` better than each of its parents."""
        parents = [state.program_candidates[parent] for parent in proposal.parent_program_ids]
        return all(self.p_above(proposal.candidate, parent) > self._least for parent in parents)

    def p_above(self, candidate: _Texts, other: _Texts) -> float:
        """Return how probably a candidate is better than another one, by the pairs that both have with the seed."""
        names = [*dict.fromkeys(map(_key, (self._seed, candidate, other)))]
        leads = [
            CrossLead(query, 0, names.index(name), 2 * pair.won - 1, forfeit=True)
            if pair.lead is None
            else CrossLead(query, 0, names.index(name), pair.lead)
            for (name, query), pairs in self._pairs.items()
            if name in names
            for pair in pairs
        ]
        return candidate_posterior(leads, len(names)).p_above(*(names.index(_key(of)) for of in (candidate, other)))

    def get_adapter_state(self) -> dict[str, Any]:
        """Return rollouts, verdicts and what came of them, as plain values for GEPA's checkpoint."""
        return {
            "groups": [[*key, group.model_dump(mode="json")] for key, group in self._groups.items()],
            "pairs": [[*key, [astuple(pair) for pair in pairs]] for key, pairs in self._pairs.items()],
            "verdicts": [v.model_dump(mode="json") for v in self._store.verdicts if isinstance(v, Judged)],
        }

    def set_adapter_state(self, state: Mapping[str, Any]) -> None:
        """Take what a checkpoint holds: none of it is bought again."""
        self._groups |= {(name, query): Group.model_validate(group) for name, query, group in state.get("groups", ())}
        self._pairs |= {
            (name, query): [_Pair(*pair) for pair in pairs] for name, query, pairs in state.get("pairs", ())
        }
        for verdict in state.get("verdicts", ()):
            self._store.add_verdict(Judged.model_validate(verdict))

    async def _meet_all(self, batch: Sequence[Any], candidate: _Texts, explain: bool) -> list[Met]:
        asked = {_key(query): query for query in batch}  # GEPA fills a batch up with queries that it holds
        met = await asyncio.gather(*(self._meet(query, candidate, explain) for query in asked.values()))
        by_query = dict(zip(asked, met, strict=True))
        return [by_query[_key(query)] for query in batch]

    async def _meet(self, asked: Any, candidate: _Texts, explain: bool) -> Met:
        name, query = _key(candidate), _key(asked)
        if candidate == self._seed and not explain and (name, query) not in self._groups:
            return Met(query, (), 0.5, ())  # a search that goes on asks for this before it hands over what was kept
        seeds, group = await self._group(asked, self._seed), await self._group(asked, candidate)
        answers = tuple(str(r.trajectory.answer or "") for r in group.rollouts)
        if candidate == self._seed:
            apart = zip(seeds.rollouts, seeds.rollouts[1:], strict=False) if explain else ()
            pairs = [await self._pair(group.query, *two) for two in apart]
            return Met(group.query.text, answers, 0.5, tuple(pair.words for pair in pairs if pair))
        if (name, query) not in self._pairs:
            both = zip(seeds.rollouts, group.rollouts, strict=False)
            pairs = await asyncio.gather(*(self._pair(group.query, *two) for two in both))
            self._pairs[name, query] = [pair for pair in pairs if pair]
        pairs = self._pairs[name, query]
        if not pairs:
            raise NothingRankable(f"the infrastructure failed all rollouts of query {quoted(group.query.text)}")
        score = sum(pair.won for pair in pairs) / len(pairs)
        return Met(group.query.text, answers, score, tuple(pair.words for pair in pairs))

    async def _group(self, asked: Any, candidate: _Texts) -> Group:
        at = _key(candidate), _key(asked)
        if at not in self._groups:
            self._groups[at] = await rollout(self._made(candidate), asked, self._rollouts, **self._settings)
        return self._groups[at]

    async def _pair(self, query: Query, seed: Rollout, own: Rollout) -> _Pair | None:
        """Judge two rollouts. None where the infrastructure failed one of them."""
        failures = [r.failure.kind if r.failure else None for r in (seed, own)]
        if any(kind and kind not in AGENT_FAILURES for kind in failures):
            return None
        if any(failures):
            lost = "Both failed" if all(failures) else "It failed" if failures[1] else "The other one failed"
            return _Pair(
                0.5 if all(failures) else 0.0 if failures[1] else 1.0, None, f"{lost}: {failures[1] or failures[0]}."
            )
        group = Group(query=query, rollouts=tuple(r.model_copy(update={"index": i}) for i, r in enumerate((seed, own))))
        ranking = await rank(group, self._judge, store=self._store, **{**_DESIGN, **self._settings})
        if not ranking.matches:
            raise JudgeFailed(f"no verdict could be had on query {quoted(query.text)}")
        (match,) = ranking.matches
        lead = match.score_b - match.score_a
        words = pair_words(group, match, self._store.verdict)
        return _Pair(NormalDist(0, _NOISE).cdf(lead), lead, " ".join(words))


def _key(of: Any) -> str:
    """Return what a candidate or a query is told by."""
    return of if isinstance(of, str) else json.dumps(of.model_dump(mode="json") if isinstance(of, Query) else of)
