"""What each side took and did, beside what the judge prefers."""

from collections.abc import Callable, Mapping, Sequence

from harness.comparison.clusters import Clusters, mean_by_query
from harness.comparison.intervals import interval_of_mean, interval_of_share
from harness.core.comparisons import ComparedQuery, ComparedRollout, Interval, SideFigures

_Rollouts = Mapping[str, Sequence[ComparedRollout]]


def side_figures(
    queries: Sequence[ComparedQuery], side: int, label: str, seed: int, clusters: Mapping[str, str] | None = None
) -> SideFigures:
    """Return cost, tokens, latency, steps, failures and rewards of one side's rollouts over the shared queries.

    Each query counts the same. Only rollouts of which a figure is known are in its mean.
    """
    rollouts = {query.query: query.rollouts[side] for query in queries}

    def amount(figure: Callable[[ComparedRollout], float | None]) -> Interval | None:
        return interval_of_mean(_clusters(rollouts, figure, clusters), seed)

    failed = _clusters(rollouts, lambda rollout: float(rollout.status == "failed"), clusters)
    return SideFigures(
        label=label,
        rollouts=sum(len(listed) for listed in rollouts.values()),
        failed=interval_of_share(failed, seed) if failed.count else None,
        left_out=sum(query.left_out[side] for query in queries if query.left_out),
        usd=amount(lambda rollout: rollout.usd),
        tokens=amount(lambda rollout: rollout.tokens),
        duration_s=amount(lambda rollout: rollout.duration_s),
        steps=amount(lambda rollout: rollout.steps),
        passed=_passed(_clusters(rollouts, lambda rollout: rollout.verified, clusters), seed),
    )


def _passed(rewards: Clusters, seed: int) -> Interval | None:
    """Rewards are mostly 0 or 1, but an agent's file may give any number."""
    if not rewards.count:
        return None
    shares = bool(((rewards.sums >= 0) & (rewards.sums <= rewards.sizes)).all())
    return interval_of_share(rewards, seed) if shares else interval_of_mean(rewards, seed)


def _clusters(
    rollouts: _Rollouts, figure: Callable[[ComparedRollout], float | None], clusters: Mapping[str, str] | None
) -> Clusters:
    figures = {
        query: [value for rollout in listed if (value := figure(rollout)) is not None]
        for query, listed in rollouts.items()
    }
    return Clusters.of(mean_by_query(figures), clusters)
