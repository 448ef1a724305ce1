"""The ranking benchmark plays what it says it plays; its figures are for people to read."""

import argparse
import subprocess
import sys

import numpy as np
import pytest

from harness.ranking.comparisons import Fit
from harness.report.summary.diversity import diversity
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from diversity import FOUR, LOWER, ONE, USELESS, simulated
from pooled import fits_of
from reliability import Stated, cells_of, is_beyond_chance
from simulated_groups import Simulated
from simulated_judge import REGIMES, Regime, draw, mean_spearman, top_hits


@pytest.mark.nightly
@pytest.mark.process
def test_the_ranking_benchmark_prints_every_design_and_holds_itself_against_the_published_figures():
    done = subprocess.run(
        [sys.executable, "benchmarks/ranking.py", "--quick", "--groups", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "3 groups a cell, rng 0" in done.stdout
    for design in ("arena", "anchor", "single", "double", "swiss", "round robin", "cyclic 0.5x", "RULER, 1 call of 8"):
        assert f"\n{design} " in done.stdout, design
    assert done.stdout.count("published") == 10


@pytest.mark.parametrize("regime", REGIMES, ids=lambda r: r.name)
def test_the_simulated_judge_is_as_sharp_as_the_evidence_says(regime: Regime):
    """The evidence's own check: 69 % of single calls right and 41 % of verdicts flipped with the order when noisy."""
    groups = draw(regime, 2000, 8, np.random.default_rng(0))
    margin = np.round(groups.calls[:, 0, :, :, 0] - groups.calls[:, 0, :, :, 1], 1)
    truth = np.sign(groups.quality[:, :, None] - groups.quality[:, None, :])
    pairs = ~np.eye(8, dtype=bool)
    right = ((np.sign(margin) == truth) + 0.5 * (margin == 0))[:, pairs].mean()
    i, j = np.triu_indices(8, 1)
    flipped = (np.sign(margin[:, i, j]) * np.sign(margin[:, j, i]) > 0).mean()
    if regime.name == "noisy":
        assert (right, flipped) == (pytest.approx(0.69, abs=0.02), pytest.approx(0.41, abs=0.02))
    assert right > 0.65


def test_the_measures_of_a_ranking_know_the_truth_and_its_reverse():
    quality = np.random.default_rng(0).standard_normal((50, 8))
    assert mean_spearman(quality, quality)[0] == pytest.approx(1)
    assert mean_spearman(-quality, quality)[0] == pytest.approx(-1)
    assert mean_spearman(np.zeros((50, 8)), quality)[0] == 0
    assert (top_hits(quality, quality), top_hits(np.zeros((50, 8)), quality)) == (1, pytest.approx(1 / 8))


@pytest.mark.parametrize(
    ("right", "claims", "beyond"), [(0, 0, False), (0, 1, False), (8, 10, False), (20, 20, False), (15, 25, True)]
)
def test_few_claims_of_certainty_fail_the_reliability_benchmark_only_where_chance_does_not_allow_it(
    right: int, claims: int, beyond: bool
):
    cell = Stated("", np.full(claims, 0.97), np.arange(claims) < right, at_ends=0, covered=np.full(claims, 0.9))
    assert is_beyond_chance(cell, cells=27) is beyond


@pytest.mark.parametrize(("judge", "calls"), [("noisy", [10, 15, 30]), ("ceiling", [10])])
def test_a_judge_who_is_hardly_ever_certain_is_asked_more_unless_it_is_at_its_ceiling(judge: str, calls: list[int]):
    options = argparse.Namespace(rng=0, batches=1, groups=2)
    asked = list[int]()

    def fit(batch: Simulated) -> list[Fit]:
        asked.append(len(batch.groups[0].first))
        return fits_of(batch, pool=2)

    assert len(cells_of(judge, 6, options, fit)) == len(asked)
    assert asked == calls


@pytest.mark.nightly
def test_best_of_eight_over_four_recipes_is_a_tenth_above_one_recipe_and_the_useless_one_is_found():
    """In score points of ten; the benchmark prints how often."""
    rng = np.random.default_rng(2)
    one, four = (simulated(vary, REGIMES[0], 300, 0.0, rng) for vary in (ONE, FOUR))
    useless = simulated(FOUR, REGIMES[0], 100, LOWER, rng)
    of_one, of_four = (6 + 1.125 * float(np.mean(run.best)) for run in (one, four))
    assert of_four >= 1.1 * of_one
    assert [each.name for each in diversity(useless.groups).recipes if each.drop] == [USELESS]
