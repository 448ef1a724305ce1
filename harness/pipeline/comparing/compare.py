"""A planned comparison: what it takes; then it is opened or gone on with, judged, and written query by query."""

import re
import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations
from math import comb
from pathlib import Path

import anyio.lowlevel

from harness.archive.comparison_reader import ComparisonHead
from harness.archive.reader import FolderReader, RunReader
from harness.archive.store import ComparisonStore, ComparisonWriter, ReadStore
from harness.comparison.outcomes import INTERVAL_VERSION
from harness.core.comparisons import ComparedQuery
from harness.core.errors import HarnessError, UsageError, counted, first_error, option
from harness.endpoints.costs import CostBounds, total_bounds
from harness.judging.verdict_cache import PairLedger, VerdictCache
from harness.pipeline.comparing import planning
from harness.pipeline.comparing.sides import SIDE_LABELS, SharedQuery, chance_floor, open_sides, shared_group
from harness.pipeline.model_names import models_looked_up, models_of_judge
from harness.pipeline.open_groups import for_each
from harness.pipeline.plan import Prepared, recorded_judge
from harness.pipeline.rescoring import Quote
from harness.pipeline.resolve import judge_cost, make_ceiling, prices_by_name
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.stages import judge_fault
from harness.pipeline.trust import attest_judge, attested, one_error


@dataclass(frozen=True)
class ComparisonQuote(Quote):
    """What a comparison would reuse and buy, and of what."""

    queries: int = 0
    pairs: int = 0
    """Pairs that are compared, the anchors' among them."""
    forfeits: int = 0
    """Those of them that need no judge: a rollout of theirs failed by the agent's own making."""
    rubric: str = ""
    offline: bool = False
    complete: bool = False


async def quote_plan(
    plan: planning.ComparisonPlan,
    readers: Sequence[RunReader],
    reuse_sources: Sequence[FolderReader],
    run_env: RunEnvironment,
) -> ComparisonQuote:
    """Tell what a planned comparison would reuse and buy. Raises UsageError if it would buy and has no key for it."""
    refusal = judge_fault(plan.judging)
    reused, absent, pairs, forfeits = set[str](), set[str](), 0, 0
    try:
        cache = VerdictCache(ReadStore(list(reuse_sources)), free=True)
        async with planning.open_cross_judge(plan.without_calls, cache, run_env) as cross_judge:
            for query in plan.queries:
                await anyio.lowlevel.checkpoint()  # nothing else lets an interrupt in
                ledger, groups = PairLedger(), [shared_group(*at) for at in zip(readers, query.ids, strict=True)]
                compared = await cross_judge(query, groups, ledger, lambda _: "")
                reused |= ledger.reused.keys()
                absent |= {*compared.failed_verdicts}
                pairs += len(compared.matches)
                forfeits += sum(match.forfeit is not None for match in compared.matches)
    except* HarnessError as errors:
        raise first_error(errors) from None
    missing = len(absent)
    if missing and refusal:
        raise refusal
    settings, judge = plan.judging.settings, plan.judging.judge
    return ComparisonQuote(
        reused=len(reused),
        bought=(missing, missing),
        cost=judge_cost(settings, judge, (missing, missing)) if missing else CostBounds(0, 0),
        judge=judge.model,
        judge_places=judge.places,
        prices_by_name=tuple(prices_by_name(settings, judge)) if missing else (),
        queries=len(plan.queries),
        pairs=pairs,
        forfeits=forfeits,
        rubric=plan.judging.rubric.name,
        offline=plan.offline,
        complete=planning.is_complete(plan, run_env),
    )


_LEAST_ROLLOUTS = 2
AnySide = Prepared | Path
"""A side of a comparison: an agent that is to be rolled out, or the folder of a run."""


