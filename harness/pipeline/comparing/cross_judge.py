"""A jury that compares the sides on one query after the other."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from harness.core.comparisons import ComparedQuery
from harness.core.records import Group
from harness.judging.judges import PairwiseJudge
from harness.judging.jury import PairJury, PairLedger
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import CachedPairJudge, VerdictCache
from harness.pipeline.comparing.pairs import Draw, SharedQuery, takes_part
from harness.pipeline.comparing.plan import ComparisonPlan
from harness.pipeline.comparing.sides import compared_rollout
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
from harness.tournament.cross import play_cross, shared_task
from harness.tournament.group import Rules, rules_of


@dataclass(frozen=True)
class CrossJudge:
    """Draws the pairs of a query and has them judged."""

    jury: PairJury
    rules: Rules
    draw: Draw
    task: str | None
    """What the judge is shown in place of the agents' instructions and tools."""

    async def __call__(
        self, query: SharedQuery, groups: Sequence[Group], ledger: PairLedger, keep: Callable[[str], str]
    ) -> ComparedQuery:
        """Compare the sides' rollouts of one query; `keep` keeps the texts. A match without verdicts stays open."""
        pairs = self.draw.of_query(query.content, [group.rollouts for group in groups])
        rollouts = {(at, r.index): r for at, group in enumerate(groups) for r in group.rollouts}
        drawn = dict.fromkeys(place for pair in pairs for place in pair.places)
        texts = {place: self.rules.form(rollouts[place].trajectory) for place in drawn}
        shown = shared_task(groups, self.rules, query.content, self.task)
        played = await play_cross(pairs, rollouts, texts, shown.task, self.jury, ledger, self.rules.repeats)
        taking_part = [[r for r in group.rollouts if takes_part(r)] for group in groups]
        return ComparedQuery(
            query=query.content,
            ids=query.ids,
            text=groups[0].query.text,
            metadata=groups[0].query.metadata,
            rollouts=tuple(
                tuple(compared_rollout(r, texts.get((at, r.index)), keep) for r in side)
                for at, side in enumerate(taking_part)
            ),
            matches=played.matches,
            left_out=tuple(len(group.rollouts) - len(side) for group, side in zip(groups, taking_part, strict=True)),
            failed_verdicts=played.failed_verdicts,
            task_differs=shown.differs,
        )

    def calls(self, pairs: int) -> int:
        """Return how many judge calls so many pairs take, those of all jurors."""
        return 2 * pairs * self.rules.repeats * len(self.jury)


@asynccontextmanager
async def open_cross_judge(
    plan: ComparisonPlan, cache: VerdictCache, run_env: RunEnvironment
) -> AsyncGenerator[CrossJudge]:
    """Give the jury of a comparison, which looks in `cache` before it is asked."""
    judging = plan.judging
    rules = rules_of(judging.settings, judging.judge.counter)
    opening = open_judge_models(judging.judge, judging.settings, judging.credentials, cache.store, run_env)
    async with opening as models:
        rubric = judging.rubric
        assert isinstance(rubric, Rubric), "a comparison is judged in pairs"  # noqa: S101 - for the type checker
        jurors = [CachedPairJudge(PairwiseJudge(model, rubric), cache) for model in models]
        yield CrossJudge(PairJury(jurors, rules.averaging), rules, plan.draw, plan.options.task)
