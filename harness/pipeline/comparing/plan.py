"""How runs are going to be compared: which queries, which judge, which rubric; checked before anything is spent."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.archive.reader import RunReader
from harness.comparison.libraries import check_libraries
from harness.core.comparisons import ComparedSide
from harness.core.errors import UsageError
from harness.core.gates import LookRule
from harness.core.wording import option, switch
from harness.pipeline.comparing.pairs import Draw
from harness.pipeline.comparing.sides import MatchedQueries, compared_sides, match_queries
from harness.pipeline.plan import JudgingPlan, RescoreOptions, rescoring
from harness.pipeline.resolve import JudgeSpec
from harness.pipeline.trust import Trust, trust_in_changed

_CROSS = {
    "judge": "pairwise",
    "topology": "arena",
    "order": "both",
    "include": (),
    "exclude": (),
    "judge_batch": False,
}
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
    early_stop: LookRule | None = None
    """With which looks a gate may stop before all queries are judged; None judges all of them."""
    reuse: Sequence[Path] = ()
    """Other runs, whose verdicts are not bought again."""
    allow_offline: bool = False
    """Whether runs on the embedded model, or an embedded judge, are compared."""
    trust_archive: bool = False
    """Whether keys may go wherever the runs say."""


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison that is fully checked and has cost nothing yet."""

    judging: JudgingPlan
    sides: tuple[ComparedSide, ...]
    matched: MatchedQueries
    trust: Trust
    options: CompareOptions

    @property
    def offline(self) -> bool:
        """Whether a side's model or the judge is embedded, so that the result says nothing of any LLM."""
        return self.judging.judge.offline or any(side.offline for side in self.sides)

    @property
    def draw(self) -> Draw:
        """How the pairs are drawn."""
        runs = tuple(side.sha256 for side in self.sides)
        return Draw(self.options.pairs, self.judging.settings.seed, runs)


def plan_comparison(
    readers: Sequence[RunReader], environ: Mapping[str, str], options: CompareOptions
) -> ComparisonPlan:
    """Return how runs are to be compared. Raises UsageError."""
    check_libraries()
    matched = match_queries(readers)
    _check_cluster(readers[0], matched, options.cluster)
    trust, judging = judging_of(readers, environ, options)
    plan = ComparisonPlan(judging, compared_sides(readers, matched), matched, trust, options)
    embedded = [f"{side.label} ({side.run})" for side in plan.sides if side.offline]
    check_offline(embedded, judging.judge, allowed=options.allow_offline)
    return plan


def judging_of(
    readers: Sequence[RunReader], environ: Mapping[str, str], options: CompareOptions
) -> tuple[Trust, JudgingPlan]:
    """Return how the cross matches of runs are judged, and what the run may decide that says so. Raises UsageError."""
    base, changes = judged_as(readers), options.changes
    trust = trust_in_changed(base, changes, environ, trust_archive=options.trust_archive)
    return trust, rescoring(base, {**changes, **_CROSS}, trust, RescoreOptions(trust_archive=options.trust_archive))


def judged_as(readers: Sequence[RunReader]) -> RunReader:
    """Return the run whose judge, rubric and settings hold: the oldest one that has a judge.

    That does not depend on which side was named first.
    """
    by_age = sorted(readers, key=lambda reader: (not reader.info.judge, reader.info.created_at, reader.info.id))
    return by_age[0]


def _check_cluster(reader: RunReader, matched: MatchedQueries, key: str | None) -> None:
    """Refuse a --cluster that no query has in its metadata."""
    if key is None:
        return
    asked = (reader.query(query.ids[0]) for query in matched.queries)
    if not any(query and query.metadata.get(key) is not None for query in asked):
        raise UsageError(f"{option('cluster', key)}: no query that the runs share has this key in its metadata")


def check_offline(embedded: Sequence[str], judge: JudgeSpec, *, allowed: bool) -> None:
    """Refuse sides on the embedded model, or its judge, unless that is allowed. Raises UsageError."""
    if allowed or not (embedded or judge.offline):
        return
    ran = f"{' and '.join(embedded)} {'is' if len(embedded) == 1 else 'are'} on the embedded model"
    what = ran if embedded else "the judge is the embedded one"
    raise UsageError(f"{what}, so that the comparison would say nothing of any LLM: {switch('allow_offline')} compares")


def without_calls(plan: ComparisonPlan) -> ComparisonPlan:
    """Return a plan that lends no key: nothing can be bought."""
    return replace(plan, judging=replace(plan.judging, credentials=plan.judging.credentials.without_calls()))
