"""What a comparison says, from its own folder alone, and what a gate makes of that."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.reader import RunReader
from harness.comparison import gate
from harness.comparison.conclusions import compare_queries, name_in_backticks
from harness.comparison.interim import FEWEST_CLUSTERS, FEWEST_QUERIES, InterimPlan
from harness.comparison.outcomes import OfOneSize, PairLabels, cluster_name, side_pairs
from harness.core.comparisons import FEWEST_SHOWING, ComparedQuery, Comparison, JudgeCalibration, SideResult
from harness.core.errors import UsageError, call, counted, option, switch
from harness.core.gates import Forecast, GateResult, InterimRule
from harness.core.records import Query
from harness.pipeline.comparing.compare import AnySide
from harness.pipeline.comparing.labels import PeoplesWord, cross_labels
from harness.pipeline.comparing.planning import CompareOptions, clusters_by_key, plan_judging, queries_of_run
from harness.pipeline.comparing.resuming import find_side
from harness.pipeline.comparing.sides import by_content, chance_floor, match_queries, open_sides, orders_within
from harness.pipeline.plan import JudgingPlan, Prepared


def comparison_of(reader: ComparisonReader, people: PeoplesWord | None = None) -> Comparison:
    """Return what a comparison says now, of the queries that are compared so far. Raises UsageError before that.

    `people` are the labels to go by; None: those kept with it.
    """
    return _compared(reader, people or PeoplesWord())[0]


def _compared(reader: ComparisonReader, word: PeoplesWord) -> tuple[Comparison, PairLabels]:
    """Return what a comparison says now, and what people said of its pairs."""
    info, newest = reader.info, reader.newest()
    if newest is None:
        raise UsageError(f"comparison {info.id} has compared no query yet; go on with {call('resume', reader.folder)}")
    queries = sorted(newest.queries, key=lambda query: query.query)  # they were written as they came
    sides = newest.head.sides
    model, _, name = str(info.judge["identity"]).rpartition("@")
    clusters = clusters_by_key({query.query: query for query in queries}, info.cluster)
    if newest.head.interval_version == 1:
        clusters = OfOneSize(clusters)
    given = word.of(reader)
    labels, used = cross_labels(reader, queries, given)
    said = compare_queries(
        queries,
        sides,
        clusters=clusters,
        floors={at: floor for at, floor in enumerate(newest.head.floors) if floor is not None},
        seed=reader.settings.seed,
        judge=name_in_backticks(model or name),
        labels_of_people=labels,
    )
    lost = gate.reasons_to_doubt(queries, [side.label for side in sides])
    comparison = Comparison(
        comparison=info.id,
        path=str(reader.folder),
        offline=info.offline,
        sides=sides,
        judge=str(info.judge["identity"]),
        rubric=info.rubric,
        status="complete" if newest.finished and not newest.incomplete else "incomplete",
        sentence=f"Cannot tell: {'; '.join(lost)}. Of the others: {said.sentence}" if lost else said.sentence,
        results=said.results,
        strengths=said.strengths,
        figures=said.figures,
        slices=said.slices,
        calibration=JudgeCalibration(
            judge=str(info.judge["identity"]),
            rubric=info.rubric,
            rendering=info.rendering,
            labels=used,
            of=len(given),
        )
        if given
        else None,
        notes=(
            *newest.head.notes,
            *_notes(reader, queries, clusters),
            *_of_people(said.results, used, len(given), word.min_agreement),
        ),
    )
    return comparison, labels


def _of_people(results: Sequence[SideResult], used: int, given: int, least: float) -> Iterator[str]:
    if used < given:
        yield f"{used:,} of {counted(given, 'label')} are about two answers that are compared; the others are left out"
    told = [result.people is not None and result.people.rate is not None for result in results]
    if len(results) > 1 and any(told):
        reason = "what people would say" if all(told) else "by the judge's word: labels do not tell of each two sides"
        yield f"the strengths are {reason}"
    for result in results:
        people, a_and_b = result.people, " and ".join(result.sides)
        if people and not people.rate:
            yield (
                f"{counted(people.clusters, 'cluster')} with a label of {a_and_b}: below {FEWEST_SHOWING} they do not "
                "tell what people would say, and the judge's word counts"
            )
        if doubt := gate.contradicted(people, least):
            yield f"{a_and_b}: {doubt}"


def _notes(reader: ComparisonReader, queries: Sequence[ComparedQuery], clusters: Mapping[str, str]) -> Iterator[str]:
    info, count = reader.info, len(queries)
    sizes = Counter(cluster_name(query.query, clusters) for query in queries)
    if isinstance(clusters, OfOneSize) and len({*sizes.values()}) > 1:
        yield "the clusters differ in size, which the intervals leave out, as 0.2.0 did: too narrow; compare again"
    if differs := sum(query.task_differs for query in queries):
        where = "" if differs == count else f" on {differs:,} of {counted(count, 'query', 'queries')}"
        yield f"the sides' instructions or tools differ{where}: the judge was shown the query alone"
    if left_out := sum(sum(query.left_out) for query in queries):
        were = counted(left_out, "rollout was", "rollouts were")
        yield f"{were} left out, because the infrastructure failed; `resume` of the run tries again"
    missing = {key for query in queries for key in query.failed_verdicts}
    newest = {verdict.key: verdict for verdict in reader.verdicts() if verdict.key in missing} if missing else {}
    reasons = Counter(verdict.failure.message for verdict in newest.values() if verdict.status == "failed")
    for reason, times in reasons.most_common(1):
        often = "" if len(reasons) == 1 else f" ({times:,} of them)"
        yield f"{counted(reasons.total(), 'judge call')} failed{', most often' if often else ''}: {reason}{often}"
    if info.early_stop and info.queries and count < info.queries:  # an interim analysis decided before
        yield (
            f"a gate with {counted(info.early_stop.looks, 'look')} judged {count:,} of "
            f"{counted(info.queries, 'query', 'queries')}; the intervals here are those of a single look"
        )


_PAIRS_THAT_SHOW_NOISE = 20


@dataclass(frozen=True)
class GateRules:
    """When a gate lets an agent pass."""

    margin: float = 0.05
    """How far below one half the interval of the win rate may reach."""
    looks: int = 1
    allow_unsure: bool = False
    buy_anew: bool = False

    @property
    def early_stop(self) -> InterimRule | None:
        """What a comparison must know to stop early; None where it may not."""
        return InterimRule(looks=self.looks, margin=self.margin) if self.looks > 1 else None


async def power_check(
    sides: Sequence[AnySide],
    queries: Sequence[Query],
    environ: Mapping[str, str],
    options: CompareOptions,
    rules: GateRules,
) -> Forecast:
    """Return how probably an agent as good as the first side passes. Raises UsageError for a gate that says nothing."""
    if len(sides) != 2:
        raise UsageError(f"a gate takes two sides, the baseline and what must not be worse, not {len(sides)}")
    folders = {at: side for at, side in enumerate(sides) if isinstance(side, Path)}
    with ExitStack() as opened:
        if len(folders) == len(sides):
            runs = dict(enumerate(opened.enter_context(open_sides(folders.values()))))
        else:
            runs = {at: opened.enter_context(RunReader(folder)) for at, folder in folders.items()}
        agent = sides[0] if isinstance(sides[0], Prepared) and not runs else None
        judging = agent or (await plan_judging([*runs.values()], environ, options))[1]
        if judging.judge.offline:
            raise UsageError(
                "no gate: the judge is the embedded one, which says nothing of any LLM; name one with "
                f"{option('judge_model', 'MODEL')}"
            )
        for at, side in enumerate(sides):
            if runs[at].info.agent_offline if at in runs else isinstance(side, Prepared) and side.agent.offline:
                raise UsageError(f"no gate: side {'AB'[at]} is on the embedded model, which says nothing of any LLM")
        asked = _asked(sides, queries, runs)
        clusters = clusters_by_key(asked, options.cluster)
        if len(asked) < FEWEST_QUERIES:
            raise UsageError(
                f"no gate: both sides share {counted(len(asked), 'query', 'queries')}, and a gate takes at least "
                f"{FEWEST_QUERIES}; `harness compare` compares fewer"
            )
        count = len({clusters.get(name, f"\0{name}") for name in asked})
        if options.cluster is not None and count < FEWEST_CLUSTERS:
            raise UsageError(
                f"no gate: {option('cluster', options.cluster)} makes {count} clusters, and a gate takes at least "
                f"{FEWEST_CLUSTERS}"
            )
        if 0 in runs:
            _check_baseline(runs[0], judging, rules)
        plan = InterimPlan.of([*asked], rules.looks, rules.margin, clusters, judging.settings.seed)
        return gate.pass_forecast(
            len(asked),
            rules.margin,
            chance_floor(runs[0], judging.judge.identity, judging.rubric.label, options.pairs) if 0 in runs else None,
            pairs=options.pairs,
            shares=plan.shares,
            sizes=plan.sizes,
        )


def conclude_comparison(
    comparison: Path,
    sides: Sequence[AnySide],
    rules: GateRules,
    forecast: Forecast,
    people: PeoplesWord | None = None,
) -> GateResult | None:
    """Return what a comparison says as a gate; None before its first look. Raises UsageError if verdicts are noise.

    Also where the judge's agreement with people is shown to be below the least. Where people labelled enough, the last
    look goes by them.
    """
    with ComparisonReader(comparison) as reader:
        newest, info = reader.newest(), reader.info
        runs = [
            side if isinstance(side, Path) else find_side(compared, comparison.parent, comparison)
            for side, compared in zip(sides, info.sides, strict=True)
        ]
        judged = {query.query: query for query in newest.queries} if newest else {}
        with open_sides(runs) as readers:
            asked = queries_of_run(match_queries(readers), readers[0])
        clusters = clusters_by_key(asked, info.cluster)
        plan = InterimPlan.of([*asked], rules.looks, rules.margin, clusters, reader.settings.seed)
        if doubt := gate.noise(gate.orders_of([*judged.values()])):
            raise UsageError(f"no gate: {doubt}. The comparison is kept: {comparison}")
        if not (looks := plan.analyses(judged)):
            return None
        queries = [judged[content] for content in sorted(judged)]
        word, planned = people or PeoplesWord(), len(plan.parts)
        said, labels = _compared(reader, word)
        if doubt := gate.contradicted(said.results[0].people, word.min_agreement):
            raise UsageError(f"no gate: {doubt}. The comparison is kept: {comparison}")
        looked_at = {content for part in plan.parts[: len(looks)] for content in part}
        pairs = side_pairs((judged[content] for content in looked_at), (0, 1), labels=labels)
        last = gate.look_by_people(looks[-1], pairs, clusters, rules.margin, alone=planned == 1)
        looks = (*looks[:-1], last)
        return gate.conclude_gate(
            said, queries, looks, forecast, planned_looks=planned, allow_unsure=rules.allow_unsure
        )


def _asked(sides: Sequence[AnySide], queries: Sequence[Query], runs: Mapping[int, RunReader]) -> dict[str, Query]:
    """Return the queries that both sides have, by content. Raises UsageError where two runs share none."""
    if len(runs) == len(sides):
        return queries_of_run(match_queries([*runs.values()]), runs[0])
    asked = {query.id: query for query in queries}
    contents = {content: asked[name] for content, name in by_content(queries).items()}
    of_runs = [by_content(reader.queries()).keys() for reader in runs.values()]
    return {content: query for content, query in contents.items() if all(content in of_run for of_run in of_runs)}


def _check_baseline(baseline: RunReader, judging: JudgingPlan, rules: GateRules) -> None:
    """Refuse a baseline whose own verdicts say that the gate would say nothing."""
    rubrics = {head.rubric for head in baseline.heads() if head.settings.get("topology") != "none"}
    if rubrics and judging.rubric.label not in rubrics and not rules.buy_anew:
        raise UsageError(
            f"no gate: the baseline {baseline.info.id} was judged by {' and '.join(sorted(rubrics))}, and the gate "
            f"would go by {judging.rubric.label}; name the baseline's with {option('rubric', 'FILE')}, or buy all "
            f"verdicts of the gate anew with {switch('buy_anew')}"
        )
    within = orders_within(baseline, judging.judge.identity, judging.rubric.label)
    if within.pairs >= _PAIRS_THAT_SHOW_NOISE and (doubt := gate.noise(within)):
        raise UsageError(f"no gate: in the baseline {baseline.info.id}, {doubt}; take another judge or rubric")
