"""What a bill with an unknown part comes to."""

import pytest

from harness.core.records import sum_if_known


@pytest.mark.parametrize(
    ("figures", "expected"),
    [([], 0.0), ([0.1] * 10, 1.0), ([1.5, None], None), ([None], None), ([0.25, 0.5], 0.75)],
)
def test_a_sum_with_an_unknown_part_is_unknown(figures: list[float | None], expected: float | None) -> None:
    assert sum_if_known(figures) == expected
    assert sum_if_known(iter(figures)) == expected
