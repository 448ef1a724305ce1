"""A round robin's verdicts are enough for every other topology: rescoring buys none and ranks as a fresh run does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

import harness
from harness.api.one_group import rank
from harness.api.runs import rescore
from harness.archive.reader import RunReader
from harness.core.settings import EstimatorName, TopologyName
from harness.core.settings_sources import environment, load
from harness.formats.queries import query_from
from harness.pipeline.plan import RescoreOptions, prepare
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.runs import RunResult, rescore_run, run_queries
from harness.report.summary.ranking import summarize
from harness.rollouts.loading import load_agent

CHANGES: list[dict[str, Any]] = [
    {"topology": "arena"},
    {"topology": "anchor"},
    {"topology": "single"},
    {"topology": "double"},
    {"topology": "swiss"},
    {"topology": "cyclic"},
    {"budget": 14},
    {"budget": 40},
    {"topology": "none"},
    {"topology": "arena", "order": "balanced"},
    {"topology": "round_robin", "order": "single"},
]


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six rollouts in which all have met in both orders."""
    settings = load({"n": 6, "topology": "round_robin", "offline": True, "runs_dir": tmp_path_factory.mktemp("runs")})

    async def go() -> Path:
        loaded = load_agent("search", Path.cwd())
        prepared = await prepare(loaded, settings, environment())
        return (await run_queries(prepared, [query_from(loaded.examples[0])], RunEnvironment(environment()))).path

    return anyio.run(go)


@pytest.mark.few(4)
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_rescoring_a_round_robin_buys_nothing_and_equals_a_fresh_ranking(
    everyone: Path, changes: dict[str, Any]
) -> None:
    async def go() -> None:
        ran = await rescore(everyone, **changes)
        with RunReader(everyone) as reader:
            (rescored,) = reader.ranking(ran.ranking_id).groups
            (query,) = reader.queries()
            fresh = await rank(reader.group(query), offline=True, **changes)
            assert rescored.judged == 0
            assert rescored.reused == fresh.judged
            assert (rescored.matches, rescored.rollouts) == (fresh.matches, fresh.rollouts)
            assert (rescored.topology, rescored.signal, rescored.status) == (fresh.topology, fresh.signal, fresh.status)

    anyio.run(go)


@pytest.mark.few(1)
@pytest.mark.parametrize("estimator", get_args(EstimatorName))
def test_rescoring_for_free_ranks_as_rescoring_that_may_buy_and_sums_up_what_the_archive_holds(
    everyone: Path, estimator: EstimatorName
) -> None:
    async def rescored(changes: Mapping[str, Any], *, free: bool) -> RunResult:
        options = RescoreOptions(free=free)
        return await rescore_run(everyone, changes, RunEnvironment(environment()), options)

    async def go() -> None:
        for topology in get_args(TopologyName):
            changes = {"topology": topology, "estimator": estimator}
            ran, plain = [await rescored(changes, free=free) for free in (True, False)]
            with RunReader(everyone) as reader:
                free, bought = reader.ranking(ran.ranking_id), reader.ranking(plain.ranking_id)
                assert list(free.groups) == list(bought.groups), topology
                assert free.finished
                assert ran.summary == summarize(reader, free)

    anyio.run(go)


@pytest.mark.anyio
async def test_a_listwise_judge_takes_a_run_whose_remarks_had_to_be_cited(tmp_path: Path):
    run = await harness.run(
        "search", ["Why?"], n=2, offline=True, require_citations=True, runs_dir=tmp_path / "runs", report=False
    )
    again = await harness.rescore(run, judge="ruler", report=False)
    assert again.ranking().head.settings["judge"] == "ruler"
