"""A jury that compares the sides on one query after the other, and the steps between interim analyses."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from harness.archive.reader import RunReader
from harness.comparison.interim import InterimPlan
from harness.core.comparisons import ComparedQuery
from harness.core.records import Group, Query
from harness.judging.judges import PairwiseJudge
from harness.judging.jury import PairJury, PairLedger
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import CachedPairJudge, VerdictCache
from harness.pipeline.comparing.plan import ComparisonPlan
from harness.pipeline.comparing.sides import Draw, SharedQuery, compared_rollout, takes_part
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
from harness.tournament.cross import play_cross, shared_task
from harness.tournament.group import Rules, rules_of


def parts_to_judge(
    plan: ComparisonPlan, reader: RunReader, judged: Mapping[str, ComparedQuery]
) -> Iterator[Sequence[SharedQuery]]:
    """Yield the queries to judge next, until an interim analysis of those `judged` decides or none is left."""
    queries, early_stop = plan.queries, plan.options.early_stop
    if early_stop is None:
        yield queries
        return
    clusters = clusters_by_key(queries_of_run(queries, reader), plan.options.cluster)
    by_content = {query.content: query for query in queries}
    interim = InterimPlan.of([*by_content], early_stop.looks, early_stop.margin, clusters, plan.judging.settings.seed)
    for part in interim.parts:
        yield [by_content[content] for content in part]
        if any(look.finding != "cannot tell" for look in interim.analyses(judged)):
            return


def queries_of_run(queries: Sequence[SharedQuery], reader: RunReader) -> dict[str, Query]:
    """Return shared queries by content, as the first side has them."""
    asked = {query.content: reader.query(query.ids[0]) for query in queries}
    return {content: query for content, query in asked.items() if query}


def clusters_by_key(queries: Mapping[str, Query | ComparedQuery], key: str | None) -> dict[str, str]:
    """Return each query's cluster, by the value of a key of the metadata; one without the key is alone."""
    if key is None:
        return {}
    return {name: str(query.metadata[key]) for name, query in queries.items() if query.metadata.get(key) is not None}


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


@asynccontextmanager
async def open_cross_judge(
    plan: ComparisonPlan, cache: VerdictCache, run_env: RunEnvironment
) -> AsyncGenerator[CrossJudge]:
    """Give the jury of a comparison, which looks in `cache` before it is asked."""
    judging, rubric = plan.judging, plan.judging.rubric
    rules = rules_of(judging.settings, judging.judge.counter)
    async with open_judge_models(judging.judge, judging.settings, judging.credentials, cache.store, run_env) as models:
        assert isinstance(rubric, Rubric), "a comparison is judged in pairs"  # noqa: S101 - for the type checker
        jurors = [CachedPairJudge(PairwiseJudge(model, rubric), cache) for model in models]
        yield CrossJudge(PairJury(jurors, rules.averaging), rules, plan.draw, plan.options.task)
