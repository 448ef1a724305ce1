"""A ranking that stopped early by an older version of the fit is played again by that version."""

import random

import anyio
import pytest

from harness.archive import MemoryStore
from harness.core.rankings import FIT_VERSION, GroupRanking
from harness.core.settings import Settings
from harness.judging import PairJury
from harness.pipeline.recorded_jury import recorded_jury
from harness.ranking import MARGINS
from harness.ranking.comparisons import Comparisons
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group
from tests.builders import ScriptedJudge, a_group, a_rollout, by_strength
from tests.judging.scripted import a_jury

GROUP = a_group([a_rollout(i) for i in range(6)])
STRENGTHS = by_strength({str(i): 10.0 if i == 4 else 5 + 0.3 * i for i in range(6)})


def ranked(jury: PairJury, version: int) -> GroupRanking:
    rules = Rules(topology="cyclic", estimator="margins", sure=0.9, fit_version=version)
    return anyio.run(rank_group, GROUP, jury, rules, random.Random(0))


def test_the_first_version_stopped_earlier_and_its_verdicts_are_enough_for_itself_alone():
    store = MemoryStore()
    then = ranked(a_jury(ScriptedJudge(STRENGTHS), store=store), 1)
    now = ranked(a_jury(ScriptedJudge(STRENGTHS)), FIT_VERSION)
    assert then.spared > now.spared
    bought = [v for m in then.matches for key in m.verdicts if (v := store.verdict(key))]
    again = ranked(recorded_jury(bought, Settings()), 1)
    assert (again.status, again.spared, again.rollouts) == ("complete", then.spared, then.rollouts)
    assert ranked(recorded_jury(bought, Settings()), FIT_VERSION).status == "incomplete"


def test_all_versions_give_the_same_scores_and_the_first_one_narrower_intervals():
    calls = Comparisons.of(4, [0, 1, 2, 3], [1, 2, 3, 0], [7.0, 6.5, 4.0, 5.0], [5.0, 6.0, 6.0, 8.0])
    first, now = (MARGINS[version](calls) for version in (1, FIT_VERSION))
    assert first.estimates == pytest.approx(now.estimates)
    assert first.first_side == pytest.approx(now.first_side)
    assert (first.sds < now.sds).all()
