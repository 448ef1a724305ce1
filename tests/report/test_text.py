"""Numbers as people read them."""

import pytest

from harness.report.text import fixed, signed


@pytest.mark.parametrize("nearly", [-0.0, -0.004, 0.004])
def test_what_is_rounded_to_nothing_has_no_minus(nearly: float) -> None:
    assert (fixed(nearly), signed(nearly)) == ("0.00", "+0.00")


def test_what_is_below_nothing_has_a_minus_sign() -> None:
    assert (fixed(-0.005001), signed(-1.25, 1)) == ("\N{MINUS SIGN}0.01", "\N{MINUS SIGN}1.2")
