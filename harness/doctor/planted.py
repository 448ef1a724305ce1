"""Judges are asked about pairs in both orders: those of a calibration, and for `judges --planted` those of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.store import MemoryStore, RunStore
from harness.core.errors import HarnessError, UsageError, first_error
from harness.core.progress import Progress
from harness.core.settings import Settings
from harness.doctor.calibration import Calibration, Trial, count_calibration_calls
from harness.doctor.checks import DoctorRequest, printable
from harness.doctor.recorded_pairs import AnyPair, RecordedPair, planted_pairs
from harness.endpoints.costs import Ceiling, CostBounds, total_bounds
from harness.endpoints.credentials import Credentials
from harness.judging.judges import PairwiseJudge
from harness.judging.prompt import Task
from harness.judging.rubric import Rubric
from harness.judging.transcript_form import form_of_rendering
from harness.judging.verdict_cache import CachedPairJudge, PairLedger, VerdictCache
from harness.pipeline.open_groups import for_each
from harness.pipeline.plan import NamedAddresses, as_begun, named_judge
from harness.pipeline.resolve import JudgeSpec, judge_cost, make_ceiling, make_redactor
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.stages import judge_fault, open_judge_models
from harness.pipeline.trust import Trust, attest_judge, one_error, trust_in
from harness.report.summary.judges import PlantedRight
from harness.rollouts.loading import LoadedAgent
from harness.transcripts.tokens import transcript_budget


@dataclass(frozen=True)
class JudgeToCheck:
    """A judge that is to be calibrated, and what it goes by."""

    spec: JudgeSpec
    rubric: Rubric
    credentials: Credentials
    agents: Mapping[str, LoadedAgent]

    def calibration(self, pairs: Sequence[AnyPair], secrets: tuple[str, ...]) -> Calibration:
        """Return the calibration that is to be filled."""
        label = f"{self.rubric.label} with evidence" if self.rubric.evidence else self.rubric.label
        return Calibration(self.spec.identity, label, pairs=pairs, secrets=secrets)


async def calibrate(asked: JudgeToCheck, request: DoctorRequest, calibration: Calibration, progress: Progress) -> None:
    """Ask the judge about every pair of `calibration`, as `ask_pairs` does; the verdicts are kept in memory alone."""
    cache, calls = VerdictCache(MemoryStore(), progress), count_calibration_calls(calibration.pairs)
    progress.total("judging", calls, calls)
    await ask_pairs(
        asked, request.settings, calibration, cache, RunEnvironment(request.environ, request.clock, progress)
    )


async def ask_pairs(
    asked: JudgeToCheck, settings: Settings, calibration: Calibration, cache: VerdictCache, run_env: RunEnvironment
) -> None:
    """Ask the judge about every pair of `calibration` in both orders; each trial is added to it when it ends.

    Raises Refused where the first call is refused.
    """
    store, trials = cache.store, dict[int, Trial]()
    budget = transcript_budget(settings.judge_budget, asked.spec.counter)
    form = form_of_rendering(asked.rubric.rendering, budget, records=asked.spec.agent is not None)
    try:
        parts = asked.spec, settings, asked.credentials, store, run_env
        async with open_judge_models(*parts, agents=asked.agents) as (model,):
            judge = PairwiseJudge(model, asked.rubric, require_citations=settings.require_citations)
            cached_judge = CachedPairJudge(judge, cache)

            async def try_pair(numbered: tuple[int, AnyPair]) -> None:
                number, pair = numbered
                task, ledger = Task("pair", pair.query), PairLedger()
                if isinstance(pair, RecordedPair):
                    task, (a, b) = replace(task, reference=pair.reference), pair.shown(form)
                    if asked.spec.agent:
                        pair.keep_files(store)
                else:
                    a, b = pair.sides
                a_first, b_first = [await cached_judge.get(ledger, task, *shown) for shown in ((a, b), (b, a))]
                trials[number] = Trial(pair, a_first, b_first)
                calibration.trials = [trials[k] for k in sorted(trials)]

            await for_each(enumerate(calibration.pairs), try_pair, settings.judge_concurrency)
    except* HarnessError as group:
        error: HarnessError = first_error(group)
        raise type(error)(printable(str(error), calibration.secrets)) from None


@dataclass(frozen=True)
class PlantedPlan:
    """Who is asked about planted pairs, by ranking: judges of their own, by the rubric and settings of then."""

    folder: Path
    trust: Trust
    judges: Mapping[str, tuple[JudgeToCheck, Settings, Ceiling]]

    def as_json(self) -> dict[str, Any]:
        """Return who is asked, and the most calls and USD ([least, most] of so many; None: unknown) that it takes."""
        pairs = planted_pairs()
        calls, tokens = count_calibration_calls(pairs), max(pair.budget or 0 for pair in pairs)
        costs = (
            judge_cost(replace(settings, judge_budget=tokens), judge.spec, (calls, calls))
            for judge, settings, _ in self.judges.values()
        )
        cost = reduce(total_bounds, costs, CostBounds(0.0, 0.0))
        places = list(dict.fromkeys(judge.spec.places for judge, *_ in self.judges.values()))
        return {
            "judges_at": places,
            "judge_calls": calls * len(self.judges),
            "cost_usd": cost and [cost.low, cost.high],
        }


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