@dataclass(frozen=True)
class RollOutQuote:
    """What rolling agents out and comparing them takes."""

    queries: int
    agent_runs: int
    judge_calls: tuple[int, int]
    """The fewest, where every rollout fails, and the most, repair turns aside."""
    agent_cost: CostBounds | None
    judge_cost: CostBounds | None
    """USD; None where a price is unknown."""
    places: tuple[tuple[str, str], ...]
    """The label of each side that is rolled out, and where it is asked: model@host."""
    judge: str
    judge_places: str
    rubric: str
    offline: bool

    @property
    def cost(self) -> CostBounds | None:
        """What all of it is taken to cost; None if any price is unknown."""
        return total_bounds(self.agent_cost, self.judge_cost)


async def quote_roll_out(
    sides: Sequence[AnySide], queries: int, run_env: RunEnvironment, options: planning.CompareOptions
) -> RollOutQuote:
    """Tell what comparing sides takes, some of which are agents. Raises UsageError for what cannot be compared."""
    agents = [(SIDE_LABELS[at], side) for at, side in enumerate(sides) if isinstance(side, Prepared)]
    with ExitStack() as opened:
        runs = [opened.enter_context(RunReader(side)) for side in sides if isinstance(side, Path)]
        of_runs = iter(runs)
        judging = (await planning.plan_judging(runs, run_env.environ, options))[1] if runs else agents[0][1]
        samples = [
            side.settings.n - 1
            if isinstance(side, Prepared)
            else max((len(places) for places in next(of_runs).index.rollouts.values()), default=0)
            for side in sides
        ]
        met = sum(min(options.pairs, a * b) + 1 for a, b in combinations(samples, 2))  # of samples, and the anchors'
        calls = 2 * met * judging.settings.judge_repeats * len(judging.judge.members) * queries
    embedded = [label for label, side in agents if side.agent.offline]
    planning.check_offline(embedded, judging.judge, allowed=options.allow_offline)
    if fault := judge_fault(judging):
        raise fault
    for label, side in agents:
        if side.settings.n < _LEAST_ROLLOUTS:
            raise UsageError(
                f"{option('n', side.settings.n)}: side {label} would have no sample to compare, for rollout 0 is the "
                f"anchor; give at least {option('n', _LEAST_ROLLOUTS)}"
            )
    agents_cost: CostBounds | None = CostBounds(0, 0)
    for _, side in agents:
        agents_cost = total_bounds(agents_cost, side.agent_cost(queries))
    return RollOutQuote(
        queries=queries,
        agent_runs=sum(side.settings.n * queries for _, side in agents),
        judge_calls=(0, calls),
        agent_cost=agents_cost,
        judge_cost=judge_cost(judging.settings, judging.judge, (0, calls)),
        places=tuple((label, side.agent.place) for label, side in agents),
        judge=judging.judge.model,
        judge_places=judging.judge.places,
        rubric=judging.rubric.name,
        offline=judging.judge.offline or any(side.agent.offline for _, side in agents),
    )


_FAMILIES = {"chatgpt": "gpt", "o": "gpt", "codex": "gpt", "mixtral": "mistral", "codestral": "mistral"}
"""Names of models that belong to another name's family."""

_VENDOR = re.compile(r"^(ft:|([a-z-]+\.)+(?=[a-z]))")
"""What stands before a model's name: `anthropic.` in `anthropic.claude-5`, `ft:` in that of a fine-tuned model."""


