"""What an improvement is going to do: its queries, its texts, its judge; checked before anything is spent."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from harness.archive.improve_folder import ImproveFolder
from harness.archive.reader import RunReader
from harness.archive.run_info import list_runs
from harness.comparison.gate import queries_that_show, shown_rate
from harness.core.errors import UsageError, call, counted, on_a_line, option, switch
from harness.core.improvements import ImproveQuote, ImproveRules
from harness.core.records import Query, digest
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.endpoints.costs import CostBounds, total_bounds
from harness.pipeline.comparing.planning import CompareOptions
from harness.pipeline.comparing.sides import check_apart, hash_content, split_off
from harness.pipeline.plan import NamedAddresses, Prepared, as_begun, prepare
from harness.pipeline.proposing import Proposer, texts_of_parts
from harness.pipeline.resolve import JudgeSpec, judge_cost, make_redactor, second_judge
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.trust import agent_of_run, trust_in
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.prompt_parts import joined_parts, split_parts

GATE_PAIRS, TRAIN_PAIRS = 2, 1
"""Cross pairs of samples on each held-out query, and on each training query."""


@dataclass(frozen=True)
class ImprovePlan:
    """An improvement that is fully checked and has cost nothing yet."""

    prepared: Prepared
    """The agent as it is, to be rolled out on training queries."""
    train: tuple[Query, ...]
    held_out: tuple[Query, ...]
    split: bool
    rules: ImproveRules
    root: Mapping[str, str]
    max_cost: float | None
    proposer: Proposer | None = None
    second: JudgeSpec | None = None
    """The gate's second judge."""

    @property
    def settings(self) -> Settings:
        """Those of a candidate's rollouts."""
        return self.prepared.settings

    @property
    def redact(self) -> Redactor:
        """What is applied to all that is kept."""
        return make_redactor(self.prepared.agent.loaded, self.settings, self.prepared.credentials.environ)

    @property
    def key(self) -> str:
        """Names an improvement of the same texts, queries, rules, judge and proposer: the same call goes on with it."""
        asked = [[hash_content(query) for query in queries] for queries in (self.train, self.held_out)]
        rules = self.rules.model_dump(mode="json")
        whom = [self.prepared.judge.identity, self.prepared.rubric.label, self.prepared.agent.place]
        settings, by = [self.settings.n, self.settings.seed], self.proposer
        writer = [] if by is None else [f"{by.__module__}.{getattr(by, '__qualname__', type(by).__qualname__)}"]
        return digest([self.prepared.agent.loaded.name, dict(self.root), asked, rules, whom, settings, *writer])

    @property
    def second_price(self) -> float:
        """What a pair costs at the second judge, in what it does at the first: 0 without one, 1 where it is unknown."""
        judges = self.second or self.prepared.judge, self.prepared.judge
        second, first = (judge_cost(self.settings, each, (0, len(each.members))) for each in judges)
        return (second.high / first.high if second and first and first.high else 1.0) if self.second else 0.0

    def with_parts(
        self, parts: Mapping[str, str], name: str, runs_dir: Path, n: int | None = None, max_cost: float | None = None
    ) -> Prepared:
        """Return the run of a candidate, whose instructions file would be called `name`."""
        agent, settings = self.prepared.agent, self.settings
        given = split_parts(agent.loaded.instructions) if agent.loaded.instructions else {}
        loaded = replace(agent.loaded, instructions=joined_parts({**given, **parts}))
        changes = {"instructions": Path(name), "runs_dir": runs_dir, "n": n or settings.n, "max_cost": max_cost}
        return replace(self.prepared, agent=replace(agent, loaded=loaded), settings=replace(settings, **changes))

    def comparing(self, runs_dir: Path, changes: Mapping[str, Any], pairs: int, **more: Any) -> CompareOptions:
        """Return how two candidates are compared, under `changes` of the settings of their runs."""
        return CompareOptions(runs_dir, changes, pairs=pairs, allow_offline=True, **more)


async def plan_improvement(
    loaded: LoadedAgent,
    settings: Settings,
    train: Sequence[Query],
    held_out: Sequence[Query] | None,
    rules: ImproveRules,
    run_env: RunEnvironment,
    proposer: Proposer | None = None,
) -> ImprovePlan:
    """Check an improvement; without `held_out`, half of the training queries are held out. Raises UsageError."""
    if loaded.app:
        raise UsageError(f"{loaded.name!r} is a function, and its agents are its own: give one of its agents")
    if settings.n < 2:
        raise UsageError(f"{option('n', settings.n)}: give at least {option('n', 2)}, an anchor and a sample")
    split = held_out is None
    train, held_out = split_off(train) if held_out is None else (tuple(train), tuple(held_out))
    _check_queries(train, held_out, split=split)
    prepared = await prepare(loaded, settings, run_env.environ, train[:1])  # refuses a ceiling on what has no price
    of_run = prepared.judge, prepared.settings, prepared.credentials
    second = second_judge(*of_run, rules.gate_judge_model) if rules.gate_judge_model else None
    prepared = replace(prepared, settings=replace(prepared.settings, max_cost=None))
    root = await texts_of_parts(prepared, rules.parts)
    plan = ImprovePlan(prepared, train, held_out, split, rules, root, settings.max_cost, proposer, second)
    if strange := next((q for q in (*train, *held_out) if plan.redact(q.text) != q.text), None):
        raise UsageError(f"query {strange.id!r}: a key, or what {option('redact')} takes out, stands in it")
    return plan


