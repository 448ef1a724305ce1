"""How runs are going to be compared, checked before anything is spent; the jury, and the steps between analyses."""

import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
from harness.archive.reader import FolderReader, RunReader
from harness.archive.run_info import list_comparisons, new_run_id
from harness.comparison.interim import InterimPlan
from harness.core.comparisons import ComparedQuery, ComparedSide
from harness.core.errors import ArchiveDamaged, NeedsUpgrade, UsageError, option, switch
from harness.core.gates import InterimRule
from harness.core.records import Group, Query
from harness.core.redaction import Redactor
from harness.core.settings import as_written
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import PairJury, PairLedger, VerdictCache
from harness.pipeline.comparing.sides import (
    Draw,
    SharedQuery,
    compared_rollout,
    compared_sides,
    match_queries,
    takes_part,
)
from harness.pipeline.judge_inputs import whole_text
from harness.pipeline.plan import JudgingPlan, RescoreOptions, rescoring
from harness.pipeline.resolve import JudgeSpec, make_redactor
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.stages import open_judge_models
from harness.pipeline.trust import Trust
from harness.rollouts.loading import LoadedAgent
from harness.tournament.group import Rules, rules_of
from harness.tournament.pairwise import play_cross, seat_pair_jury, shared_task

_CROSS = {"judge": "pairwise", "topology": "arena", "order": "both", "include": (), "exclude": (), "judge_batch": False}
"""What a comparison needs whatever the runs were ranked by. It asks at once, and not at the price of batches."""


@dataclass(frozen=True)
class CompareOptions:
    """How runs are compared."""

    runs_dir: Path
    """Where the comparison is kept, and where earlier ones are."""
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What today's user sets of the judging and of money; all else is as a run's own settings say."""
    _: KW_ONLY
    pairs: int = 2
    """Cross pairs of samples for each two sides and query."""
    task: str | None = None
    """The task that the judge is shown in place of the agents' instructions and tools."""
    cluster: str | None = None
    """The key of the metadata by which queries are alike."""
    early_stop: InterimRule | None = None
    """With which looks a gate may stop before all queries are judged; None judges all of them."""
    reuse: Sequence[Path] = ()
    allow_offline: bool = False
    trust_archive: bool = False
    """Whether keys may go wherever the runs say."""
    only: frozenset[str] | None = None
    """The ids, on the first side, of the queries to compare; None: all that are shared."""
    judge_agents: Sequence[LoadedAgent] = ()
    """The agents that judge, where they are given as objects."""


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison that is fully checked and has cost nothing yet."""

    judging: JudgingPlan
    sides: tuple[ComparedSide, ...]
    queries: Sequence[SharedQuery]
    trust: Trust
    options: CompareOptions

    @property
    def offline(self) -> bool:
        """Whether a side's model or the judge is embedded, so that the result says nothing of any LLM."""
        return self.judging.judge.offline or any(side.offline for side in self.sides)

    @property
    def without_calls(self) -> Self:
        """The plan without keys: nothing can be bought."""
        return replace(self, judging=replace(self.judging, credentials=self.judging.credentials.without_calls()))

    @property
    def draw(self) -> Draw:
        """How the pairs are drawn."""
        runs = tuple(side.sha256 for side in self.sides)
        return Draw(self.options.pairs, self.judging.settings.seed, runs)


async def plan_comparison(
    readers: Sequence[RunReader], environ: Mapping[str, str], options: CompareOptions
) -> ComparisonPlan:
    """Return how runs are to be compared. Raises UsageError."""
    queries = match_queries(readers)
    if options.only is not None:
        queries = [query for query in queries if query.ids[0] in options.only]
    if options.cluster is not None:
        asked = (readers[0].query(query.ids[0]) for query in queries)
        if not any(query and query.metadata.get(options.cluster) is not None for query in asked):
            raise UsageError(
                f"{option('cluster', options.cluster)}: no query that the runs share has this key in its metadata"
            )
    trust, judging = await plan_judging(readers, environ, options)
    plan = ComparisonPlan(judging, compared_sides(readers, queries), queries, trust, options)
    embedded = [f"{side.label} ({side.run})" for side in plan.sides if side.offline]
    check_offline(embedded, judging.judge, allowed=options.allow_offline)
    return plan


async def plan_judging(
    readers: Sequence[RunReader], environ: Mapping[str, str], options: CompareOptions
) -> tuple[Trust, JudgingPlan]:
    """Return how the cross matches of runs are judged, and what the run may decide that says so. Raises UsageError."""
    # that of the oldest run that has a judge, whichever side was named first
    base = min(readers, key=lambda reader: (not reader.info.judge, reader.info.created_at, reader.info.id))
    how = RescoreOptions(trust_archive=options.trust_archive, judge_agents=options.judge_agents)
    return await rescoring(base, {**options.changes, **_CROSS}, environ, how)


def check_offline(embedded: Sequence[str], judge: JudgeSpec, *, allowed: bool) -> None:
    """Refuse sides on the embedded model, or its judge, unless that is allowed. Raises UsageError."""
    if allowed or not (embedded or judge.offline):
        return
    ran = f"{' and '.join(embedded)} {'is' if len(embedded) == 1 else 'are'} on the embedded model"
    what = ran if embedded else "the judge is the embedded one"
    raise UsageError(f"{what}, so that the comparison would say nothing of any LLM: {switch('allow_offline')} compares")


