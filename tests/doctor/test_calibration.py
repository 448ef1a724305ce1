"""How often a judge is right: by both orders, by each verdict alone, by class; failed verdicts count for none."""

import pytest

from harness.core.progress import Silent, Stage
from harness.core.rankings import Judged, Unjudged
from harness.core.records import Failure
from harness.core.settings import OFFLINE_JUDGE
from harness.doctor.calibration import (
    Calibration,
    Trial,
    bundled_pairs,
    calibration_json,
    calibration_lines,
    count_calibration_calls,
)
from harness.doctor.planted import JudgeToCheck, calibrate
from harness.endpoints.credentials import Credentials
from harness.formats.labelled_pairs import Label, LabelledPair
from harness.judging.rubric import load_rubric
from harness.pipeline.resolve import JudgeSpec
from harness.ranking.judge_stats.agreement import Share
from tests.builders import a_judged, an_unjudged
from tests.doctor.examined import KEY, a_request

EMBEDDED = JudgeToCheck(JudgeSpec(model=OFFLINE_JUDGE), load_rubric("writing"), Credentials.naming({}), {})


def a_pair(label: Label, kind: str = "c", a: str = "x", b: str = "y") -> LabelledPair:
    return LabelledPair.model_validate({"query": "q", "a": a, "b": b, "label": label, "class": kind})


def a_trial(label: Label, a_first: Judged | Unjudged, b_first: Judged | Unjudged, kind: str = "c") -> Trial:
    return Trial(a_pair(label, kind), a_first, b_first)


def scored(key: str, a: float, b: float) -> Judged:
    return a_judged(key, a, b)


def out_of_quota(key: str) -> Unjudged:
    failure = Failure(kind="quota", type="RateLimitError", message=f"nothing left for {KEY}")
    return an_unjudged(key, failure=failure)


def calibrated(*trials: Trial) -> Calibration:
    return Calibration("j", "r@1", [t.pair for t in trials], secrets=(KEY,), trials=list(trials))


def test_the_scores_are_means_over_both_orders_side_by_side():
    trial = a_trial("a", scored("k1", 8, 5), scored("k2", 6, 7))
    assert trial.scores == (7.5, 5.5)
    assert (trial.judged_label, trial.is_right, trial.labels_by_order) == ("a", True, ("a", "a"))


def test_orders_that_contradict_each_other_are_a_tie_where_their_means_are_level():
    trial = a_trial("tie", scored("k1", 8, 4), scored("k2", 8, 4))
    assert (trial.judged_label, trial.labels_by_order) == ("tie", ("a", "b"))


def test_a_failed_verdict_leaves_the_pair_unjudged_and_the_other_order_its_label():
    trial = a_trial("b", an_unjudged("k1"), scored("k2", 8, 4))
    assert (trial.scores, trial.judged_label, trial.is_right) == (None, None, False)
    assert trial.labels_by_order == ("b",)
    assert list(trial.failed_verdicts) == ["k1"]


def test_the_one_verdict_on_two_equal_texts_counts_once():
    same = scored("k", 5, 5)
    trial = Trial(a_pair("tie", a="x", b="x"), same, same)
    calibration = calibrated(trial)
    assert calibration.verdicts_right == Share(1, 1)
    assert calibration.tally.flips.whole == 0


def an_identical(verdict: Judged | Unjudged, label: Label = "tie") -> Trial:
    return Trial(a_pair(label, "identical", a="x", b="x"), verdict, verdict)


def test_two_equal_texts_are_right_only_where_their_one_verdict_calls_a_tie():
    level, first, second = (an_identical(scored(key, a, b)) for key, a, b in (("k1", 5, 5), ("k2", 8, 4), ("k3", 4, 8)))
    assert [t.judged_label for t in (level, first, second)] == ["tie", "a", "b"]
    assert [t.is_right for t in (level, first, second)] == [True, False, False]
    assert (first.scores, first.labels_by_order) == ((8, 4), ("a",))
    assert an_identical(an_unjudged("k4")).judged_label is None
    calibration = calibrated(level, first, second)
    assert calibration.pairs_right == calibration.verdicts_right == Share(1, 3)
    assert calibration.classes()[0].ties == 1


def test_two_equal_texts_must_tie_whatever_their_label_says():
    assert an_identical(scored("k1", 5, 5), "a").is_right
    assert not an_identical(scored("k2", 8, 4), "a").is_right


def test_a_judge_that_names_a_winner_between_equal_texts_gains_no_accuracy_and_no_kappa_from_them():
    real = [
        a_trial("a", scored("k1", 8, 4), scored("k2", 4, 8)),
        a_trial("b", scored("k3", 4, 8), scored("k4", 8, 4)),
        a_trial("b", scored("k5", 8, 4), scored("k6", 4, 8)),
    ]
    named = [an_identical(scored(f"same{n}", 8, 4)) for n in range(4)]
    alone, both = calibrated(*real), calibrated(*real, *named)
    assert alone.pairs_right == Share(2, 3)
    assert both.pairs_right == Share(2, 7)
    assert alone.kappa is not None
    assert both.kappa is not None
    assert both.kappa < alone.kappa


def test_pairs_and_verdicts_are_counted_by_class():
    right = a_trial("a", scored("k1", 8, 4), scored("k2", 4, 8), "one")
    half = a_trial("a", scored("k3", 8, 4), scored("k4", 8, 2), "two")
    failed = a_trial("a", an_unjudged("k5"), scored("k6", 4, 8), "two")
    calibration = calibrated(right, half, failed)
    assert calibration.pairs_right == Share(1, 2)
    assert calibration.verdicts_right == Share(4, 5)
    first, second = calibration.classes()
    assert (first.name, first.pairs, first.pairs_right, first.verdicts_right) == ("one", 1, Share(1, 1), Share(2, 2))
    assert (second.pairs, second.pairs_right, second.verdicts_right, second.failed) == (2, Share(0, 1), Share(2, 3), 1)


