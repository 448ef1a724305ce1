"""What a judging by batch paid, round after round: each command that collects replies makes a ranking of its own."""

from collections.abc import Iterator
from typing import Any

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.archive.typed_records import RankingHead
from harness.report.summary.figures import JudgeFigures, paid_figures


def rounds_json(reader: RunReader, ranking: RankingFile) -> dict[str, Any]:
    """Return as `all_rounds` what a ranking and the rounds of batches before it paid; nothing where none paid."""
    before = earlier_rounds(reader, ranking)
    if not before.calls:
        return {}
    paid = before + _paid(ranking)
    return {"all_rounds": {"calls": paid.calls, "judged": paid.bought, "tokens": paid.tokens, "usd": paid.usd}}


def earlier_rounds(reader: RunReader, ranking: RankingFile) -> JudgeFigures:
    """Return what the rounds of batches before a ranking paid; of a ranking that was judged otherwise, nothing."""
    return sum(map(_paid, _rounds_before(reader, ranking.head)), JudgeFigures())


def _paid(ranking: RankingFile) -> JudgeFigures:
    """Return what was bought for a ranking. Its groups are read, one at a time."""
    return sum(map(paid_figures, ranking.groups), JudgeFigures())


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