def known_notes(plan: planning.ComparisonPlan, readers: Sequence[RunReader]) -> Iterator[str]:
    """Yield the notes that are known before anything is judged."""
    sides, judge = plan.sides, plan.judging.judge
    infos = [(reader.info, reader.folder / "run.json") for reader in readers]
    judges = [recorded_judge(info.judge, where).identity if info.judge else None for info, where in infos]
    yield from _differing("rubrics", [info.rubric for info, _ in infos], plan.judging.rubric.label)
    yield from _differing("judges", judges, judge.identity)
    for member in judge.members:  # of the family of some sides' models, and not of the others'
        kin = [side.label for side in sides if model_family(member.asked) in map(model_family, side.models)]
        if not member.offline and 0 < len(kin) < len(sides):
            whose = " and ".join(kin)
            yield f"the judge {member.asked} is of the same family as the model of {whose}: judges favour their own"
    for side in sides:
        if side.only_here:
            queries, them = counted(side.only_here, "query", "queries"), "it" if side.only_here == 1 else "them"
            yield f"{queries} of {side.label} left out: not every other side has {them}"
    for reader, side in zip(readers, sides, strict=True):  # rollouts that never ended take no part
        wanted, queries = reader.info.settings.get("n"), reader.index.queries
        ended = sum(len(reader.index.rollouts.get(query, {})) for query in queries)
        missing = (wanted * len(queries) if reader.info.judge and isinstance(wanted, int) else 0) - ended
        if missing > 0:
            left, run = counted(missing, "rollout"), shlex.quote(reader.typed_name)
            yield f"{left} of {side.label} never ended; `harness resume {run}` runs what is missing"


def _differing(what: str, by_side: Sequence[str | None], now: str) -> Iterator[str]:
    if len({*filter(None, by_side)}) > 1:
        each = ", ".join(f"{label}: {name}" for label, name in zip(SIDE_LABELS, by_side, strict=False) if name)
        yield f"the runs have different {what} ({each}); all cross matches are judged with {now}"


def model_family(model: str) -> str:
    """Return the family of a model, by its name: `gpt` of `openai/gpt-5.2` and of `o3-mini`."""
    name = _VENDOR.sub("", model.rsplit("/", 1)[-1].lower())
    begin = re.match(r"[a-z]+", name)
    word = begin.group() if begin else name
    return _FAMILIES.get(word, word)


_QUERIES_AT_LEAST = 8
"""So many are judged at a time, and more where there are more places for judge calls."""


@dataclass(frozen=True)
class ComparisonResult:
    """What a comparison left behind, and what this took now: read it with ComparisonReader(path)."""

    path: Path
    was_complete: bool = False
    """Whether it was there already, with nothing missing."""
    bought: int = 0
    failed: int = 0
    reused: int = 0
    spent: float = 0.0
    """USD that it took now, as far as prices are known."""
    stopped: str | None = None
    """Why it was not brought to an end: --max-cost."""
    given_up: str | None = None
    """Why it was not brought to an end: an endpoint gave no reply."""
    out_of_quota: bool = False
    """Whether a judge's account has nothing left."""

    def with_bought(self, ledger: PairLedger) -> "ComparisonResult":
        """Return the result with what one more query took."""
        failed = [verdict for verdict in ledger.bought.values() if verdict.status == "failed"]
        return replace(
            self,
            bought=self.bought + ledger.judged,
            failed=self.failed + len(failed),
            reused=self.reused + len(ledger.reused),
            out_of_quota=self.out_of_quota or any(verdict.failure.kind == "quota" for verdict in failed),
        )


async def compare_runs(
    folders: Sequence[Path], run_env: RunEnvironment, options: planning.CompareOptions
) -> ComparisonResult:
    """Compare archived runs, buying only the verdicts that are not there; a comparison like it is gone on with."""
    with open_sides(folders) as readers:
        plan = await planning.plan_comparison(readers, run_env.environ, options)
        redact, info = planning.new_comparison(plan, run_env)
        folder = planning.comparison_like(info, plan.options.runs_dir, run_env)
        if folder and planning.is_done(folder, plan.sides):
            return ComparisonResult(folder, was_complete=True)
        with planning.open_verdict_sources(plan, readers, run_env) as reuse_sources:
            if judge_fault(plan.judging):
                await quote_plan(plan, readers, reuse_sources, run_env)  # raises if anything is to be bought
                plan = plan.without_calls
            attest_judge(plan.trust, run_env, [member.base_url for member in plan.judging.judge.members])
            if folder:
                with ComparisonStore(folder, run_env.clock(), versions=package_versions(), redact=redact) as store:
                    return await judge_into(store, plan, readers, reuse_sources, run_env, new=False)
            with ComparisonStore.create(plan.options.runs_dir, info, redact=redact) as store, attested(store, run_env):
                return await judge_into(store, plan, readers, reuse_sources, run_env, new=True)