def test_what_standing_first_is_worth_needs_two_pairs():
    trial = a_trial("a", scored("k1", 8, 4), scored("k2", 8, 4))
    assert calibrated(trial).bias is None
    assert calibrated(trial, trial).bias == (4, 0)


def test_failures_are_counted_by_reason_and_give_no_key_away():
    calibration = calibrated(a_trial("a", out_of_quota("k1"), out_of_quota("k2")))
    assert calibration.failures == {"quota: nothing left for [key]": 2}
    assert calibration.out_of_quota
    assert not calibrated(a_trial("a", an_unjudged("k1"), an_unjudged("k1"))).out_of_quota


def test_a_pair_takes_two_calls_and_two_equal_texts_take_one():
    assert count_calibration_calls([a_pair("a")]) == 2
    assert count_calibration_calls([a_pair("tie", a="x", b="x")]) == 1
    assert count_calibration_calls([a_pair("a"), a_pair("b", a="y", b="x")]) == 2
    assert count_calibration_calls(bundled_pairs()) == 52


@pytest.mark.anyio
async def test_the_embedded_judge_ends_every_trial_in_the_order_of_the_pairs():
    pairs = [a_pair("a", a="Tides come twice a day.", b="No."), a_pair("tie", a="same", b="same")]
    calibration = EMBEDDED.calibration(pairs, ())
    await calibrate(EMBEDDED, a_request(), calibration, Silent())
    assert [trial.pair for trial in calibration.trials] == pairs
    assert calibration.judge == f"{OFFLINE_JUDGE}@offline"
    assert calibration.trials[1].judged_label == "tie"
    assert not calibration.failures


class Totals(Silent):
    """Hears how many calls there are in all."""

    def __init__(self) -> None:
        self.heard = list[tuple[Stage, int, int | None]]()

    def total(self, stage: Stage, low: int, high: int | None) -> None:
        self.heard.append((stage, low, high))


@pytest.mark.anyio
async def test_progress_hears_the_announced_number_of_calls_once_as_the_total():
    pairs, progress = bundled_pairs(), Totals()
    calibration = Calibration("?", "r@1", pairs)
    await calibrate(EMBEDDED, a_request(), calibration, progress)
    assert progress.heard == [("judging", 52, 52)]


# ---- The summary


def test_the_lines_say_how_often_it_is_right_how_it_leans_and_where_it_fails():
    wrong = a_trial("a", scored("k1", 4, 8), scored("k2", 8, 4), "mine")
    lines = list(calibration_lines(calibrated(wrong, a_trial("b", out_of_quota("k3"), scored("k4", 8, 4)))))
    assert lines[0].startswith("right, both orders together: 0 % of 1 pair ")
    assert lines[1].startswith("right, each verdict alone: 33 % of 3 verdicts")
    assert "wrong on: mine (1 of 1)" in lines
    assert "1 x failed verdict: quota: nothing left for [key]" in lines


def test_the_lines_say_how_pairs_of_equal_texts_are_counted_and_what_the_judge_said_of_a_wrong_one_once():
    named = scored("k1", 8, 4).model_copy(update={"analysis": {"verdict": "The first."}})
    lines = list(calibration_lines(calibrated(an_identical(named), an_identical(scored("k2", 5, 5)))))
    assert lines[0].startswith("right, both orders together: 50 % of 2 pairs")
    assert lines[1] == "2 pairs of equal texts are judged once, and right where that verdict calls a tie"
    assert lines[-2:] == [
        '- identical, "q": two equal texts, judged a (8 v 4)',
        "    a shown first: The first.",
    ]


def test_without_a_judged_pair_the_lines_say_so():
    assert (
        next(calibration_lines(calibrated(a_trial("a", an_unjudged("k1"), an_unjudged("k2")))))
        == "no pair could be judged"
    )


def test_the_json_holds_every_trial_and_what_is_not_defined_is_null():
    summary = calibration_json(calibrated(a_trial("a", scored("k1", 8, 4), scored("k2", 4, 8))))
    assert (summary["pairs"], summary["judged"], summary["kappa"], summary["first_side"]) == (1, 1, None, None)
    trial = summary["trials"]
    assert trial == [
        {
            "class": "c",
            "query": "q",
            "label": "a",
            "identical": False,
            "said": "a",
            "scores": [8.0, 4.0],
            "by_order": ["a", "a"],
            "right": True,
            "analyses": [{}, {}],
        }
    ]


def test_pairs_that_the_judge_got_wrong_are_listed_with_what_it_said_of_each_side():
    remarks = {"path_A": "Thorough.", "answer_B": "Thin.", "verdict": "Close."}
    said = scored("k1", 8, 5).model_copy(update={"analysis": remarks})
    wrong, right = a_trial("b", said, an_unjudged("k2")), a_trial("a", scored("k3", 8, 4), scored("k4", 4, 8))
    assert not any(line.startswith("- ") for line in calibration_lines(calibrated(wrong, right))), "a failed pair"
    wrong = a_trial("b", said, scored("k2", 4, 8).model_copy(update={"analysis": remarks}))
    lines = list(calibration_lines(calibrated(*[wrong] * 11, right)))
    assert lines[lines.index('- c, "q": labelled b, judged a (8 v 4.5)') + 1 :][:2] == [
        "    a shown first: path of a: Thorough.; answer of b: Thin.; Close.",
        "    b shown first: path of b: Thorough.; answer of a: Thin.; Close.",
    ]
    assert lines[-1] == "- and 1 more; --json has all"