async def plan_as_begun(
    folder: ImproveFolder,
    run_env: RunEnvironment,
    loaded: LoadedAgent | None = None,
    max_cost: float | None = None,
    *,
    trust_archive: bool = False,
) -> ImprovePlan:
    """Return the plan of an improvement that was begun before. Raises UsageError for one that came from elsewhere.

    Agent, addresses and settings are those of its first run, as far as that was made here, or is trusted.
    """
    info, runs = folder.info(), list_runs(folder.runs)
    if not runs:
        raise UsageError(f"{on_a_line(folder.path)} was stopped before its first run: type its command again")
    with RunReader(runs[0]) as reader:
        trust = trust_in(reader, run_env.environ, trust_archive=trust_archive)
        if not trust.is_given:
            raise UsageError(
                f"this machine has no record of having made {on_a_line(runs[0])}, the first run of the improvement: "
                f"{call('resume', folder.path)} runs an agent on its queries with {switch('trust_archive')} alone"
            )
        loaded = loaded or agent_of_run(reader, run_env.environ, "resume")
        begun = await as_begun(reader, None, {}, trust, NamedAddresses())
        texts = reader.info.instructions
    ceiling = info.max_cost if max_cost is None else max_cost
    settings = replace(begun.settings, instructions=None, runs_dir=folder.path.parent, max_cost=ceiling)
    loaded = replace(loaded, instructions=texts)
    plan = await plan_improvement(loaded, settings, info.train, info.held_out, info.rules, run_env)
    if plan.key != info.key:
        raise UsageError(
            f"{on_a_line(folder.path)} cannot be gone on with: its agent, queries, judge or proposer are others now; "
            f"begin anew with {call('improve', loaded.name)}, or name the agent with {option('agent')}"
        )
    return replace(plan, split=info.split)


def _check_queries(train: Sequence[Query], held_out: Sequence[Query], *, split: bool) -> None:
    check_apart(train, held_out)
    if len(held_out) < (least := queries_that_show(0.75, GATE_PAIRS)):
        held = f"{option('queries' if split else 'gate')}: {counted(len(held_out), 'query is', 'queries are')} held out"
        why = f"75 % of the pairs won would show in less than half of the gates: it takes {least}"
        raise UsageError(f"{held}, so that {why}{', and twice that to split' if split else ''}")
    if not train:
        raise UsageError(f"{option('queries')}: no query is left to train on")


def quote_improvement(plan: ImprovePlan) -> ImproveQuote:
    """Tell what an improvement takes. Raises UsageError where the gate alone is taken to cost more than the ceiling."""
    rules, settings, judge = plan.rules, plan.settings, plan.prepared.judge
    per_query = replace(plan.prepared, settings=replace(settings, n=1))
    calls_a_pair = 2 * settings.judge_repeats * len(judge.members)
    pairs = (GATE_PAIRS + 1) * len(plan.held_out)

    def cost(rollouts: float, pairs: float, seconds: int = 0) -> CostBounds | None:
        calls = [(judge, math.ceil(calls_a_pair * pairs)), (plan.second, seconds)]
        judged = [judge_cost(settings, each, (count, count)) for each, count in calls if each]
        return reduce(total_bounds, judged, per_query.agent_cost(math.ceil(rollouts)))

    seconds = 2 * settings.judge_repeats * pairs if plan.second else 0
    (fewest, fewest_pairs), (runs, met) = (each.takes(len(plan.train), settings.n) for each in (rules.least, rules))
    gate = cost(2 * pairs / rules.looks, pairs / rules.looks)
    least, most = cost(fewest + 2 * pairs, fewest_pairs + pairs), cost(runs + 2 * pairs, met + pairs, seconds)
    if gate and plan.max_cost is not None and plan.max_cost < gate.low:
        takes = f"the gate alone takes ${gate.low:.2f} or more, and the search comes before it"
        raise UsageError(f"{option('max_cost', plan.max_cost)}: {takes}; give more, or fewer held-out queries")
    return ImproveQuote(
        train=len(plan.train),
        held_out=len(plan.held_out),
        agent_runs=runs + 2 * pairs,
        judge_calls=calls_a_pair * (met + pairs) + seconds,
        proposals=rules.rounds,
        cost_usd=(least.low, most.high) if least and most else None,
        gate_usd=gate and gate.low,
        seen_gain=shown_rate(len(plan.held_out), GATE_PAIRS),
        judge=", then ".join(each.places for each in (judge, plan.second) if each),
        agent_at=plan.prepared.agent.place,
        offline=plan.prepared.offline,
    )
