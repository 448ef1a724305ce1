"""`doctor --judge --probe RUN`: a run's judge is asked about probes made of its answers; what it leans to is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.errors import NothingRankable, UsageError, option
from harness.core.judge_profile import JudgeLeanings, ProbedJudge
from harness.core.rankings import Judged, Unjudged
from harness.core.records import Group
from harness.judging.judges import PairwiseJudge
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import CachedPairJudge, PairLedger, VerdictCache
from harness.pipeline.open_groups import for_each
from harness.pipeline.plan import JudgingPlan, RescoreOptions, rescoring
from harness.pipeline.resolve import make_ceiling, make_redactor
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.stages import judge_fault, open_judge_models
from harness.pipeline.trust import Trust, attest_judge, one_error
from harness.ranking.leanings import ProbeResult, leanings_record, learn_leanings
from harness.tournament.group import Rules, brief_task, rules_of
from harness.transcripts.probe_texts import AnswerAtHand, Probe, probes_from

_QUERIES_LOOKED_AT = 200
"""The answers of so many queries, spread evenly, are enough to choose from."""


@dataclass(frozen=True)
class ProbePlan:
    """The probes of a run, and who is asked about them."""

    folder: Path
    trust: Trust
    judging: JudgingPlan
    rubric: Rubric
    probes: list[Probe]
    groups: Mapping[str, Group]
    """By query, those that a probe is of."""

    @property
    def calls(self) -> int:
        """How many verdicts are asked for at most."""
        return 2 * len(self.probes)


@dataclass
class ProbeOutcome:
    """What came of probes."""

    judge: str
    rubric: str
    leanings: JudgeLeanings | None = None
    """None where no probe could be judged in both orders."""
    bought: int = 0
    failed: list[Unjudged] = field(default_factory=list[Unjudged])


async def plan_probes(
    folder: Path, changes: Mapping[str, Any], environ: Mapping[str, str], *, trust_archive: bool = False
) -> ProbePlan:
    """Return what is to be asked of a run's judge, or of the one that `changes` name. Raises as `rescoring` does.

    Raises UsageError for a listwise judge, a jury, and a judge that cannot be asked; NothingRankable for a run without
    an answer.
    """
    with RunReader(folder) as reader:
        trust, plan = await rescoring(reader, changes, environ, RescoreOptions(trust_archive=trust_archive))
        if plan.settings.judge != "pairwise" or not isinstance(plan.rubric, Rubric):
            raise UsageError(f"--probe with {option('judge', plan.settings.judge)}: probes are pairs")
        if len(plan.judge.members) > 1:
            raise UsageError(f"one judge is probed at a time: give one {option('judge_model')}")
        if fault := judge_fault(plan):
            raise fault
        names = list(reader.index.queries)
        count = min(len(names), _QUERIES_LOOKED_AT)
        some = [reader.query(names[at * len(names) // count]) for at in range(count)]
        groups = {query.id: reader.group(query) for query in some if query}
    if not (probes := probes_from(_answers(groups))):
        raise NothingRankable(f"run {folder.name} holds no answer that a probe could be made of")
    used = {probe.of.query for probe in probes}
    kept = {name: group for name, group in groups.items() if name in used}
    return ProbePlan(folder, trust, plan, plan.rubric, probes, kept)


def _answers(groups: Mapping[str, Group]) -> list[AnswerAtHand]:
    """Return the answers in plain text, those of different queries first."""
    answers = [
        AnswerAtHand(name, rollout.index, rollout.trajectory.answer)
        for name, group in groups.items()
        for rollout in group.rollouts
        if rollout.status == "ok" and rollout.trajectory.answer_type == "text"
    ]
    return sorted(answers, key=lambda answer: answer.rollout)


async def judge_probes(plan: ProbePlan, run_env: RunEnvironment) -> ProbeOutcome:
    """Ask the judge about each probe in both orders, and keep the verdicts and the leanings with the run.

    A verdict that the run holds is not bought again. Raises Refused where a call is refused.
    """
    judging, settings = plan.judging, plan.judging.settings
    attest_judge(plan.trust, run_env, [member.base_url for member in judging.judge.members])
    redact = make_redactor(None, plan.trust.without_patterns(settings), run_env.environ)
    rules, ledger, leads = rules_of(settings, judging.judge.counter), PairLedger(), dict[int, ProbeResult]()
    keys = list[str]()
    with RunStore(plan.folder, run_env.clock(), versions=package_versions(), redact=redact) as store:
        ceiling = make_ceiling(settings, judging.judge)
        cache = VerdictCache(store, run_env.progress, (), ceiling, stop=run_env.stop)
        run_env.progress.total("judging", plan.calls, plan.calls)
        with one_error(store, new=False):
            parts = judging.judge, settings, judging.credentials, store, run_env
            async with open_judge_models(*parts, agents=judging.judge_agents) as (model,):
                judge = CachedPairJudge(PairwiseJudge(model, plan.rubric), cache)

                async def ask(numbered: tuple[int, Probe]) -> None:
                    number, probe = numbered
                    verdicts = await _both_orders(judge, ledger, probe, plan.groups[probe.of.query], rules)
                    if all(isinstance(verdict, Judged) for verdict in verdicts):
                        leads[number] = ProbeResult(probe.differences, _lead(verdicts))
                        keys.extend(verdict.key for verdict in verdicts)

                await for_each(enumerate(plan.probes), ask, settings.judge_concurrency)
        failed = [verdict for verdict in ledger.bought.values() if isinstance(verdict, Unjudged)]
        outcome = ProbeOutcome(judging.judge.identity, plan.rubric.label, None, ledger.judged, failed)
        if leads:
            learnt = learn_leanings([leads[number] for number in sorted(leads)])
            outcome.leanings = leanings_record(learnt, 2 * len(leads))
            probed = ProbedJudge(
                at=run_env.clock(),
                judge=outcome.judge,
                rubric=outcome.rubric,
                rendering=plan.rubric.rendering,
                leanings=outcome.leanings,
                verdicts=tuple(sorted(keys)),
            )
            store.add_probed_judge(probed)
            await store.commit()
        return outcome


async def _both_orders(
    judge: CachedPairJudge, ledger: PairLedger, probe: Probe, group: Group, rules: Rules
) -> list[Judged | Unjudged]:
    (rollout,) = (rollout for rollout in group.rollouts if rollout.index == probe.of.rollout)
    probed = [rollout.trajectory.model_copy(update={"answer": text}) for text in (probe.first, probe.second)]
    texts = [rules.form(trajectory, group.query.reference) for trajectory in probed]
    task = brief_task(group, rules)
    return [await judge.get(ledger, task, *shown) for shown in (texts, texts[::-1])]


def _lead(verdicts: list[Any]) -> float:
    """Return what the first text got more than the second, the mean over both orders."""
    in_order, turned = verdicts
    return (in_order.a.combined - in_order.b.combined + turned.b.combined - turned.a.combined) / 2