async def judge_into(
    store: ComparisonStore,
    plan: planning.ComparisonPlan,
    readers: Sequence[RunReader],
    reuse_sources: Sequence[FolderReader],
    run_env: RunEnvironment,
    *,
    new: bool,
) -> ComparisonResult:
    """Judge all shared queries into a file of the comparison, which is finished if nothing stops the work."""
    progress, judging, result = run_env.progress, plan.judging, ComparisonResult(store.folder)
    progress.opened(store.folder)
    ceiling = make_ceiling(judging.settings, judging.judge)
    others = [source for source in reuse_sources if source.folder != store.folder]
    cache = VerdictCache(store, progress, others, ceiling, stop=run_env.stop)
    asked, left = 0, len(plan.queries)
    looked_at: dict[str, ComparedQuery] = {}  # by the interim analyses, where there are any
    with one_error(store, new=new):
        models = models_of_judge(judging.judge, judging.settings, judging.credentials)
        async with (
            models_looked_up(models, run_env, on_refusal=True),
            planning.open_cross_judge(plan, cache, run_env) as judge,
        ):
            pairs = (plan.options.pairs + 1) * comb(len(readers), 2)
            most = 2 * pairs * judge.rules.repeats * len(judge.jury)  # judge calls of a query
            progress.total("judging", 0, left * most)
            with closing(_new_file(store, plan, readers, run_env)) as writer:

                async def work(query: SharedQuery) -> None:
                    nonlocal asked, left, result
                    await anyio.lowlevel.checkpoint()  # where nothing is bought, nothing else lets an interrupt in
                    groups = [shared_group(*at) for at in zip(readers, query.ids, strict=True)]
                    ledger = PairLedger()
                    compared = await judge(query, groups, ledger, store.put_blob)
                    writer.add(compared)
                    if plan.options.early_stop:
                        looked_at[compared.query] = compared
                    left -= 1
                    asked += len(ledger.bought)
                    progress.total("judging", asked, asked + left * most)
                    result = result.with_bought(ledger)

                for part in planning.parts_to_judge(plan, readers[0], looked_at):
                    await for_each(part, work, max(_QUERIES_AT_LEAST, judging.settings.judge_concurrency))
                    if ceiling.stopped or run_env.gates.given_up or run_env.stop.asked:
                        break
                given_up = run_env.gates.given_up
                if not (ceiling.stopped or given_up or run_env.stop.asked):
                    writer.finish()
    out_of_quota = result.out_of_quota or run_env.gates.out_of_quota
    return replace(result, spent=ceiling.spent, stopped=ceiling.stopped, given_up=given_up, out_of_quota=out_of_quota)


def _new_file(
    store: ComparisonStore, plan: planning.ComparisonPlan, readers: Sequence[RunReader], run_env: RunEnvironment
) -> ComparisonWriter:
    at, newest = run_env.clock(), store.reader.newest()
    if newest:  # the newest counts, also if the clock has jumped back
        at = max(at, newest.head.created_at + timedelta(microseconds=1))
    judge, rubric = plan.judging.judge.identity, plan.judging.rubric.label
    return store.open_comparison(
        ComparisonHead(
            id=f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
            created_at=at,
            sides=plan.sides,
            notes=tuple(known_notes(plan, readers)),
            floors=tuple(chance_floor(reader, judge, rubric, plan.options.pairs) for reader in readers),
            interval_version=INTERVAL_VERSION,
        )
    )
