"""`none`: no matches, so that rollouts can be made now and judged later."""

from harness.ranking.schedule import ScheduledTopology


class NoMatches(ScheduledTopology):
    """A tournament without a match, which ranks nobody."""

    name = "none"
