"""What `--json` prints: one object a run. Fields may be added, never renamed."""

from dataclasses import asdict
from typing import Any

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Rollout
from harness.ranking.curve import CurvePoint
from harness.ranking.judge_stats.agreement import Share
from harness.ranking.judge_stats.side_by_side import QueryFigure
from harness.report.judge_quality import JudgeQuality
from harness.report.summary.curve import MEASURE, JudgingCurve
from harness.report.summary.group import AgentFigures, JudgeFigures
from harness.report.summary.judges import JudgesSideBySide
from harness.report.summary.labels import LabelAgreement
from harness.report.summary.match_verdicts import VerdictLookup, rollout_flags
from harness.report.summary.ranking import is_offline, ranked_groups
from harness.report.summary.ranking_figures import RankingFigures
from harness.report.summary.rankings import rounds_json
from harness.report.summary.rollouts import anchor_is_greedy, notes, open_reasons, placed_rollouts


def run_json(reader: RunReader, ranking: RankingFile) -> dict[str, Any]:
    """Return a run with one of its rankings. Ranks count from 0 here; people read places from 1."""
    return {
        "run": reader.info.id,
        "path": str(reader.folder),
        "ranking": ranking.head.id,
        "offline": is_offline(reader, ranking),
        **({"way_found": way.model_dump(mode="json")} if (way := reader.info.way_found) else {}),
        "judge": ranking.head.judge,
        "rubric": ranking.head.rubric,
        "failed_verdicts": dict(open_reasons(reader.verdicts(), ranking.groups)),
        "groups": [_group(group, ranked, reader.verdict) for group, ranked in ranked_groups(reader, ranking)],
    } | rounds_json(reader, ranking)


_OF_GROUP = (
    "topology estimator status signal provisional secondary_fit judged reused reward_from first_side first_side_sd "
    "sigma reliability p_value"
).split()
_OF_RANKED = ("rank", "reward", "advantage", "score", "margin", "uncertainty", "p_best", "p_above_mean")
_OF_ROLLOUT = ("origin", "origin_id", "given_reward")


def _group(group: Group, ranking: GroupRanking, verdicts: VerdictLookup) -> dict[str, Any]:
    flags = rollout_flags(ranking, verdicts)
    placed = sorted(placed_rollouts(group, ranking), key=lambda p: p.rollout.index)
    query = {"query": group.query.text, "id": group.query.id, "metadata": dict(group.query.metadata)}
    return (
        query
        | {name: getattr(ranking, name) for name in _OF_GROUP}
        | {
            **ranking.judge_cost.named("judge_usd"),
            "judge_usage": ranking.judge_usage.model_dump(mode="json"),
            "anchor_is_greedy": anchor_is_greedy(group),
            "notes": notes(group, ranking),
            "agreement": [pair.model_dump(mode="json") for pair in ranking.agreement],
            "rollouts": [
                _rollout(p.rollout, p.ranked) | {"flags": [f.as_json() for f in flags if f.rollout == p.rollout.index]}
                for p in placed
            ],
        }
    )


def _rollout(rollout: Rollout, ranked: Ranked) -> dict[str, Any]:
    return {
        "index": rollout.index,
        "role": rollout.role,
        "temperature": rollout.requested.temperature,
        **({"recipe": rollout.recipe.name} if rollout.recipe else {}),
        **({"branch": rollout.branch.model_dump(mode="json")} if rollout.branch else {}),
        "status": rollout.status,
        "failure": rollout.failure.model_dump(mode="json") if rollout.failure else None,
        "capture": rollout.capture,
        "capture_gaps": list(rollout.capture_gaps),
        **{name: getattr(ranked, name) for name in _OF_RANKED},
        "verified": rollout.verified,
        "explanation": ranked.explanation,
        "answer": rollout.trajectory.answer,
        "steps": len(rollout.trajectory.path),
        "effective": rollout.effective.model_dump(mode="json"),
        "retries": rollout.retries,
        "tokens": rollout.usage.tokens,
        "cached": rollout.usage.cached,
        **rollout.cost.named("price_usd"),
        **{name: getattr(rollout, name) for name in _OF_ROLLOUT},
        "metadata": dict(rollout.metadata),
    }


def quality_json(quality: JudgeQuality) -> dict[str, Any]:
    """Return one judge's figures. Shares come with their count, their whole and their 95 % interval."""
    t = quality.tally
    points, sd = t.first_side or (None, None)
    advice = t.orders.advice
    return {
        "judge": quality.judge,
        "rubric": quality.rubric,
        "verdicts": t.verdicts,
        "warnings": list(quality.warnings),
        "flips": share_json(t.flips),
        "information": asdict(t.orders.information),
        "first_wins": share_json(t.first_wins),
        "first_side": {"points": points, "sd": sd, "real": t.first_side_is_real},
        "ties": share_json(t.ties),
        "cycles": share_json(t.cycles),
        "length_correlation": t.length_correlation,
        "marks": {str(mark): times for mark, times in t.marks.items()},
        "flat_mark": t.flat_mark[0] if t.flat_mark else None,
        "claims": share_json(t.claims) | {"other_winner": t.claimed_winners},
        "self_noise": {"sd": t.self_noise, "other_winner": share_json(t.disagreements)},
        "repaired": t.repaired,
        "failed": t.failed,
        "one_order": {
            "verdict": advice.verdict,
            "ratio": advice.ratio,
            "var_position": t.orders.var_position,
            "var_residual": t.orders.var_residual,
            "pairs": t.orders.pairs,
            "rough": advice.rough,
            "saves_calls": advice.saves,
            "of_calls": advice.of,
        },
        "readings": {figure.name: figure.meaning for figure in quality.figures},
    }


