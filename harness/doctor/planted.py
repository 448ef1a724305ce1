"""`judges --planted`: the judges of a run are asked about pairs whose defect only the whole record shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.errors import UsageError
from harness.core.settings import Settings
from harness.doctor.asking import JudgeToCheck, ask_pairs
from harness.doctor.calibration import count_calibration_calls
from harness.doctor.recorded_pairs import planted_pairs
from harness.endpoints.costs import Ceiling, CostBounds
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.plan import NamedAddresses, as_begun, named_judge
from harness.pipeline.resolve import judge_cost, make_ceiling, make_redactor
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.stages import judge_fault
from harness.pipeline.trust import Trust, attest_judge, one_error, trust_in
from harness.report.summary.judges import PlantedRight


@dataclass(frozen=True)
class PlantedPlan:
    """Who is asked about planted pairs, by ranking: judges of their own, by the rubric and settings of then."""

    folder: Path
    trust: Trust
    judges: Mapping[str, tuple[JudgeToCheck, Settings, Ceiling]]

    def as_json(self) -> dict[str, Any]:
        """Return who is asked, and the most calls and USD ([least, most] of so many; None: unknown) that it takes."""
        pairs, costs = planted_pairs(), list[CostBounds | None]()
        calls, tokens = count_calibration_calls(pairs), max(pair.budget or 0 for pair in pairs)
        for judge, settings, _ in self.judges.values():
            costs.append(judge_cost(replace(settings, judge_budget=tokens), judge.spec, (calls, calls)))
        known = [cost for cost in costs if cost]
        cost = [sum(c.low for c in known), sum(c.high for c in known)] if len(known) == len(costs) else None
        places = list(dict.fromkeys(judge.spec.places for judge, *_ in self.judges.values()))
        return {"judges_at": places, "judge_calls": calls * len(costs), "cost_usd": cost}


async def plan_planted(
    reader: RunReader,
    rankings: Sequence[str],
    agents: Sequence[str],
    environ: Mapping[str, str],
    *,
    trust_archive: bool = False,
) -> PlantedPlan:
    """Return whom `judge_planted` asks: the judges of rankings that one judge judged in pairs.

    Agents that judged are those of `agents`, named as for --judge-agent, or of a run that was made here. Raises
    UsageError where there is no such ranking, and for a judge that cannot be asked.
    """
    trust = trust_in(reader, environ, None, None, trust_archive=trust_archive)
    judges = dict[str, tuple[JudgeToCheck, Settings, Ceiling]]()
    for ranking in rankings:
        plan = await as_begun(reader, reader.ranking(ranking).head, {}, trust, NamedAddresses())
        if plan.judge.jurors or not isinstance(rubric := plan.rubric, Rubric):
            continue
        if plan.judge.agent and agents:
            settings = replace(plan.settings, judge_agent=tuple(agents), judge_base_url=plan.judge.base_url)
            alone = replace(settings, judge_model=None, judge_agent_when="always")
            _, loaded = await named_judge(alone, plan.credentials, (), None, offline=False)
            plan = replace(plan, judge_agents=loaded)
        if plan.judge.agent and plan.judge.identity not in plan.judge_agents:
            raise UsageError(
                f"--planted: ranking {ranking} was judged by the agent {plan.judge.model!r}, and no code is loaded "
                "because an archive names it: name it, as it was then, with --judge-agent"
            )
        if fault := judge_fault(plan):
            raise fault
        judge = JudgeToCheck(plan.judge, rubric, plan.credentials, plan.judge_agents)
        judges[ranking] = judge, plan.settings, make_ceiling(plan.settings, plan.judge)
    if agents and judges and not any(judge.spec.agent for judge, *_ in judges.values()):
        raise UsageError(
            "--judge-agent: no ranking shown has an agent as its only judge, and jurors are not asked: `rescore "
            "--judge-agent` makes one"
        )
    if not judges:
        raise UsageError("--planted: no ranking shown has a single judge of pairs, and only those are asked")
    return PlantedPlan(reader.folder, trust, judges)


async def judge_planted(plan: PlantedPlan, run_env: RunEnvironment) -> dict[str, PlantedRight]:
    """Ask each judge about the planted pairs in both orders, and keep the verdicts with the run; return what it says.

    A verdict that the run holds is not bought again. Raises Refused where a call is refused.
    """
    _, of_run, _ = next(iter(plan.judges.values()))
    attest_judge(plan.trust, run_env, [judge.spec.base_url for judge, *_ in plan.judges.values()])
    redact = make_redactor(None, plan.trust.without_patterns(of_run), run_env.environ)
    results, pairs = dict[str, PlantedRight](), planted_pairs()
    run_env.progress.total("judging", 0, len(plan.judges) * count_calibration_calls(pairs))
    with RunStore(plan.folder, run_env.clock(), versions=package_versions(), redact=redact) as store:
        for ranking, (judge, settings, ceiling) in plan.judges.items():
            calibration = judge.calibration(pairs, ())
            cache = VerdictCache(store, run_env.progress, (), ceiling, stop=run_env.stop)
            with one_error(store, new=False):
                await ask_pairs(judge, settings, calibration, cache, run_env)
            shares = {row.name: row.pairs_right for row in calibration.classes()}
            results[ranking] = PlantedRight(shares, calibration.usd, calibration.failures)
    return results
