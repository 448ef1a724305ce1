"""A planned comparison is opened or gone on with, its verdicts are bought, and it is written down query by query."""

import re
import secrets
import shlex
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import comb
from pathlib import Path

import anyio.lowlevel

from harness.archive.comparison_reader import ComparisonHead
from harness.archive.reader import FolderReader, RunReader
from harness.archive.run_store import ComparisonStore, ComparisonWriter
from harness.core.comparisons import ComparedSide
from harness.core.progress import Progress
from harness.core.wording import counted
from harness.judging.jury import PairLedger
from harness.judging.verdict_cache import VerdictCache
from harness.pipeline.comparing.cross_judge import looking_steps, open_cross_judge
from harness.pipeline.comparing.plan import (
    CompareOptions,
    ComparisonPlan,
    comparison_like,
    is_done,
    new_comparison,
    open_verdict_sources,
    plan_comparison,
    without_calls,
)
from harness.pipeline.comparing.quote import quote_plan
from harness.pipeline.comparing.sides import SIDE_LABELS, SharedQuery, chance_floors, open_sides, shared_group
from harness.pipeline.costs import make_ceiling
from harness.pipeline.cut_short import one_error
from harness.pipeline.open_groups import for_each
from harness.pipeline.plan import recorded_judge
from harness.pipeline.resolve import JudgeSpec
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.stages import judge_fault
from harness.pipeline.trust import attest_judge, attested

_FAMILIES = {"chatgpt": "gpt", "o": "gpt", "codex": "gpt", "mixtral": "mistral", "codestral": "mistral"}
"""Names of models that belong to another name's family."""

_VENDOR = re.compile(r"^(ft:|([a-z-]+\.)+(?=[a-z]))")
"""What stands before a model's name: `anthropic.` in `anthropic.claude-5`, `ft:` in that of a fine-tuned model."""


def known_notes(
    readers: Sequence[RunReader], sides: Sequence[ComparedSide], judge: JudgeSpec, rubric: str
) -> Iterator[str]:
    """Yield the notes that are known before anything is judged."""
    judges: dict[str, str | None] = {}
    for reader in readers:
        info, where = reader.info, reader.folder / "run.json"
        judges[info.id] = recorded_judge(info.judge, where).identity if info.judge else None
    yield from _differing("rubrics", {reader.info.id: reader.info.rubric for reader in readers}, rubric)
    yield from _differing("judges", judges, judge.identity)
    for member in judge.members:  # of the family of some sides' models, and not of the others'
        family = model_family(member.model)
        kin = [side.label for side in sides if family in {model_family(model) for model in side.models}]
        if not member.offline and 0 < len(kin) < len(sides):
            whose = " and ".join(kin)
            yield f"the judge {member.model} is of the same family as the model of {whose}: judges favour their own"
    for side in sides:
        if side.only_here:
            queries, them = counted(side.only_here, "query", "queries"), "it" if side.only_here == 1 else "them"
            yield f"{queries} of {side.label} left out: not every other side has {them}"
    yield from _unfinished(readers, sides)


def _differing(what: str, by_run: Mapping[str, str | None], now: str) -> Iterator[str]:
    """Say that the runs were ranked by different judges or rubrics, and how the cross matches are judged."""
    named = [name for name in by_run.values() if name]
    if len(set(named)) > 1:
        each = ", ".join(f"{label}: {name}" for label, name in zip(SIDE_LABELS, by_run.values(), strict=False) if name)
        yield f"the runs have different {what} ({each}); all cross matches are judged with {now}"


def model_family(model: str) -> str:
    """Return the family of a model, by its name: `gpt` of `openai/gpt-5.2` and of `o3-mini`."""
    name = _VENDOR.sub("", model.rsplit("/", 1)[-1].lower())
    begin = re.match(r"[a-z]+", name)
    word = begin.group() if begin else name
    return _FAMILIES.get(word, word)


def _unfinished(readers: Sequence[RunReader], sides: Sequence[ComparedSide]) -> Iterator[str]:
    """Say of which runs rollouts never ended, so that they take no part."""
    for reader, side in zip(readers, sides, strict=True):
        wanted, queries = reader.info.settings.get("n"), reader.index.queries
        ended = sum(len(reader.index.rollouts.get(query, {})) for query in queries)
        missing = (wanted * len(queries) if reader.info.judge and isinstance(wanted, int) else 0) - ended
        if missing > 0:
            rollouts = counted(missing, "rollout")
            run = shlex.quote(reader.typed_name)
            yield f"{rollouts} of {side.label} never ended; `harness resume {run}` runs what is missing"


_QUERIES_AT_LEAST = 8
"""So many are judged at a time, and more where there are more places for judge calls."""


@dataclass(frozen=True)
class ComparisonResult:
    """What a comparison left behind, and what this took now: read it with ComparisonReader(path)."""

    path: Path
    was_complete: bool = False
    """Whether it was there already, with nothing missing."""
    bought: int = 0
    """Verdicts that were bought now and came out."""
    failed: int = 0
    """Verdicts that were asked for now and failed."""
    reused: int = 0
    """Verdicts that were there before."""
    spent: float = 0.0
    """USD that it took now, as far as prices are known."""
    stopped: str | None = None
    """Why it was not brought to an end: --max-cost."""
    given_up: str | None = None
    """Why it was not brought to an end: an endpoint gave no reply."""
    out_of_quota: bool = False
    """Whether a judge's account has nothing left."""


