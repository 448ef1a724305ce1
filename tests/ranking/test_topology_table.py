"""The registries of topologies and estimators hold just the names that users may give."""

from typing import get_args

import pytest

from harness.core.settings import EstimatorName, TopologyName
from harness.ranking.estimators import ESTIMATORS
from harness.ranking.topologies import TOPOLOGIES, Entry, make_topology
from tests.ranking.playing import InOrder


def test_every_name_that_a_user_may_give_has_a_topology_and_an_estimator() -> None:
    assert set(TOPOLOGIES) == set(get_args(TopologyName))
    assert set(ESTIMATORS) == set(get_args(EstimatorName))


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_knows_itself_by_its_name_in_the_registry(name: TopologyName) -> None:
    assert make_topology(name, Entry(range(4), 0, None, InOrder())).name == name
