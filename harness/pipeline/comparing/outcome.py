"""What a comparison says, from its own folder alone: the same folder always gives the same record."""

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
from harness.comparison.conclusions import compare_queries
from harness.comparison.gate import reasons_to_doubt
from harness.core.comparisons import ComparedQuery, Comparison
from harness.core.errors import UsageError
from harness.core.plurals import counted
from harness.core.wording import call


def comparison_of(reader: ComparisonReader) -> Comparison:
    """Return what a comparison says now, of the queries that are compared so far. Raises UsageError before that."""
    info, newest = reader.info, reader.newest()
    if newest is None:
        raise UsageError(f"comparison {info.id} has compared no query yet; go on with {call('resume', reader.folder)}")
    queries = sorted(newest.queries, key=lambda query: query.query)  # they were written as they came
    sides = newest.head.sides
    said = compare_queries(
        queries,
        sides,
        clusters=clusters_of(queries, info.cluster) if info.cluster else None,
        floors={at: floor for at, floor in enumerate(newest.head.floors) if floor is not None},
        seed=reader.settings.seed,
    )
    lost = reasons_to_doubt(queries, [side.label for side in sides])
    return Comparison(
        comparison=info.id,
        path=str(reader.folder),
        offline=info.offline,
        sides=sides,
        judge=str(info.judge.get("identity") or info.judge.get("model")),
        rubric=info.rubric,
        status="complete" if newest.finished and not newest.incomplete else "incomplete",
        sentence=f"Cannot tell: {'; '.join(lost)}. Of the others: {said.sentence}" if lost else said.sentence,
        results=said.results,
        strengths=said.strengths,
        figures=said.figures,
        slices=said.slices,
        notes=(
            *newest.head.notes,
            *_notes(queries),
            *_failures(reader, queries),
            *_stopped_early(info, len(queries)),
        ),
    )


def clusters_of(queries: Sequence[ComparedQuery], key: str) -> dict[str, str]:
    """Return each query's cluster, by the value of a key of the metadata; one without the key is alone."""
    return {query.query: str(query.metadata[key]) for query in queries if query.metadata.get(key) is not None}


def _stopped_early(info: ComparisonInfo, judged: int) -> Iterator[str]:
    """Say of a gate's comparison that not all queries were judged, because a look told before."""
    if info.early_stop and info.queries and judged < info.queries:
        of = counted(info.queries, "query", "queries")
        yield (
            f"a gate with {counted(info.early_stop.looks, 'look')} judged {judged:,} of {of}; the intervals here are "
            "those of a single look"
        )


def _failures(reader: ComparisonReader, queries: Sequence[ComparedQuery]) -> Iterator[str]:
    """Say why the verdicts failed that open pairs wait for."""
    missing = {key for query in queries for key in query.failed_verdicts}
    newest = {verdict.key: verdict for verdict in reader.verdicts() if verdict.key in missing} if missing else {}
    reasons = Counter(verdict.failure.message for verdict in newest.values() if verdict.status == "failed")
    for reason, count in reasons.most_common(1):
        often = "" if len(reasons) == 1 else f" ({count:,} of them)"
        calls = counted(reasons.total(), "judge call")
        yield f"{calls} failed{', most often' if often else ''}: {reason}{often}"


def _notes(queries: Sequence[ComparedQuery]) -> Iterator[str]:
    differs = sum(query.task_differs for query in queries)
    if differs:
        where = "" if differs == len(queries) else f" on {differs:,} of {counted(len(queries), 'query', 'queries')}"
        yield f"the sides' instructions or tools differ{where}: the judge was shown the query alone"
    left_out = sum(sum(query.left_out) for query in queries)
    if left_out:
        were = counted(left_out, "rollout was", "rollouts were")
        yield f"{were} left out, because the infrastructure failed; `resume` of the run tries again"
