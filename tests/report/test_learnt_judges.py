"""What a ranking's verdicts teach of each judge, in words and as JSON."""

import math
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.archive.reader import RunReader
from harness.core.judge_profile import JudgeParameters, JudgeProfile
from harness.ranking.profile import learn_profile, lent_prior, single_call_right, single_call_right_sd
from harness.report.learnt_judges import judge_profiles, jury_profile, profile_json, profile_words
from tests.ranking.test_pooled import noisy_groups

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def noisy_profile() -> JudgeProfile:
    profile = learn_profile(noisy_groups(200, 6, 21)[1], "grader@example.org", "arena@1 0123456789ab", 2)
    assert profile is not None
    return profile


def test_a_judge_is_described_in_sentences_with_its_uncertainty() -> None:
    assert profile_words(noisy_profile()) == [
        "a single call is right 69 % of the time on two random rollouts",
        "its marks carry half of the absolute level (0.51 ± 0.03)",
        "standing first is worth 1.5 ± 0.0 points, and varies by 0.2 from query to query",
        "rollouts of a query differ by 1.4 points (standard deviation), the noise of one call's margin is 2.4",
        "learnt from 200 queries and 3,000 calls",
    ]


def test_how_often_a_call_is_right_is_what_simulated_calls_give() -> None:
    profile = noisy_profile()
    at, rng = profile.parameters, np.random.default_rng(1)
    apart = math.sqrt(2 * math.exp(at.log_quality_var)) * rng.standard_normal(400_000)
    noise = math.exp(at.log_preference_noise) + math.exp(at.log_position_noise) + math.exp(at.log_side_var)
    margin = apart + at.first_side + math.sqrt(noise) * rng.standard_normal(400_000)
    assert single_call_right(at) == pytest.approx(float((apart * margin > 0).mean()), abs=0.003)
    assert 0.002 < single_call_right_sd(profile) < 0.02
    perfect = at.model_copy(update={name: -25.0 for name in JudgeParameters.model_fields if name.endswith("noise")})
    sure = perfect.model_copy(update={"log_side_var": -25.0, "first_side": 0.0})
    assert single_call_right(sure) == pytest.approx(1, abs=1e-4)


def test_a_judge_at_its_ceiling_and_a_judge_of_few_queries_are_named() -> None:
    profile = noisy_profile().model_copy(update={"at_ends": 0.4, "groups": 3, "converged": False})
    words = " | ".join(profile_words(profile))
    assert "ceiling: 40 % of its scores stand at an end of the scale" in words
    assert "so few say little more than what is believed of any judge" in words
    assert "do not believe these figures" in words
    assert profile_json(profile)["ceiling"] is True


def test_each_juror_of_an_archived_ranking_has_a_profile_and_a_listwise_judge_has_none() -> None:
    (jury,) = (GOLDEN / "online-jury").iterdir()
    with RunReader(jury) as reader:
        ranking = reader.ranking()
        profiles = judge_profiles(reader, ranking)
    assert len(profiles) == len({profile.judge for profile in profiles}) > 1
    of_jury = jury_profile(ranking)
    assert of_jury
    assert (of_jury.judge, of_jury.rubric) == (", ".join(p.judge for p in profiles), ranking.head.rubric)
    assert lent_prior(of_jury).mean.tolist() != lent_prior(None).mean.tolist()
    assert all(profile.rubric == ranking.head.rubric and profile.calls for profile in profiles)
    record = profile_json(profiles[0])["record"]
    assert harness.JudgeProfile.model_validate(record) == profiles[0]
    (ruler,) = (GOLDEN / "online-ruler").iterdir()
    with RunReader(ruler) as reader:
        assert judge_profiles(reader, reader.ranking()) == []


def test_a_run_lends_its_judges_profiles_to_tables_of_scores() -> None:
    (jury,) = (GOLDEN / "online-jury").iterdir()
    profiles = harness.open(jury).judge_profiles()
    assert [type(profile) for profile in profiles] == [harness.JudgeProfile] * len(profiles)
    table = {(0, 1): (7.5, 6.0), (1, 2): (6.0, 6.5)}
    (lent,), (alone,) = (harness.rank_many([table], profile=profile) for profile in (profiles[0], None))
    assert lent.scores != alone.scores
