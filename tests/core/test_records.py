"""Records made of values that fit for certain: the same as those whose values are checked."""

import pytest
from pydantic import ValidationError

from harness.core.rankings import Match, Ranked
from harness.core.records import Record, record_of, to_json

MATCH = Match(
    round=1,
    a=0,
    b=2,
    verdicts=("k0", "k1"),
    shown_first=(0, 2),
    score_a=5.5,
    score_b=4.0,
    winner=0,
    flipped=False,
    inconsistent=True,
    scores=((5.5, 4.0), (4.0, 4.0)),
)


@pytest.mark.parametrize("checked", [MATCH, Ranked(index=3, score=1.25, rank=0.5)], ids=["match", "place"])
def test_a_record_of_values_that_fit_is_the_one_that_is_checked(checked: Record) -> None:
    made = record_of(type(checked), {name: getattr(checked, name) for name in type(checked).model_fields})
    assert made == checked
    assert to_json(made) == to_json(checked)
    name = next(iter(type(checked).model_fields))
    changed = made.model_copy(update={name: 77})
    assert (changed == checked, made == checked) == (False, True)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, name, 77)
