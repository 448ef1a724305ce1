"""Judging in steps: after each of them a look at what was judged so far, until a look tells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.archive.reader import RunReader
from harness.comparison.look_plan import LookPlan
from harness.core.comparisons import ComparedQuery
from harness.core.records import Query
from harness.pipeline.comparing.pairs import SharedQuery
from harness.pipeline.comparing.plan import ComparisonPlan


@dataclass(frozen=True)
class Steps:
    """The queries of a comparison, part by part; without a plan all at once."""

    queries: Sequence[SharedQuery]
    plan: LookPlan | None
    judged: dict[str, ComparedQuery] = field(default_factory=dict[str, ComparedQuery])
    """What the looks are taken at."""

    def add(self, query: ComparedQuery) -> None:
        """Note what came of a query."""
        if self.plan:
            self.judged[query.query] = query

    def parts(self) -> Iterator[Sequence[SharedQuery]]:
        """Yield what is to be judged next, until a look tells or nothing is left."""
        if self.plan is None:
            yield self.queries
            return
        by_content = {query.content: query for query in self.queries}
        for part in self.plan.parts:
            yield [by_content[content] for content in part]
            if any(look.finding != "cannot tell" for look in self.plan.looks(self.judged)):
                return


def looking_steps(plan: ComparisonPlan, reader: RunReader) -> Steps:
    """Return the steps in which a comparison's queries are judged; `reader` is of the run that has their metadata."""
    queries, options = plan.matched.queries, plan.options
    if options.early_stop is None:
        return Steps(queries, None)
    clusters = clusters_by_key(queries_of_run(queries, reader), options.cluster)
    early_stop, seed = options.early_stop, plan.judging.settings.seed
    contents = [query.content for query in queries]
    return Steps(queries, LookPlan.of(contents, early_stop.looks, early_stop.margin, clusters, seed))


def queries_of_run(queries: Sequence[SharedQuery], reader: RunReader) -> dict[str, Query]:
    """Return shared queries by content, as the first side has them."""
    asked = {query.content: reader.query(query.ids[0]) for query in queries}
    return {content: query for content, query in asked.items() if query}


def clusters_by_key(queries: Mapping[str, Query], key: str | None) -> dict[str, str]:
    """Return each query's cluster, by the value of a key of the metadata; one without the key is alone."""
    if key is None:
        return {}
    return {name: str(query.metadata[key]) for name, query in queries.items() if query.metadata.get(key) is not None}
