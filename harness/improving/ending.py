"""An improvement from its beginning to its end: the best candidate against the agent as it was, on held-out queries."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.folder_store import lock_folder
from harness.archive.improve_folder import ImproveFolder
from harness.archive.run_info import list_comparisons, new_run_id
from harness.comparison.gate import lead_by_length, pass_forecast, won_no_longer
from harness.comparison.outcomes import side_pairs
from harness.core.errors import UsageError, before_colon
from harness.core.gates import GateResult, InterimRule
from harness.core.improvements import ImproveInfo, Improvement, ImproveOutcome, SecondJudge
from harness.improving.loop import Search, Stopped
from harness.improving.plan import GATE_PAIRS, ImprovePlan
from harness.improving.selection import LEAST_P_ABOVE, ROOT
from harness.pipeline.comparing.compare import ComparisonResult, compare_runs
from harness.pipeline.comparing.outcome import GateRules, comparison_of, conclude_comparison
from harness.pipeline.comparing.resuming import compare_sides, resume_comparison
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.trust import improvement_made_here
from harness.report.html.improvement_page import write_result
from harness.report.summary.comparison import win_rate
from harness.report.summary.improvement import diff_of, sentence_of, why_no_candidate
from harness.rollouts.prompt_parts import joined_parts

_ABOVE_HALF = 1e-9
"""A gate's margin under which "not worse" means better: the whole interval is above one half."""


def begin(plan: ImprovePlan, runs_dir: Path, run_env: RunEnvironment) -> ImproveFolder:
    """Return the folder that the same call made here, and say so, or else a new one. Raises CannotWrite."""
    if there := improvement_made_here(runs_dir, plan.key, run_env.environ):
        anew = f"another {before_colon('seed')} begins anew"
        run_env.progress.note(f"the same call began {there.path}, which is gone on with; {anew}")
        return there
    agent, judging, at = plan.prepared.agent.loaded, plan.prepared, run_env.clock()
    info = ImproveInfo(
        id=new_run_id(f"improve-{agent.name}", at, secrets.token_hex(8)),
        created_at=at,
        agent=agent.name,
        agent_word=agent.word,
        judge=judging.judge.identity,
        rubric=judging.rubric.label,
        offline=plan.prepared.offline,
        versions=dict(package_versions()),
        key=plan.key,
        rules=plan.rules,
        root=plan.root,
        train=plan.train,
        held_out=plan.held_out,
        split=plan.split,
        max_cost=plan.max_cost,
    )
    return ImproveFolder.make(runs_dir, info)


async def improve_agent(plan: ImprovePlan, folder: ImproveFolder, run_env: RunEnvironment) -> Improvement:
    """Search for better texts and test the best, doing what is missing; write the result. Raises Unfinished.

    The held-out queries test once: what was decided stays so.
    """
    lock = lock_folder(folder.path)
    try:
        if (kept := folder.result()) and kept.outcome != "undecided":
            return kept
        run_env.progress.opened(folder.path)
        search = Search(plan, folder, run_env)
        stopped = await search.run()
        result = _concluded(search, await _Gate(search).tested(), stopped)
        write_result(folder.path, result)
        return result
    finally:
        lock.release()


@dataclass(frozen=True)
class _Tested:
    """What the gate came to."""

    best: int
    outcome: ImproveOutcome
    why: str = ""
    gate: GateResult | None = None
    second: SecondJudge | None = None
    no_longer: tuple[float, int] = (0.0, 0)
    """What it won of the pairs in which its answer is no longer, and how many there are."""
    losses: tuple[str, ...] = ()


