"""The judge of a calibration is asked: about every pair, in both orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.archive.store import MemoryStore
from harness.core.errors import HarnessError, first_error
from harness.core.progress import Progress
from harness.core.settings import Settings
from harness.doctor.calibration import Calibration, Trial, count_calibration_calls
from harness.doctor.checks import DoctorRequest, printable
from harness.doctor.recorded_pairs import AnyPair, RecordedPair
from harness.endpoints.credentials import Credentials
from harness.judging.judges import PairwiseJudge
from harness.judging.prompt import Task
from harness.judging.rubric import Rubric
from harness.judging.transcript_form import form_of_rendering
from harness.judging.verdict_cache import CachedPairJudge, PairLedger, VerdictCache
from harness.pipeline.open_groups import for_each
from harness.pipeline.resolve import JudgeSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
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
