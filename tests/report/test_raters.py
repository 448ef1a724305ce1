"""Several people's labels of the same pairs: Krippendorff's alpha, and where they differ."""

import pytest

from harness.ranking.judge_stats.agreement import krippendorff_alpha
from harness.report.summary.judges import raters
from harness.report.summary.labels import AnswerLabel, PairWinner


def a_label(query: str, by: str | None, label: PairWinner, a: str = "x", b: str = "y") -> AnswerLabel:
    return AnswerLabel(query, a, b, label, by=by)


def test_alpha_is_that_of_krippendorffs_own_example():
    """Four observers, twelve units, some not seen by all: Content Analysis, 2004, page 230."""
    seen = ["1 1 . 1", "2 2 3 2", "3 3 3 3", "3 3 3 3", "2 2 2 2", "1 2 3 4"]
    seen += ["4 4 4 4", "1 1 2 1", "2 2 2 2", ". 5 5 5", ". . 1 1", ". 3 . ."]
    units = [[label for label in unit.split() if label != "."] for unit in seen]
    assert krippendorff_alpha(units) == pytest.approx(0.743, abs=0.001)


def test_alpha_is_unknown_where_all_say_the_same_or_nobody_labelled_a_pair_twice():
    assert krippendorff_alpha([["a", "a"], ["a", "a"]]) is None
    assert krippendorff_alpha([["a"], ["b"]]) is None
    assert krippendorff_alpha([["a", "a"], ["b", "b"]]) == 1


def test_people_who_saw_the_answers_in_another_order_agree():
    seen = raters([a_label("q", "ann", "a"), a_label("q ", "bo", "b", "y", "x"), a_label("p", "ann", "b")])
    assert seen
    assert (seen.people, seen.pairs, list(seen.disagreements)) == (["ann", "bo"], 1, [])


def test_a_pair_on_which_people_differ_is_listed_with_what_each_said_last():
    labels = [a_label("q", "ann", "a"), a_label("q", "ann", "tie"), a_label("q", None, "a", "y", "x")]
    seen = raters(labels)
    assert seen
    (differ,) = seen.disagreements
    assert (differ.query, differ.a, dict(differ.said)) == ("q", "x", {"ann": "tie", "-": "b"})


def test_labels_of_one_person_alone_tell_nothing_of_several():
    assert raters([a_label("q", "ann", "a"), a_label("q", "ann", "b"), a_label("p", None, "a")]) is None
