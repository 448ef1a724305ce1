"""A judge's profile: learnt, kept as JSON, lent to groups of the same judge; what is not one is refused."""

import json
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import harness
from harness.core.judge_profile import JudgeParameters, JudgeProfile, hash_of_judge, profile_in
from harness.ranking.comparisons import PRIOR_SD, WEAK, Comparisons, Fit, Parameters
from harness.ranking.pooled import fit_alone, fit_pooled
from harness.ranking.pooled_judge import learn_judge
from harness.ranking.pooled_sums import pool_sums
from harness.ranking.profile import DRIFT, learn_profile, lent, lent_prior
from harness.ranking.score_table import rank_many
from tests.ranking.test_group_noise import judged
from tests.ranking.test_pooled import noisy_groups

NAME, RUBRIC = "grader@example.org", "arena@1 0123456789ab"


@pytest.fixture(scope="module")
def profile() -> JudgeProfile:
    learnt = learn_profile(noisy_groups(200, 6, 21)[1], NAME, RUBRIC, 2)
    assert learnt is not None
    return learnt


def test_a_profile_holds_what_was_learnt_with_its_uncertainty_and_comes_back_from_json(profile: JudgeProfile) -> None:
    _, groups = noisy_groups(200, 6, 21)
    learnt = learn_judge(pool_sums(groups))
    assert (profile.groups, profile.calls, profile.judge_hash) == (200, 3000, hash_of_judge(NAME))
    assert profile.parameters.values == pytest.approx(learnt.parameters)
    assert tuple(JudgeParameters.model_fields) == learnt.parameters._fields
    for at, name in enumerate(JudgeParameters.model_fields):
        assert profile.sd(name) == pytest.approx(np.sqrt(learnt.covariance[at, at]), rel=1e-6)
    assert profile.parameters.first_side == pytest.approx(1.5, abs=4 * profile.sd("first_side"))
    assert profile.parameters.level_share == pytest.approx(0.5, abs=4 * profile.sd("level_share"))
    assert JudgeProfile.model_validate_json(profile.model_dump_json(), strict=True) == profile
    assert learn_profile([], NAME, RUBRIC, 2) is None


def test_a_lent_profile_is_a_little_wider_than_it_was_learnt_and_much_narrower_than_the_weak_prior(
    profile: JudgeProfile,
) -> None:
    width = np.sqrt(np.linalg.inv(lent(profile).precision).diagonal())
    assert (width > np.array(DRIFT)).all()
    assert (width < 1.05 * np.hypot(PRIOR_SD, DRIFT)).all(), "one order does not tell the two noises apart"
    assert np.median(width / np.array(PRIOR_SD)) < 0.5


@pytest.mark.nightly
def test_a_group_with_a_lent_profile_is_ranked_nearly_as_in_the_pool_of_its_judge(profile: JudgeProfile) -> None:
    _, groups = noisy_groups(200, 6, 21)
    pool = fit_pooled(groups)
    alone, helped = ([fit_pooled([calls], *prior)[0] for calls in groups[:40]] for prior in ((), (lent(profile),)))

    def apart(fits: list[Any]) -> float:
        return float(np.mean([np.abs(fit.estimates - best.estimates) for fit, best in zip(fits, pool, strict=False)]))

    assert apart(helped) < apart(alone) / 2
    assert np.mean([fit.dof for fit in helped]) > np.mean([fit.dof for fit in alone])


@pytest.mark.nightly
def test_a_profile_holds_all_that_the_posterior_of_a_single_group_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    _, groups = judged(np.resize([0.5, 0.5, 0.5, 2.0], 400), 4)
    learnt = learn_profile(groups, NAME, RUBRIC, 2)
    assert learnt is not None
    assert learnt.noise_widths is not None
    members = json.loads(learnt.model_dump_json())
    kept, of_old = (profile_in(json.dumps(m), "here") for m in (members, members | {"noise_widths": None}))
    pool = fit_pooled(groups, replace(WEAK, fit_version=1))

    def alone(profile: JudgeProfile) -> list[Fit]:  # how many calls are wild a profile does not hold
        return [fit_alone(calls, replace(lent(profile), fit_version=1)) for calls in groups[:24]]

    def apart(fits: list[Fit]) -> float:
        return float(np.mean([np.abs(np.log(fit.sds / of.sds)).max() for fit, of in zip(fits, pool, strict=False)]))

    assert apart(alone(kept)) < apart(alone(of_old)), "the calls of one group hardly tell how uneven noise is"
    monkeypatch.setattr("harness.ranking.profile.DRIFT", Parameters(*[0.0] * len(DRIFT)))
    monkeypatch.setattr("harness.ranking.profile._DRIFT_OF_WIDTHS", 1e-6)
    assert apart(alone(kept)) < apart(alone(of_old)) / 4
    for fit, of in zip(alone(kept), pool, strict=False):
        assert fit.sds == pytest.approx(of.sds, rel=0.03)
        assert fit.estimates == pytest.approx(of.estimates, abs=0.2)
        assert fit.p_best() == pytest.approx(of.p_best(), abs=0.05)


