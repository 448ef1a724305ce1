"""The JSON of `--json`: one object a run. Fields may be added, never renamed (DESIGN §7)."""

from collections.abc import Sequence
from typing import Any

from harness.archive import RankingFile, RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Group
from harness.core.settings import OFFLINE_JUDGE
from harness.report.flagged import Flagged, flagged
from harness.report.summary import Row, Verdicts, anchor_is_greedy, notes, open_reasons, rows
from harness.report.tables import groups_of


def run_json(reader: RunReader, ranking: RankingFile) -> dict[str, Any]:
    """Return a run with one of its rankings. Ranks count from 0 here; people read places from 1."""
    return {
        "run": reader.info.id,
        "path": str(reader.folder),
        "ranking": ranking.head.id,
        "offline": is_offline(reader, ranking),
        "judge": ranking.head.judge,
        "rubric": ranking.head.rubric,
        "failed_verdicts": dict(open_reasons(reader.verdicts(), ranking.groups)),
        "groups": [_group(g, r, reader.verdict) for g, r in groups_of(reader, ranking)],
    }


def is_offline(reader: RunReader, ranking: RankingFile) -> bool:
    """Tell whether the rollouts or this ranking's judge are the embedded ones."""
    named = str(ranking.head.judge.get("model")).split(", ")
    return reader.info.agent_offline or OFFLINE_JUDGE in named


def _group(group: Group, ranking: GroupRanking, verdicts: Verdicts) -> dict[str, Any]:
    flags = flagged(ranking, verdicts)
    placed = sorted(rows(group, ranking), key=lambda r: r.rollout.index)
    return {
        "query": group.query.text,
        "id": group.query.id,
        "topology": ranking.topology,
        "estimator": ranking.estimator,
        "status": ranking.status,
        "signal": ranking.signal,
        "judged": ranking.judged,
        "reused": ranking.reused,
        "reward_from": ranking.reward_from,
        "first_side": ranking.first_side,
        "first_side_sd": ranking.first_side_sd,
        "sigma": ranking.sigma,
        "reliability": ranking.reliability,
        "judge_usd": ranking.judge_usd,
        "judge_usage": ranking.judge_usage.model_dump(mode="json"),
        "anchor_is_greedy": anchor_is_greedy(group),
        "notes": notes(group, ranking),
        "agreement": [a.model_dump(mode="json") for a in ranking.agreement],
        "rollouts": [_rollout(r) | {"flags": _flags(flags, r)} for r in placed],
    }


def _flags(flags: Sequence[Flagged], row: Row) -> list[dict[str, Any]]:
    own = [f for f in flags if f.rollout == row.rollout.index]
    return [f.flag.model_dump(mode="json") | {"caps": f.most, "judge_marks": f.given} for f in own]


def _rollout(row: Row) -> dict[str, Any]:
    rollout, ranked = row.rollout, row.ranked
    return {
        "index": rollout.index,
        "role": rollout.role,
        "temperature": rollout.requested.temperature,
        "status": rollout.status,
        "failure": rollout.failure.model_dump(mode="json") if rollout.failure else None,
        "rank": ranked.rank,
        "reward": ranked.reward,
        "advantage": ranked.advantage,
        "score": ranked.score,
        "margin": ranked.margin,
        "uncertainty": ranked.uncertainty,
        "p_best": ranked.p_best,
        "p_above_mean": ranked.p_above_mean,
        "explanation": ranked.explanation,
        "answer": rollout.trajectory.answer,
        "steps": len(rollout.trajectory.path),
        "effective": rollout.effective.model_dump(mode="json"),
        "retries": rollout.retries,
        "tokens": rollout.usage.tokens,
        "cached": rollout.usage.cached,
        "price_usd": rollout.price_usd,
    }