_SAME_SETTINGS = (
    *("judge_budget", "judge_repeats", "jury", "show_instructions", "require_citations", "judge_agent_when", "seed"),
)
"""Settings that decide what is judged; the others decide how fast and how dear."""


def new_comparison(plan: ComparisonPlan, run_env: RunEnvironment) -> tuple[Redactor, ComparisonInfo]:
    """Describe a comparison that begins now; and return what redacts its records."""
    redact = make_redactor(None, plan.trust.without_patterns(plan.judging.settings), run_env.environ)
    judging, at, options = plan.judging, run_env.clock(), plan.options
    judge = {"identity": judging.judge.identity, "counter": judging.judge.counter}
    shown = "file" if options.task is not None else "agent" if judging.settings.show_instructions else "nothing"
    return redact, ComparisonInfo(
        schema_version=1,
        id=new_run_id("compare", at, secrets.token_hex(8)),
        created_at=at,
        sides=plan.sides,
        settings=as_written(judging.settings),
        judge=judging.judge.model_dump(mode="json") | judge,
        rubric=judging.rubric.label,
        rubric_text=whole_text(judging.rubric.source, redact),
        rendering=judging.rubric.rendering,
        task_from=shown,
        task=whole_text(options.task, redact),
        pairs=options.pairs,
        cluster=options.cluster,
        early_stop=options.early_stop,
        offline=plan.offline,
        queries=len(plan.queries),
        versions=package_versions(),
    )


def comparison_like(info: ComparisonInfo, runs_dir: Path, run_env: RunEnvironment) -> Path | None:
    """Return the newest comparison of the same runs, in their order, that is judged in the same way; None without."""
    wanted = _kind(info)
    if info.task_from == "file" and info.task is None:
        return None  # which text it was is not kept
    alike = [reader.folder for reader in _comparisons(runs_dir, run_env) if _kind(reader.info) == wanted]
    return alike[-1] if alike else None


def _kind(info: ComparisonInfo) -> Mapping[str, JsonValue]:
    kept = {"rubric", "rendering", "task_from", "task", "pairs", "cluster", "early_stop"}
    return {
        **info.model_dump(mode="json", include=kept),
        "sides": [[side.run, side.sha256] for side in info.sides],
        "judge": [info.judge.get("identity"), info.judge.get("counter")],
        "settings": [info.settings.get(name) for name in _SAME_SETTINGS],
    }


def is_complete(plan: ComparisonPlan, run_env: RunEnvironment) -> bool:
    """Tell whether the comparison that is planned is there already, with nothing missing."""
    _, info = new_comparison(plan, run_env)
    folder = comparison_like(info, plan.options.runs_dir, run_env)
    return folder is not None and is_done(folder, plan.sides)


def is_done(folder: Path, sides: Sequence[ComparedSide]) -> bool:
    """Tell whether a comparison is whole, and rests on the sides as they are now."""
    with ComparisonReader(folder) as reader:
        newest = reader.newest()
        return newest is not None and newest.finished and not newest.incomplete and newest.head.sides == tuple(sides)


@contextmanager
def open_verdict_sources(
    plan: ComparisonPlan, readers: Sequence[RunReader], run_env: RunEnvironment
) -> Generator[list[FolderReader]]:
    """Open what holds verdicts that need not be bought again: earlier comparisons of these runs, --reuse, the runs."""
    runs = {side.sha256 for side in plan.sides}
    with ExitStack() as opened:
        reuse_sources: list[FolderReader] = [
            opened.enter_context(reader)
            for reader in _comparisons(plan.options.runs_dir, run_env)
            if len(runs.intersection(side.sha256 for side in reader.info.sides)) > 1
        ]
        reuse_sources += [opened.enter_context(RunReader(folder)) for folder in plan.options.reuse]
        for source in reuse_sources:
            _ = source.index  # damage is found before anything is spent
        yield [*reuse_sources, *readers]


def _comparisons(runs_dir: Path, run_env: RunEnvironment) -> Iterator[ComparisonReader]:
    """Yield the comparisons in a folder of runs, the oldest first; one that cannot be read is noted and passed over."""
    for folder in list_comparisons(runs_dir):
        try:
            reader = ComparisonReader(folder)
        except (ArchiveDamaged, NeedsUpgrade) as exc:
            run_env.progress.note(f"passed over: {exc}")
            continue
        yield reader


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
        texts = {
            place: self.rules.form(rollouts[place].trajectory, groups[place[0]].query.reference) for place in drawn
        }
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
    rules = rules_of(judging.settings, judging.judge.counter, rubric.rendering)
    parts = judging.judge, judging.settings, judging.credentials, cache.store, run_env
    async with open_judge_models(*parts, agents=None if cache.free else judging.judge_agents) as models:
        assert isinstance(rubric, Rubric), "a comparison is judged in pairs"  # noqa: S101 - for the type checker
        jury = seat_pair_jury(models, rubric, cache, rules).jury
        yield CrossJudge(jury, rules, plan.draw, plan.options.task)