def test_a_profile_from_before_noise_could_be_uneven_lends_what_is_believed_of_any_judge(profile: JudgeProfile) -> None:
    members = json.loads(profile.model_dump_json())
    assert sum(members.pop("noise_widths")) == pytest.approx(1)
    old = profile_in(json.dumps(members), "here")
    assert old.noise_widths is None
    assert lent(old).noise_widths.tolist() == WEAK.noise_widths.tolist()
    assert lent(profile).noise_widths[0] > 0.7, "this judge's noise is even"
    assert lent(profile).noise_widths.min() > 0
    assert lent(profile).noise_widths.sum() == pytest.approx(1)


def test_tables_are_ranked_with_a_lent_profile_by_pooled_alone(profile: JudgeProfile) -> None:
    table = {(0, 1): (7.5, 6.0), (1, 2): (6.0, 6.5), (2, 0): (5.0, 8.0)}
    assert rank_many([table], profile=profile)[0].scores != rank_many([table])[0].scores
    with pytest.raises(harness.UsageError, match="for the estimator pooled, not margins"):
        rank_many([table], "margins", profile=profile)
    nowhere = profile.model_copy(update={"parameters": profile.parameters.model_copy(update={"level": math.nan})})
    with pytest.raises(harness.UsageError, match=r"^profile: this is no judge's profile: parameters\.level: "):
        rank_many([table], profile=nowhere)


def test_a_profile_of_another_judge_rubric_or_rendering_does_not_hold_and_both_are_named(profile: JudgeProfile) -> None:
    assert profile.mismatch(NAME, RUBRIC, 2) is None
    assert profile.mismatch("other@host", RUBRIC, 2) == f"it is of the judge {NAME}, and this judge is other@host"
    assert profile.mismatch(NAME, "mine@1 00", 2) == f"it is by the rubric {RUBRIC}, and this rubric is mine@1 00"
    assert "in way 2, and these are written in way 1" in (profile.mismatch(NAME, RUBRIC, 1) or "")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("version", 2),
        ("judge", ""),
        ("judge", "another"),
        ("judge", 7),
        ("judge_hash", "0" * 64),
        ("groups", 0),
        ("groups", "12"),
        ("calls", -1),
        ("rendering", 1e3),
        ("at_ends", 1.5),
        ("at_ends", float("nan")),
        ("root", []),
        ("root", [[1.0]] * 9),
        ("root", [[-1.0 if i == j else 0.0 for j in range(i + 1)] for i in range(9)]),
        ("root", [[1e300 if i == j else 0.0 for j in range(i + 1)] for i in range(9)]),
        ("noise_widths", []),
        ("noise_widths", [1.0]),
        ("noise_widths", [0.5, 0.5, 0.5, 0.5, 0.5]),
        ("noise_widths", [2.0, -1.0, 0.0, 0.0, 0.0]),
        ("parameters", {}),
        ("parameters", {"log_quality_var": 1e9}),
        ("parameters", None),
    ],
)
def test_what_is_no_profile_is_refused(profile: JudgeProfile, member: str, value: Any) -> None:
    members = json.loads(profile.model_dump_json())
    changed = {**members[member], **value} if isinstance(value, dict) and value else value
    with pytest.raises(ValidationError):
        JudgeProfile.model_validate_json(json.dumps(members | {member: changed}), strict=True)


def test_a_judge_without_any_noise_has_a_profile() -> None:
    calls = Comparisons.of(3, [0, 1, 2], [1, 2, 0], [7.0, 6.0, 5.0], [6.0, 5.0, 7.0])
    learnt = learn_profile([calls] * 400, NAME, RUBRIC, 2)
    assert learnt is not None
    assert JudgeProfile.model_validate_json(learnt.model_dump_json(), strict=True) == learnt


def test_a_profile_of_the_wildest_numbers_still_gives_a_finite_fit() -> None:
    groups, rng = noisy_groups(5, 5, 3)[1], random.Random(1)
    learnt = learn_profile(groups, "j", "r", 1)
    assert learnt is not None
    for _ in range(6):
        wild = {
            name: rng.choice((-60.0, 20.0)) if name.startswith("log_") else rng.choice((-10.0, 10.0))
            for name in JudgeParameters.model_fields
        }
        root = tuple(
            (*(rng.choice((-10.0, 0.0, 10.0)) for _ in range(at)), rng.choice((1e-9, 10.0))) for at in range(9)
        )
        made_up = learnt.model_dump() | {"parameters": wild | {"level": rng.choice((-1e5, 1e5))}, "root": root}
        fit = fit_alone(groups[0], lent_prior(JudgeProfile.model_validate(made_up)))
        assert np.isfinite(fit.estimates).all()
        assert np.isfinite(fit.p_best()).all()
