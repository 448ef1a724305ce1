"""The rollouts of a group with their places: best first, named for people, and how sure the first place is."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.rankings import GroupRanking, Match, Ranked
from harness.core.records import Group, Rollout
from harness.ranking.rewards import split_by_reward
from harness.report.text import probability

_SCORES = {"tiers": "score 0–10", "wins": "share of wins", "margins": "margin", "bt": "logit", "pooled": "margin"}
"""What the estimators' scores are, by estimator."""


@dataclass(frozen=True)
class PlacedRollout:
    """A rollout and what the ranking gave it; `ranked` has neither rank nor score where the rollout was not ranked."""

    rollout: Rollout
    ranked: Ranked


def placed_rollouts(group: Group, ranking: GroupRanking | None) -> list[PlacedRollout]:
    """Return the rollouts best first; those without a rank last, by index."""
    ranked = {r.index: r for r in ranking.rollouts} if ranking else {}
    placed = [PlacedRollout(r, ranked.get(r.index) or Ranked(index=r.index)) for r in group.rollouts]
    return sorted(placed, key=lambda p: (p.ranked.rank is None, p.ranked.rank or 0.0, p.rollout.index))


def score_name(ranking: GroupRanking | None) -> str:
    """Return what the scores of a ranking are, with their scale where they have one."""
    if ranking and ranking.verdicts:
        return "score 0–1"
    return _SCORES.get(ranking.estimator, "score") if ranking else "score"


def with_a_rank(group: Group, ranking: GroupRanking) -> list[PlacedRollout]:
    """Return the rollouts that have a rank, best first."""
    return [p for p in placed_rollouts(group, ranking) if p.ranked.rank is not None]


def sharing_first_place(placed: Sequence[PlacedRollout]) -> list[Rollout]:
    """Return the rollouts with the best rank, of those ranked, best first."""
    return [p.rollout for p in placed if p.ranked.rank == placed[0].ranked.rank]


def place_of(rollout: PlacedRollout, group: Sequence[PlacedRollout]) -> str:
    """Return a place for people: from 1; `=` before places that several share; `–` for none."""
    rank = rollout.ranked.rank
    if rank is None:
        return "–"
    better = sum(p.ranked.rank is not None and p.ranked.rank < rank for p in group)
    shared = sum(p.ranked.rank == rank for p in group) > 1
    return f"{'=' if shared else ''}{better + 1}"


def places_by_secondary_fit(ranked: Iterable[Ranked], matches: Sequence[Match]) -> dict[int, str]:
    """Return the place that the margins would give, for people, by rollout; only rollouts with a margin.

    Where the verifiable reward ranks first, a margin counts inside its class of equal reward only.
    """
    judged = {r.index: r for r in ranked if r.margin is not None}
    level = _reward_levels(judged, matches)
    keys = {index: (-level[index], r.margin or 0.0) for index, r in judged.items()}
    ordered = list(keys.values())
    return {
        index: f"{'=' if ordered.count(key) > 1 else ''}{1 + sum(other > key for other in ordered)}"
        for index, key in keys.items()
    }


def _reward_levels(judged: Mapping[int, Ranked], matches: Sequence[Match]) -> dict[int, int]:
    """Return the class of each rollout, 0 the best; one class for all where rollouts of several rewards met."""
    classes = split_by_reward({index: r.verified for index, r in judged.items()})
    levels = {index: level for level, members in enumerate(classes) for index in members}
    across = any(levels[m.a] != levels[m.b] for m in matches if m.a in levels and m.b in levels)
    return dict.fromkeys(judged, 0) if across else levels


def certainty(group: Group, ranking: GroupRanking) -> str | None:
    """Return how sure first place is, and where the second opinion differs; None without such figures."""
    best = [p for p in with_a_rank(group, ranking) if p.ranked.p_best is not None]
    if len(best) < 2 or ranking.signal == "none":
        return None
    clauses = [f"{rollout_label(best[0].rollout)} is the best with a probability of {probability(_p_best(best[0]))}"]
    likeliest = max(best, key=_p_best)
    if _p_best(likeliest) > _p_best(best[0]):
        clauses.append(f"rollout {likeliest.rollout.index} with {probability(_p_best(likeliest))}")
    beside = places_by_secondary_fit((p.ranked for p in best), ranking.matches)
    differ = sum(place_of(p, best) != beside[p.rollout.index] for p in best)
    if differ:
        clauses.append(f"{ranking.estimator} and {ranking.secondary_fit} differ on {differ} of {len(best)} places")
    return "; ".join(clauses)


def fit_behind(ranking: GroupRanking) -> str:
    """Return which fit the probabilities of a group come from."""
    return ranking.estimator if ranking.estimator in {"margins", "bt", "pooled"} else ranking.secondary_fit


def _p_best(placed: PlacedRollout) -> float:
    return placed.ranked.p_best or 0.0


def rollout_label(rollout: Rollout) -> str:
    """Return what a sentence calls a rollout: its index and its role."""
    return f"rollout {rollout.index} ({rollout.role})"


def samples_above_anchor(anchors: Collection[int], ranking: GroupRanking) -> tuple[int, int]:
    """Return how many ranked samples stand above the anchor, and how many ranked samples there are.

    `anchors` are the rollouts that are the anchor: one, or none.
    """
    ranks = {r.index: r.rank for r in ranking.rollouts if r.rank is not None}
    anchor = next((ranks[index] for index in anchors if index in ranks), None)
    samples = [rank for index, rank in ranks.items() if index not in anchors]
    return (0, 0) if anchor is None else (sum(rank < anchor for rank in samples), len(samples))
