"""A ranking in a list of the rankings of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.typed_records import RankingHead
from harness.core.rounded import sum_if_known
from harness.report.summary.batch_rounds import rounds_json


@dataclass(frozen=True)
class RankingLine:
    """A ranking: when and how it was made, what it came to, and what it took."""

    ranking: str
    created_at: datetime
    judge: str
    rubric: str
    topology: str
    estimator: str
    finished: bool
    """Whether it came to its end; else it was cut short, or is under way."""
    complete: int
    """Queries that are ranked in full."""
    provisional: int
    """Queries whose places, or the probabilities beside these, may change once all groups are in."""
    queries: int
    """Queries of the run."""
    calls: int
    """Model calls paid for in it, repair turns included."""
    judged: int
    """Verdicts bought in it."""
    reused: int
    judge_usd: float | None
    all_rounds: Mapping[str, Any] | None = None
    """What it and the rounds of batches before it took together; None where no such round paid."""

    @property
    def begun(self) -> bool:
        """Whether anything is known of what it took: its file tells that of a query once the query is ranked."""
        return self.finished or any((self.complete, self.calls, self.judged, self.reused))

    def as_json(self) -> dict[str, Any]:
        """Return what `show --rankings --json` prints of it."""
        line = asdict(self) | {"created_at": self.created_at.isoformat()}
        return {name: value for name, value in line.items() if name != "all_rounds" or value is not None}


def ranking_line(reader: RunReader, ranking: RankingFile) -> RankingLine:
    """Return the line of a ranking of a run. Its groups are read, one at a time."""
    head = ranking.head
    calls = judged = reused = 0
    usd: float | None = 0.0
    for group in ranking.groups:
        calls += group.judge_usage.requests
        judged += group.judged
        reused += group.reused
        usd = sum_if_known((usd, group.judge_usd))
    return RankingLine(
        ranking=head.id,
        created_at=head.created_at,
        judge=judge_of(head),
        rubric=head.rubric,
        topology=design_of(ranking, "topology"),
        estimator=design_of(ranking, "estimator"),
        finished=ranking.finished,
        complete=len(ranking.groups) - ranking.incomplete,
        provisional=len(ranking.provisional),
        queries=len(reader.index.queries),
        calls=calls,
        judged=judged,
        reused=reused,
        judge_usd=usd,
        **rounds_json(reader, ranking),
    )


def made_by(ranking: RankingFile) -> str:
    """Return a ranking's judge, its rubric and its estimator, with commas."""
    return f"{judge_of(ranking.head)}, {ranking.head.rubric}, {design_of(ranking, 'estimator')}"


def judge_of(head: RankingHead) -> str:
    """Return what a ranking's judge, or jury, is named in verdict keys; its model in rankings of 0.1.0."""
    return str(head.judge.get("identity") or head.judge.get("model") or "")


def design_of(ranking: RankingFile, name: str) -> str:
    """Return what the first group names, as an anchor that failed changes it, else what the settings name."""
    first = next(iter(ranking.groups), None)
    return str(getattr(first, name) if first else ranking.head.settings.get(name) or "")