def share_json(share: Share) -> dict[str, Any]:
    """Return a share with its count, its whole and its 95 % interval."""
    interval = list(share.interval) if share.whole else None
    return {"count": share.part, "of": share.whole, "share": share.value, "interval": interval}


def agreement_json(agreement: LabelAgreement) -> dict[str, Any]:
    """Return how far a judge agrees with labels, with those drawn at random, and with itself."""
    return {
        "pairs": share_json(agreement.labelled),
        "kappa": agreement.kappa,
        "control": share_json(agreement.control),
        "orders": share_json(agreement.orders),
    }


def figures_json(figures: RankingFigures, agents: AgentFigures, judge: JudgeFigures) -> dict[str, Any]:
    """Return what a ranking shows of its rollouts. A figure has its interval over queries."""
    return {
        **asdict(figures),
        "dimensions": {name: share_json(decides) for name, decides in figures.dimensions.items()},
        "took": {
            "rollouts": {"tokens": agents.tokens, **agents.cost.named("usd")},
            "judging": {"tokens": judge.tokens, **judge.cost.named("usd"), "calls": judge.calls},
        },
    }


def judges_json(side: JudgesSideBySide) -> dict[str, Any]:
    """Return the judges of a run side by side. Differences and shares are 0..1 here; people read per cent."""
    ids, choice = [ranking.ranking for ranking in side.rankings], side.choice
    return {
        "rankings": [
            {name: getattr(ranking, name) for name in ("ranking", "judge", "rubric", "topology", "estimator")}
            | {
                "order": ranking.order or None,
                "finished": ranking.finished,
                "offline": ranking.offline,
                "queries": len(ranking.queries),
                "alpha": ranking.alpha,
                "right": {truth: figure_record(figure) for truth, figure in ranking.figures.right.items()},
                "flips": figure_record(ranking.figures.flips),
                "information": figure_record(ranking.figures.information),
                "self_noise": figure_record(ranking.figures.self_noise),
                "length_correlation": figure_record(ranking.figures.length),
                "calls": figure_record(ranking.figures.calls),
                "usd": figure_record(ranking.figures.usd),
                "usd_each": figure_record(ranking.figures.usd_each),
                "seconds": figure_record(ranking.figures.seconds),
                "planted": (asked := side.planted.get(ranking.ranking))
                and {
                    "classes": {name: share_json(share) for name, share in asked.classes.items()},
                    "usd_each": asked.usd_each,
                    "failures": dict(asked.failures),
                },
            }
            for ranking in side.rankings
        ],
        "people": side.raters
        and {
            "people": side.raters.people,
            "pairs": side.raters.pairs,
            "alpha": side.raters.alpha,
            "disagreements": [
                {"query": each.query, "a": each.a, "b": each.b, "labels": each.said}
                for each in side.raters.disagreements
            ],
        },
        "agreements": [
            {
                "rankings": [ids[each.first], ids[each.second]],
                "tau": figure_record(each.tau),
                "same_best": figure_record(each.same_best),
            }
            for each in side.agreements
        ],
        "by": choice and choice.by,
        "best": ids[choice.best] if choice and choice.best is not None else None,
        "cheapest": ids[choice.cheapest] if choice and choice.cheapest is not None else None,
        "compared": {ids[at]: figure_record(figure) for at, figure in choice.right.items()} if choice else {},
        "difference": figure_record(choice.difference) if choice else None,
        "labels": side.labels,
        "used_labels": side.used_labels,
        "notes": list(side.notes()),
        "sentence": side.sentence,
    }


def curve_json(curve: JudgingCurve) -> dict[str, Any]:
    """Return a curve of accuracy against judge calls, with every point."""
    points = curve.curve
    return {
        "ranking": curve.ranking,
        "truth": curve.truth,
        "against": curve.against,
        "truth_words": curve.truth_words,
        "measure": MEASURE,
        "offline": curve.offline,
        "queries": curve.queries,
        "left_out": curve.left_out,
        "without_truth": curve.silent,
        "plays": points.plays,
        "seed": curve.seed,
        "points": [_point(point) for point in points.points],
        "reference": _point(points.reference),
        "chosen": points.chosen and _point(points.chosen),
        "notes": list(curve.notes()),
        "sentence": curve.sentence,
    }


def _point(point: CurvePoint) -> dict[str, Any]:
    share = point.design.share
    return {
        "topology": point.design.topology,
        "estimator": point.estimator,
        "order": point.design.order,
        "share_of_pairs": None if share is None else float(share),
        "calls": point.calls,
        "tau": figure_record(point.tau),
        "keeps": figure_record(point.keeps),
    }


def figure_record(figure: QueryFigure | None) -> dict[str, Any] | None:
    """Return a figure over queries; None where nothing is known. One query has no interval: null."""
    return None if figure is None else asdict(figure)
