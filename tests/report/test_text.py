"""Numbers as people read them."""

import pytest

from harness.core.rankings import GroupRanking, Signal
from harness.report.text import fixed, signal_words, signed


@pytest.mark.parametrize("nearly", [-0.0, -0.004, 0.004])
def test_what_is_rounded_to_nothing_has_no_minus(nearly: float) -> None:
    assert (fixed(nearly), signed(nearly)) == ("0.00", "+0.00")


def test_what_is_below_nothing_has_a_minus_sign() -> None:
    assert (fixed(-0.005001), signed(-1.25, 1)) == ("\N{MINUS SIGN}0.01", "\N{MINUS SIGN}1.2")


@pytest.mark.parametrize(
    ("signal", "p_value", "words"),
    [
        ("ok", 0.01, "clear (p 0.010)"),
        ("weak", 0.3, "unclear (p 0.30)"),
        ("ok", 1.0, "clear by a failure alone (the others: p 1.00)"),
    ],
)
def test_a_signal_that_a_failure_alone_makes_is_told_from_one_of_the_judges(
    signal: Signal, p_value: float, words: str
) -> None:
    ranking = GroupRanking(query="q", topology="arena", estimator="pooled", status="complete", signal=signal)
    assert signal_words(ranking.model_copy(update={"p_value": p_value})) == words
