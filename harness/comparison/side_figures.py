"""What each side took and did, beside what the judge prefers."""

from collections.abc import Callable, Mapping, Sequence

from harness.comparison.clusters import Clusters, mean_by_query
from harness.comparison.intervals import interval_of_mean, interval_of_share
from harness.core.comparisons import ComparedQuery, ComparedRollout, Interval, SideFigures
from harness.core.records import AGENT_FAILURES

_Figure = Callable[[ComparedRollout], float | None]


def side_figures(
    queries: Sequence[ComparedQuery], side: int, label: str, seed: int, clusters: Mapping[str, str] | None = None
) -> SideFigures:
    """Return cost, tokens, latency, steps, failures and rewards of one side's rollouts over the shared queries.

    Each query counts the same. A mean is over the rollouts of which the figure is known, without those that failed by
    the infrastructure's fault. With one query alone the interval is over its rollouts.
    """
    rollouts = {query.query: [r for r in query.rollouts[side] if _took_part(r)] for query in queries}

    def summed(figure: _Figure) -> Clusters:
        return _summed(rollouts, figure, clusters)

    failed = summed(lambda rollout: float(rollout.status == "failed"))
    return SideFigures(
        label=label,
        rollouts=sum(len(listed) for listed in rollouts.values()),
        failed=interval_of_share(failed, seed) if failed.count else None,
        left_out=sum(query.left_out[side] for query in queries if query.left_out),
        usd=interval_of_mean(summed(lambda rollout: rollout.usd), seed),
        tokens=interval_of_mean(summed(lambda rollout: rollout.tokens), seed),
        duration_s=interval_of_mean(summed(lambda rollout: rollout.duration_s), seed),
        steps=interval_of_mean(summed(lambda rollout: rollout.steps), seed),
        passed=_reward(summed(lambda rollout: rollout.verified), seed),
    )


def _took_part(rollout: ComparedRollout) -> bool:
    """Tell whether a rollout ended well or failed by the agent's own making."""
    return rollout.status == "ok" or rollout.failure in AGENT_FAILURES


def _reward(rewards: Clusters, seed: int) -> Interval | None:
    """Rewards are mostly 0 or 1, and their mean a share; but an agent's file may give any number."""
    if not rewards.count:
        return None
    shares = bool(((rewards.sums >= 0) & (rewards.sums <= rewards.sizes)).all())
    return interval_of_share(rewards, seed) if shares else interval_of_mean(rewards, seed)


def _summed(
    rollouts: Mapping[str, Sequence[ComparedRollout]], figure: _Figure, clusters: Mapping[str, str] | None
) -> Clusters:
    figures = {
        query: [v for rollout in listed if (v := figure(rollout)) is not None] for query, listed in rollouts.items()
    }
    if len(figures) == 1:
        (of_query,) = figures.values()
        return Clusters.of({f"{place}": value for place, value in enumerate(of_query)})
    return Clusters.of(mean_by_query(figures), clusters)
