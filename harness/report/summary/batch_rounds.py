"""What a judging by batch paid, round after round: each command that collects replies makes a ranking of its own."""

from collections.abc import Iterator

from harness.archive import RankingFile, RankingHead, RunReader
from harness.report.summary.figures import JudgeFigures, paid_figures


def earlier_rounds(reader: RunReader, ranking: RankingFile) -> JudgeFigures:
    """Return what the rounds of batches before a ranking paid; of a ranking that was judged otherwise, nothing."""
    paid = JudgeFigures()
    for earlier in _rounds_before(reader, ranking.head):
        for group in earlier.groups:
            paid += paid_figures(group)
    return paid


def _rounds_before(reader: RunReader, head: RankingHead) -> Iterator[RankingFile]:
    """Yield the rankings that stopped to wait for replies, and that this one went on with; the newest first."""
    heads = reader.heads() if head.settings.get("judge_batch") and not head.free else []
    ids = [other.id for other in heads]
    for other in reversed(heads[: ids.index(head.id)] if head.id in ids else []):
        if other.free:
            continue
        same = (other.judge, other.rubric) == (head.judge, head.rubric) and other.settings.get("judge_batch")
        earlier = reader.ranking(other.id) if same else None
        if earlier is None or earlier.finished:
            return
        yield earlier
