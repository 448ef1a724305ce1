"""A ranking from verdicts that are read back is the one from the same verdicts when they were bought."""

import random
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

from harness.archive.reader import RunReader
from harness.archive.store import ReadStore
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Query
from harness.core.settings import OFFLINE_JUDGE, EstimatorName, TopologyName
from harness.endpoints.costs import Priced
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import EmbeddedAsk, PairwiseJudge
from harness.judging.rubric import load_rubric
from harness.judging.verdict_cache import CachedPairJudge, PairJury, VerdictCache
from harness.tournament.group import Rules
from harness.tournament.pairwise import rank_group
from tests.archive.making import a_run
from tests.builders import AT, a_rollout

TEXTS = ["", "x", "Snow.", "Snow falls in winter.", "Snow falls, " * 40, "Snow falls in winter. " * 3, "x"]
GROUP = Group(query=Query(id="q", text="What is snow?"), rollouts=tuple(a_rollout(i, t) for i, t in enumerate(TEXTS)))
OF_THIS_TIME = {"judged", "reused", "judge_usage", "judge_usd", "failed_verdicts"}


def ranked(store: Any, topology: TopologyName, estimator: EstimatorName, *, free: bool = False) -> GroupRanking:
    model = JudgeModel(
        EmbeddedAsk(),
        identity=OFFLINE_JUDGE,
        clock=lambda: AT,
        pricing=Priced(OFFLINE_JUDGE, None, free=True),
        keep=lambda _: "0" * 64,
    )
    judge = CachedPairJudge(PairwiseJudge(model, load_rubric("writing")), VerdictCache(store, free=free))
    rules = Rules(topology=topology, estimator=estimator)
    return anyio.run(rank_group, GROUP, PairJury([judge]), rules, random.Random(0))


@pytest.mark.few(2)
@pytest.mark.parametrize("topology", sorted(set(get_args(TopologyName)) - {"none"}))
def test_each_estimator_ranks_verdicts_read_from_their_lines_as_those_just_bought(
    topology: TopologyName, tmp_path: Path
) -> None:
    for estimator in get_args(EstimatorName):
        with a_run(tmp_path / estimator) as store:
            bought = ranked(store, topology, estimator)
            folder = store.folder
        with RunReader(folder) as reader:
            assert reader.pair_scores(bought.matches[0].verdicts[0]) is not None
            read = ranked(ReadStore([reader]), topology, estimator, free=True)
        assert bought.judged > 0
        assert (read.judged, read.reused) == (0, bought.judged)
        assert read.model_dump(exclude=OF_THIS_TIME) == bought.model_dump(exclude=OF_THIS_TIME)
