"""The search: rounds of lessons, proposals and cross matches. All of it follows from what is on the disk.

A step does only what is missing, and what it decides rests on kept records alone. So an improvement that was killed is
gone on with by playing every round again, for nothing, up to where it was.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from anyio import to_thread

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.improve_folder import ImproveFolder
from harness.archive.reader import RunReader
from harness.archive.run_info import list_comparisons, list_runs
from harness.core.errors import call, counted, option
from harness.core.improvements import CandidateStanding, Proposal, RoundResult, TextCandidate
from harness.core.progress import PartsOfWork
from harness.core.records import Query
from harness.improving.plan import GATE_PAIRS, ImprovePlan
from harness.improving.selection import CandidatePosterior, CrossLead, candidate_posterior, next_crosses
from harness.pipeline.comparing.compare import compare_runs
from harness.pipeline.plan import RescoreOptions
from harness.pipeline.proposing import ProposalAsked, Refusals, price_of_asking, propose, sifted
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import open_ended_run, rescore_run, resume_run
from harness.report.summary.lessons import lessons_of, pairs_between, pairs_within

_SURE = 0.95
"""A candidate that is so surely the best ends the search in the first round that finds no better one."""
_IDLE = 2
"""Rounds in a row that end it where none of their children became the best."""
_MARGIN = 1.2
"""So much more than is likely is kept for the gate."""


class Stopped(Exception):
    """Ends the search or the gate; its text says why."""


class Unfinished(Exception):
    """The work was cut short, and has no end yet."""


@dataclass
class Search:
    """The search as far as it has come."""

    plan: ImprovePlan
    folder: ImproveFolder
    run_env: RunEnvironment
    candidates: list[TextCandidate] = field(default_factory=list[TextCandidate])
    asked: dict[int, dict[str, Query]] = field(default_factory=dict[int, dict[str, Query]])
    """The queries that each candidate is rolled out on."""
    met: dict[tuple[int, int], set[str]] = field(default_factory=dict[tuple[int, int], set[str]])
    """The queries on which two candidates met, the smaller number first."""
    runs: dict[int, Path] = field(default_factory=dict[int, Path])
    """The run of each candidate that was rolled out."""
    compared: dict[tuple[int, int], Path] = field(default_factory=dict[tuple[int, int], Path])
    leads: dict[tuple[int, int], list[CrossLead]] = field(default_factory=dict[tuple[int, int], list[CrossLead]])
    rounds: list[RoundResult] = field(default_factory=list[RoundResult])
    cut_short: bool = False
    """Whether --max-cost ended it."""
    posterior: CandidatePosterior = field(default_factory=lambda: candidate_posterior([], 1))

    @property
    def part_env(self) -> RunEnvironment:
        """The environment of a run or a comparison that is a part of the work."""
        return replace(self.run_env, progress=PartsOfWork(self.run_env.progress))

    async def run(self) -> str:
        """Play rounds until something ends the search; return why it ended. Raises Unfinished."""
        self.candidates.append(TextCandidate(number=0, round=0, parts=self.plan.root))
        idle, begun = 0, list_comparisons(self.folder.gate)  # a gate that has begun tests whom it began with
        last = len(self.folder.proposals()) if begun else self.plan.rules.rounds
        try:
            for number in range(1, last + 1):
                before = self.posterior.best
                await self._round(number)
                self.run_env.progress.note(self.rounds[-1].words)
                idle = idle + 1 if self.posterior.best == before else 0
                if idle and before and self.posterior.p_best[before] >= _SURE:
                    return f"candidate {before} is surely the best so far, and a further round brought no better one"
                if idle >= _IDLE:
                    return f"{counted(idle, 'round')} in a row brought no better candidate"
        except Stopped as stopped:
            self.cut_short = True
            return str(stopped)
        return f"{counted(last, 'round')} played, as many as there may be"

    async def _round(self, number: int) -> None:
        kept = self.folder.proposals()[number - 1 : number]
        parent = kept[0].parent if kept else self._parent(number)
        await self._roll_out(parent, self._batch(number))
        proposal = kept[0] if kept else await self._propose(number, parent)
        self.candidates += proposal.children
        await self._conclude()
        pool = {query.id: query for known in self.asked.values() for query in known.values()}
        budget, played = self.plan.rules.matches, 0
        while played < budget and len(self.candidates) > 1:
            step = min(len(self.candidates), budget - played)
            crosses = await to_thread.run_sync(next_crosses, self.posterior, self._known, sorted(pool), step)
            if not crosses:
                break
            await self._play([(min(a, b), max(a, b), pool[query]) for query, a, b in crosses])
            played += len(crosses)
            await self._conclude()
        best = self.posterior.best
        self.rounds.append(
            RoundResult(
                children=tuple(child.number for child in proposal.children),
                best=best,
                worth=self.posterior.worth[best],
                matches=played,
                spent=self.folder.spent().cost.known,
                round=proposal.round,
                parent=proposal.parent,
                refused=proposal.refused,
                lessons=proposal.lessons,
            )
        )

    def _batch(self, number: int) -> list[Query]:
        """Return the training queries that a round adds; all of them come up before any comes again."""
        order = random.Random(f"{self.plan.settings.seed}/queries").sample(self.plan.train, len(self.plan.train))
        size = min(self.plan.rules.batch, len(order))
        return [order[at % len(order)] for at in range((number - 1) * size, number * size)]

    def _parent(self, number: int) -> int:
        """Return the candidate that a round writes from: one of the front, by its chance to be the best."""
        known, rng = self.posterior, random.Random(f"{self.plan.settings.seed}/parent/{number}")
        front = [one for one in known.front if one not in known.dropped] or [known.best]
        return rng.choices(front, [known.p_best[one] + 1e-9 for one in front])[0]

    def standings(self) -> tuple[CandidateStanding, ...]:
        """Return what the matches so far say of each candidate."""
        known = self.posterior
        return tuple(
            CandidateStanding(
                **one.model_dump(),
                p_best=round(known.p_best[one.number], 6),
                worth=known.worth[one.number],
                front=one.number in known.front,
                dropped=one.number in known.dropped,
            )
            for one in self.candidates
        )

    async def _propose(self, number: int, parent: int) -> Proposal:
        """Let the parent's rollouts meet, and have children written from what that and all else teaches."""
        plan, standings = self.plan, self.standings()
        changes: dict[str, Any] = {"topology": "round_robin", "order": "both", **self._ceiling()}
        within = await rescore_run(self.runs[parent], changes, self.part_env, RescoreOptions())
        self.check_ended(within.stopped, within.given_up)
        pairs = pairs_within(self.runs[parent], parent)
        for sides, comparison in sorted(self.compared.items()):
            pairs += pairs_between(comparison, self.runs, sides) if parent in sides else []
        others = [one for one in standings if one.front and not one.dropped and one.number != parent]
        asked = ProposalAsked(
            parent=standings[parent],
            lessons=lessons_of(pairs),
            tried=standings,
            count=plan.rules.children,
            other=max(others, key=lambda one: one.p_best, default=None),
        )
        self._ceiling(0.0 if plan.proposer else price_of_asking(asked, plan.prepared, plan.rules.proposer_model))
        written = await propose(asked, plan.proposer, plan.prepared, plan.rules.proposer_model, self.run_env)
        judges = [member.model for member in plan.prepared.judge.members]
        names = [*judges, plan.prepared.rubric.name, *filter(None, [plan.rules.gate_judge_model])]
        proposal = sifted(written, asked, number, Refusals(names, plan.redact, plan.root))
        self.folder.keep(proposal)
        return proposal

    async def _play(self, crosses: Sequence[tuple[int, int, Query]]) -> None:
        """Roll out what is missing, and judge the cross matches."""
        for candidate in sorted({one for a, b, _ in crosses for one in (a, b)}):
            await self._roll_out(candidate, [query for a, b, query in crosses if candidate in (a, b)])
        for pair, of_pair in groupby(sorted(crosses, key=lambda cross: cross[:2]), key=lambda cross: cross[:2]):
            met = self.met.setdefault(pair, set())
            met |= {query.id for *_, query in of_pair}
            options = self.plan.comparing(
                self.folder.runs, self._ceiling(), self.plan.settings.n - 1, only=frozenset(met)
            )
            result = await compare_runs([self.runs[one] for one in pair], self.part_env, options)
            with ComparisonReader(result.path) as reader:
                newest = reader.newest()
            queries = sorted(newest.queries if newest else (), key=lambda query: query.query)
            leads = (CrossLead.of(query.ids[0], match, pair) for query in queries for match in query.matches)
            self.compared[pair], self.leads[pair] = result.path, [lead for lead in leads if lead]
            self.check_ended(result.stopped, result.given_up)

    async def _roll_out(self, candidate: int, queries: Sequence[Query]) -> None:
        """Run what is missing of a candidate's rollouts on these queries, and on those before."""
        known = self.asked.setdefault(candidate, {})
        known |= {query.id: query for query in queries}
        name, texts = f"candidate-{candidate}.md", self.candidates[candidate].parts
        run, changes = self.plan.with_parts(texts, name, self.folder.runs), self._ceiling()
        if candidate not in self.runs:
            there = self.runs_in(self.folder.runs).get(candidate)
            self.runs[candidate] = there or open_ended_run(run, self.run_env)
        with RunReader(self.runs[candidate]) as reader:
            there = reader.index.rollouts
            if all(len(there.get(query, ())) >= run.settings.n for query in known):
                return
        loaded, asked = run.agent.loaded, list(known.values())
        if result := await resume_run(self.runs[candidate], loaded, self.part_env, changes=changes, queries=asked):
            self.check_ended(result.stopped, result.given_up)

    def runs_in(self, runs_dir: Path) -> dict[int, Path]:
        """Return the run of each candidate that has one: it holds the candidate's texts as its instructions."""
        made = [self.plan.with_parts(one.parts, "", self.folder.runs).agent.loaded for one in self.candidates]
        numbers, found = {each.instructions: at for at, each in enumerate(made)}, dict[int, Path]()
        for folder in list_runs(runs_dir):
            with RunReader(folder) as reader:
                if (number := numbers.get(reader.info.instructions)) is not None:
                    found.setdefault(number, folder)
        return found

    @property
    def _known(self) -> list[CrossLead]:
        return [lead for pair in sorted(self.leads) for lead in self.leads[pair]]

    async def _conclude(self) -> None:
        self.posterior = await to_thread.run_sync(candidate_posterior, self._known, len(self.candidates))

    def _ceiling(self, price: float = 0.0) -> dict[str, float]:
        """Return as a setting what the search may still spend, if that is limited. Raises Stopped at nothing."""
        self.check_ended(None, None)
        if self.plan.max_cost is None:
            return {}
        spent, settings, judge = self.folder.spent(), self.plan.settings, self.plan.prepared.judge
        pairs = (GATE_PAIRS + 1) * len(self.plan.held_out)
        verdicts = 2 * pairs * settings.judge_repeats * len(judge.members)
        gate = _MARGIN * spent.likely(2 * pairs, verdicts * (1 + self.plan.second_price))
        left = self.plan.max_cost - gate - spent.cost.known
        if left <= price:
            kept = f"${spent.cost.known:.4f} is spent, and ${gate:.4f} is kept for the gate"
            raise Stopped(f"{option('max_cost', self.plan.max_cost)}: {kept}")
        return {"max_cost": left}

    def check_ended(self, stopped: str | None, given_up: str | None) -> None:
        """Raise Unfinished where an endpoint or the user ended the work, Stopped where --max-cost did."""
        if given_up := given_up or self.run_env.gates.given_up:
            raise Unfinished(f"{given_up}; {call('resume', self.folder.path)} goes on")
        if self.run_env.stop.asked:
            raise Unfinished("interrupted")
        if stopped:
            raise Stopped(stopped)