@dataclass
class _Gate:
    """The best candidate against the agent as it was, on the held-out queries."""

    search: Search
    so_far: _Tested = field(init=False)

    async def tested(self) -> _Tested:
        """Say whether the best candidate is accepted. Raises Unfinished."""
        begun = self.search.runs_in(self.search.folder.gate)
        best = max(begun, default=self.search.posterior.best)
        chance, cut_short = self.search.posterior.p_above(best, ROOT), self.search.cut_short
        if best == ROOT or (not begun and chance < LEAST_P_ABOVE):
            why = why_no_candidate(best, chance, self.search.rounds, cut_short=cut_short)
            return _Tested(0, "undecided" if cut_short else "no candidate", why)
        self.so_far = _Tested(best, "undecided")
        try:
            outcome = await self._outcome(best)
            return replace(self.so_far, outcome=outcome)
        except (Stopped, UsageError) as exc:  # --max-cost, or verdicts that are noise
            return replace(self.so_far, outcome="undecided", why=str(exc))

    async def _outcome(self, best: int) -> ImproveOutcome:
        rules, queries = self.search.plan.rules, self.search.plan.held_out
        comparison = await self._compared(best)
        with ComparisonReader(comparison) as reader:
            newest, sides = reader.newest(), [reader.folder.parent / side.run for side in reader.info.sides]
        judged = newest.queries if newest else ()
        shares = sorted((share, query.text) for query in judged if (share := query.outcome((0, 1))) is not None)
        losses = [" ".join(text.split())[:200] for share, text in shares if share < 0.5]
        forecast = pass_forecast(len(queries), _ABOVE_HALF, None, pairs=GATE_PAIRS)
        asked = GateRules(margin=_ABOVE_HALF, looks=rules.looks)
        if (gate := conclude_comparison(comparison, sides, asked, forecast)) is None:
            raise Stopped("no held-out query was judged")
        pairs = side_pairs(judged, (0, 1))
        self.so_far = replace(self.so_far, gate=gate, losses=tuple(losses[:10]), no_longer=won_no_longer(pairs))
        if gate.finding != "not worse":
            return "not better"
        by_length = lead_by_length(gate.comparison.results[0], pairs)
        if rules.gate_judge_model and by_length != "by length alone":
            second = await self._second(sides)
            self.so_far = replace(self.so_far, second=second)
            if not second.better:
                return "refused by the second judge"
            return "better"
        return by_length or "better"

    async def _compared(self, best: int) -> Path:
        """Roll both out on the held-out queries and compare them, or go on with that. Raises Stopped."""
        plan, there = self.search.plan, self.search.folder.gate
        ceiling, run_env = self._ceiling(), self.search.part_env
        both = [
            plan.with_parts(self.search.candidates[one].parts, name, there, GATE_PAIRS + 1, ceiling.get("max_cost"))
            for one, name in ((0, "original.md"), (best, "improved.md"))
        ]
        if begun := list_comparisons(there) if there.is_dir() else []:
            with ComparisonReader(begun[0]) as reader:
                agents = {side.run: one.agent.loaded for side, one in zip(reader.info.sides, both, strict=True)}
            again = await resume_comparison(begun[0], run_env, runs_dir=there, agents=agents, changes=ceiling)
            return self._checked(again or ComparisonResult(begun[0], was_complete=True))
        early_stop = InterimRule(looks=plan.rules.looks, margin=_ABOVE_HALF) if plan.rules.looks > 1 else None
        options = plan.comparing(there, ceiling, GATE_PAIRS, early_stop=early_stop)
        return self._checked(await compare_sides(both, plan.held_out, run_env, options))

    async def _second(self, sides: Sequence[Path]) -> SecondJudge:
        """Ask the second judge of the same rollouts. Raises Stopped."""
        plan, asked = self.search.plan, self.search.plan.rules.gate_judge_model
        changes = {**self._ceiling(), "judge_model": asked, "judge_label": None}
        options = plan.comparing(self.search.folder.gate, changes, GATE_PAIRS)
        with ComparisonReader(self._checked(await compare_runs(sides, self.search.part_env, options))) as reader:
            said, newest = comparison_of(reader), reader.newest()
        of_two, pairs = said.results[0], side_pairs(newest.queries if newest else (), (0, 1))
        better = of_two.shown == "better" and lead_by_length(of_two, pairs) != "by length alone"
        return SecondJudge(judge=said.judge, win_rate=of_two.win_rate, interval=of_two.interval, better=better)

    def _ceiling(self) -> dict[str, Any]:
        most = self.search.plan.max_cost
        return {} if most is None else {"max_cost": max(0.0, most - self.search.folder.spent().cost.known)}

    def _checked(self, result: ComparisonResult) -> Path:
        self.search.check_ended(result.stopped, result.given_up)
        return result.path


def _concluded(search: Search, tested: _Tested, stopped: str) -> Improvement:
    plan, folder, best = search.plan, search.folder, search.candidates[tested.best]
    spent, gate = folder.spent(), tested.gate
    return Improvement(
        improvement=folder.path.name,
        path=str(folder.path),
        offline=plan.prepared.offline,
        accepted=tested.outcome == "better",
        sentence=sentence_of(tested.outcome, tested.why, best.number, gate, tested.second, tested.no_longer),
        standings=search.standings(),
        rounds=tuple(search.rounds),
        stopped=stopped,
        gate_queries=len(plan.held_out),
        win_rate=gate and win_rate(gate.looks[-1]),
        at_equal_length=gate.comparison.results[0].length_controlled if gate else None,
        comparison=gate.comparison.path if gate else None,
        spent=spent.cost.known,
        exact=spent.cost.exact,
        best=tested.best,
        outcome=tested.outcome,
        second=tested.second,
        losses=tested.losses,
        rollouts=spent.rollouts,
        verdicts=spent.verdicts,
        proposals=spent.proposals,
        diff=diff_of(plan.root, best.parts),
        instructions=joined_parts(best.parts),
    )