async def compare_runs(folders: Sequence[Path], run_env: RunEnvironment, options: CompareOptions) -> ComparisonResult:
    """Compare archived runs on the queries that they share, buying only the verdicts that are not there.

    The runs are read, never written to. A comparison of the same runs, judged in the same way, is gone on with; with
    nothing missing of it nothing is written. Raises UsageError, Refused, CannotWrite, ArchiveLocked, ArchiveDamaged.
    """
    with open_sides(folders) as readers:
        plan = plan_comparison(readers, run_env.environ, options)
        return await compare_planned(plan, readers, run_env)


async def compare_planned(
    plan: ComparisonPlan, readers: Sequence[RunReader], run_env: RunEnvironment
) -> ComparisonResult:
    """Do what is planned, in the comparison that is there already or in a new one. Raises as `compare_runs`."""
    redact, info = new_comparison(plan, run_env)
    folder = comparison_like(info, plan.options.runs_dir, run_env)
    if folder and is_done(folder, plan.sides):
        return ComparisonResult(folder, was_complete=True)
    with open_verdict_sources(plan, readers, run_env) as reuse_sources:
        if judge_fault(plan.judging):
            await quote_plan(plan, readers, reuse_sources, run_env)  # raises if anything is to be bought
            plan = without_calls(plan)
        attest_judge(plan.trust, run_env, [member.base_url for member in plan.judging.judge.members])
        if folder:
            at, versions = run_env.clock(), package_versions()
            with ComparisonStore(folder, at, versions=versions, redact=redact) as store:
                return await judge_into(store, plan, readers, reuse_sources, run_env, new=False)
        with (
            ComparisonStore.create(plan.options.runs_dir, info, redact=redact) as store,
            attested(store, run_env),
        ):
            return await judge_into(store, plan, readers, reuse_sources, run_env, new=True)


@dataclass
class _Tally:
    """What the queries took so far; the bounds of all judge calls, which close in, are reported to the watcher."""

    progress: Progress
    left: int
    """Queries."""
    most: int = 0
    """Judge calls of a query."""
    asked: int = 0
    bought: int = 0
    failed: int = 0
    reused: int = 0
    out_of_quota: bool = False

    def report(self) -> None:
        self.progress.total("judging", self.asked, self.asked + self.left * self.most)

    def add(self, ledger: PairLedger) -> None:
        self.left -= 1
        self.asked += len(ledger.bought)
        self.report()
        self.bought += ledger.judged
        self.reused += len(ledger.reused)
        failed = [verdict for verdict in ledger.bought.values() if verdict.status == "failed"]
        self.failed += len(failed)
        self.out_of_quota |= any(verdict.failure.kind == "quota" for verdict in failed)


async def judge_into(
    store: ComparisonStore,
    plan: ComparisonPlan,
    readers: Sequence[RunReader],
    reuse_sources: Sequence[FolderReader],
    run_env: RunEnvironment,
    *,
    new: bool,
) -> ComparisonResult:
    """Judge all shared queries into a file of the comparison, which is finished if nothing stops the work."""
    run_env.progress.opened(store.folder)
    judging, tally = plan.judging, _Tally(run_env.progress, len(plan.matched.queries))
    steps = looking_steps(plan, readers[0])
    ceiling = make_ceiling(judging.settings, judging.judge)
    others = [source for source in reuse_sources if source.folder != store.folder]
    cache = VerdictCache(store, run_env.progress, others, ceiling, stop=run_env.stop)
    with one_error(store, new=new):
        async with open_cross_judge(plan, cache, run_env) as judge:
            tally.most = judge.calls((plan.options.pairs + 1) * comb(len(readers), 2))
            tally.report()
            with _file(store, plan, readers, run_env) as writer:

                async def work(query: SharedQuery) -> None:
                    await anyio.lowlevel.checkpoint()  # where nothing is bought, nothing else lets an interrupt in
                    groups = [shared_group(*at) for at in zip(readers, query.ids, strict=True)]
                    ledger = PairLedger()
                    compared = await judge(query, groups, ledger, store.put_blob)
                    writer.add(compared)
                    steps.add(compared)
                    tally.add(ledger)

                for part in steps.parts():
                    await for_each(part, work, max(_QUERIES_AT_LEAST, judging.settings.judge_concurrency))
                    if ceiling.stopped or run_env.gates.given_up or run_env.stop.asked:
                        break
                given_up = run_env.gates.given_up
                if not (ceiling.stopped or given_up or run_env.stop.asked):
                    writer.finish()
    return ComparisonResult(
        store.folder,
        bought=tally.bought,
        failed=tally.failed,
        reused=tally.reused,
        spent=ceiling.spent,
        stopped=ceiling.stopped,
        given_up=given_up,
        out_of_quota=tally.out_of_quota,
    )


@contextmanager
def _file(
    store: ComparisonStore, plan: ComparisonPlan, readers: Sequence[RunReader], run_env: RunEnvironment
) -> Generator[ComparisonWriter]:
    """Open a file of the comparison, which is on disk with its first verdict or query."""
    at, newest = run_env.clock(), store.reader.newest()
    if newest:  # the newest counts, also if the clock has jumped back
        at = max(at, newest.head.created_at + timedelta(microseconds=1))
    judge, rubric = plan.judging.judge, plan.judging.rubric.label
    writer = store.open_comparison(
        ComparisonHead(
            id=f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
            created_at=at,
            sides=plan.sides,
            notes=tuple(known_notes(readers, plan.sides, judge, rubric)),
            floors=chance_floors(readers, judge.identity, rubric, plan.options.pairs),
        )
    )
    try:
        yield writer
    finally:
        writer.close()
