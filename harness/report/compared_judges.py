"""How far to believe the judges of a comparison: the same figures as of a ranking, over the cross matches."""

from collections.abc import Iterator

from harness.archive.comparison_reader import ComparisonFile, ComparisonReader
from harness.core.comparisons import ComparedQuery, CrossMatch
from harness.core.rankings import GroupRanking, Match
from harness.ranking.judge_stats.tally import Tally, judge_calls, tally
from harness.report.judge_quality import JudgeQuality, failures, judge_quality
from harness.report.summary.figures import Tallies, add_tallies

_Place = tuple[int, int]


def compared_qualities(reader: ComparisonReader, file: ComparisonFile) -> list[JudgeQuality]:
    """Return what is to be said of every judge of a comparison. Raises ArchiveDamaged."""
    open_keys: set[str] = set()
    parts: list[Tallies] = []
    for query in file.queries:
        parts.append(_tallies(reader, query))
        open_keys.update(query.failed_verdicts)
    sums = add_tallies([*parts, failures(reader, open_keys)])
    return [judge_quality(judge, reader.info.rubric, sums[judge], "both") for judge in sums]


def _tallies(reader: ComparisonReader, query: ComparedQuery) -> dict[str, Tally]:
    places = [(side, rollout.index) for side, listed in enumerate(query.rollouts) for rollout in listed]
    numbers = {place: number for number, place in enumerate(places)}
    matches = tuple(_as_match(match, numbers) for match in query.matches if match.score_first is not None)
    judged = (verdict for match in matches for key in match.verdicts if (verdict := reader.verdict(key)))
    calls = judge_calls(_as_ranking(query, matches), judged, dict(_answer_words(reader, query, numbers)))
    return {judge: tally(of_judge) for judge, of_judge in calls.items()}


def _as_ranking(query: ComparedQuery, matches: tuple[Match, ...]) -> GroupRanking:
    """Return a query's cross matches as the group that the figures of judges are made of."""
    return GroupRanking(query=query.query, topology="", estimator="", status="complete", signal="ok", matches=matches)


def _as_match(match: CrossMatch, numbers: dict[_Place, int]) -> Match:
    first, second = numbers[match.sides[0], match.first], numbers[match.sides[1], match.second]
    shown = [side == "first" for side in match.shown_first]
    return Match(
        round=0,
        a=first,
        b=second,
        verdicts=match.verdicts,
        shown_first=tuple(first if is_first else second for is_first in shown),
        score_a=match.score_first or 0.0,
        score_b=match.score_second or 0.0,
        winner={"first": first, "second": second}.get(match.winner or ""),
        flipped=match.flipped,
        inconsistent=match.inconsistent,
        scores=tuple((a, b) if is_first else (b, a) for is_first, (a, b) in zip(shown, match.scores, strict=True)),
    )


def _answer_words(
    reader: ComparisonReader, query: ComparedQuery, numbers: dict[_Place, int]
) -> Iterator[tuple[int, int]]:
    for side, listed in enumerate(query.rollouts):
        for rollout in listed:
            if rollout.answer_blob:
                yield numbers[side, rollout.index], len(reader.blobs.get(rollout.answer_blob).split())
