"""A run as an export reads it: one ranked group at a time, its rollouts' calls as turns when they are asked for."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.errors import NothingRankable, UsageError
from harness.core.rankings import GroupRanking
from harness.core.records import Rollout
from harness.core.sampled_tokens import SampledTokens
from harness.core.wording import call
from harness.formats.kept_turns import unpack_turns
from harness.formats.training.candidates import RankedGroup
from harness.formats.training.card import ExportedRun
from harness.formats.turns import Turn, recorded_turns
from harness.report.judge_quality import judge_qualities
from harness.report.summary.notes import provisional_words
from harness.report.summary.pooled_fit import pair_odds
from harness.report.summary.ranking import by_signal, group_of, is_offline, summarize
from harness.report.summary.rankings import design_of
from harness.rollouts.raw import unpack, unpack_tokens

_TEXTS = 64
"""Long texts that are kept at hand: the rollouts of a group have system prompts and tools in common."""


def ranking_to_export(
    reader: RunReader, ranking_id: str | None, *, unranked: bool, allow_offline: bool
) -> RankingFile | None:
    """Return the ranking to export; None of a run without one, if `unranked`. Raises NothingRankable, UsageError."""
    is_ranked, name = reader.newest_head() is not None, reader.typed_name
    if not (is_ranked or unranked):
        how = call("resume", name) if reader.info.judge else call("rescore", name, judge_model="MODEL")
        raise NothingRankable(f"run {reader.info.id} has no ranking to export; make one with {how}")
    ranking = reader.ranking(ranking_id) if is_ranked or ranking_id else None
    if ranking and ranking.head.settings.get("topology") == "none":
        if not unranked:
            how = call("rescore", name, topology="arena")
            raise NothingRankable(f"run {reader.info.id} was not judged (--topology none); judge it with {how}")
        ranking = None
    if not allow_offline and (is_offline(reader, ranking) if ranking else reader.info.agent_offline):
        raise UsageError(
            f"run {reader.info.id} is a self-test on the embedded offline parts, and teaches nothing; "
            "--allow-offline exports it all the same"
        )
    return ranking


def described_run(reader: RunReader, ranking: RankingFile | None) -> ExportedRun:
    """Return what the card says of a run."""
    info = reader.info
    if ranking is None:
        nothing = {"ranking": "none", "judge": "none", "rubric": "none"}
        agent, offline = info.agent, info.agent_offline
        return ExportedRun(info.id, agent=agent, **nothing, offline=offline, finished=True, signals={}, figures=())
    summary = summarize(reader, ranking)
    qualities = judge_qualities(reader, ranking, summary)
    several = len(qualities) > 1
    return ExportedRun(
        id=info.id,
        ranking=ranking.head.id,
        agent=info.agent,
        judge=_judge(ranking),
        rubric=ranking.head.rubric,
        offline=is_offline(reader, ranking),
        finished=ranking.finished,
        provisional=provisional_words(design_of(ranking, "estimator"), provisional=bool(ranking.provisional)),
        signals=by_signal(summary.signals),
        figures=[(f"{q.judge}: {f.label}" if several else f.label, f.value) for q in qualities for f in q.figures],
        warnings=[warning for quality in qualities for warning in quality.warnings],
    )


def groups_of(reader: RunReader, ranking: RankingFile | None, *, unranked: bool) -> Iterator[RankedGroup]:
    """Yield the ranked groups of a run in the order of its queries, with `unranked` all. Raises ArchiveDamaged."""
    odds = pair_odds(ranking) if ranking else None
    both_orders = ranking is not None and ranking.head.settings.get("order") == "both"
    for name in list(reader.index.queries):
        ranked = ranking.of(name) if ranking else None
        if not (ranked or unranked) or not (query := reader.query(name)):
            continue
        if ranking and ranked and odds:
            flagged, cut = set[int](), set[int]()  # in a verdict; for a judge, who did not see it whole
            for match in ranked.matches:
                for key, first in zip(match.verdicts, match.shown_first, strict=False):
                    if not match.repeated and (verdict := reader.verdict(key)):
                        second = match.b if first == match.a else match.a
                        flagged |= {at for at, scores in ((first, verdict.a), (second, verdict.b)) if scores.flags}
                        cut |= {at for at, side in ((first, "A"), (second, "B")) if side in verdict.cut}
            group, judge = group_of(reader, query, ranked), ranked.judge or _judge(ranking)
            marks = frozenset(flagged), frozenset(cut)
            yield RankedGroup(reader.info.id, group, ranked, judge, both_orders, *marks, odds)
        else:
            nothing = GroupRanking(query=name, topology="none", estimator="none", status="incomplete", signal="none")
            yield RankedGroup(reader.info.id, reader.group(query), nothing, "none", both_orders)


def turns_from(reader: RunReader) -> Callable[[Rollout], Sequence[Turn]]:
    """Return what reads a rollout's calls as turns; none where no calls are recorded."""
    get, api = lru_cache(_TEXTS)(reader.blobs.get), reader.info.agent_api

    def turns(rollout: Rollout) -> Sequence[Turn]:
        if rollout.turns:
            return unpack_turns(reader.blobs.get(rollout.turns), reader.blobs.place(rollout.turns))
        if not rollout.raw_calls:
            return ()
        where = reader.blobs.place(rollout.raw_calls)  # as a text only in an error: to count its lines takes long
        calls = unpack(reader.blobs.get(rollout.raw_calls), get, where)
        tokens: Sequence[SampledTokens | None] = ()
        if name := rollout.sampled_tokens:
            tokens = unpack_tokens(reader.blobs.get(name), reader.blobs.place(name))
        return recorded_turns(calls, rollout.calls, api, tokens)

    return turns


def _judge(ranking: RankingFile) -> str:
    return str(ranking.head.judge.get("model"))
