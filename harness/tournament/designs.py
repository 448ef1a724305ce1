"""The tournaments of a group: one for each class of rollouts that may meet."""

from collections.abc import Sequence
from functools import partial
from random import Random

from harness.ranking.cyclic import Cyclic
from harness.ranking.early_stop import EarlyStop
from harness.ranking.fit_versions import MARGINS
from harness.ranking.pooled import fit_alone
from harness.ranking.profile import prior_of
from harness.ranking.registry import Entry, make_topology
from harness.ranking.topology import UNITS, Topology
from harness.tournament.group import Lineup, Rules


def topologies_of(lineup: Lineup, classes: Sequence[Sequence[int]], rules: Rules, rng: Random) -> list[Topology]:
    """Return a tournament for each class that has members; none where a failed anchor stops the ranking."""
    if lineup.is_stopped(rules):
        return []
    anchor = lineup.anchor.index if lineup.anchor else None
    return [_topology(members, anchor if anchor in members else None, rules, rng) for members in classes if members]


def _topology(members: Sequence[int], anchor: int | None, rules: Rules, rng: Random) -> Topology:
    topology = make_topology(rules.topology, Entry(members, anchor, rules.order, rng, rules.budget))
    if rules.sure and isinstance(topology, Cyclic):
        prior = prior_of(rules.profile, rules.fit_version)
        fit = partial(fit_alone, prior=prior) if rules.by_pooled else MARGINS[rules.fit_version]
        return EarlyStop(topology, members, rules.sure, fit, UNITS, jurors_alike=prior.jurors_alike)
    return topology
