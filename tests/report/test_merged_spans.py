"""Spans of time that touch or overlap become one."""

import random
from datetime import UTC, datetime
from itertools import pairwise

from harness.report.summary.group import merged_spans

AT = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def test_merged_spans_cover_each_microsecond_that_a_span_covers_and_no_other():
    chance = random.Random(0)

    def moment(at: int) -> float:
        return AT + at / 1e6

    for _ in range(200):
        drawn = [(begin := chance.randrange(60), begin + chance.randrange(8)) for _ in range(chance.randrange(1, 12))]
        spans = merged_spans((moment(begin), moment(end)) for begin, end in drawn)
        merged = [(round(1e6 * (begin - AT)), round(1e6 * (end - AT))) for begin, end in spans]
        assert all(end < begin for (_, end), (begin, _) in pairwise(merged)), "in order, and none touch"
        assert all(any(b <= begin and end <= e for b, e in merged) for begin, end in drawn)
        assert {begin for begin, _ in merged} <= {begin for begin, _ in drawn}
        assert {end for _, end in merged} <= {end for _, end in drawn}


def test_nothing_makes_no_span():
    assert list(merged_spans([])) == []
