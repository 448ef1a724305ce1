"""Queries, packed."""

import pytest

from harness.core.records import Query, to_json
from harness.formats.queries import PackedQueries

PLAIN = Query(id="q1", text="Why is the sky blue?")
FULL = Query(
    id="q2",
    text="user: \u00c4rzte \U0001f600",
    items=({"role": "user", "content": [{"type": "input_text", "text": "\u00c4rzte"}]}, {"type": "x", "n": None}),
    reference="Because.",
    metadata={"year": 2**70, "share": 0.5, "of": ["a", {"b": True}]},
    origin_id="theirs",
    redacted=True,
)


def test_queries_come_back_as_they_were_packed():
    packed = PackedQueries(iter([PLAIN, FULL]))
    assert list(packed) == [PLAIN, FULL]
    assert [to_json(query) for query in packed] == [to_json(PLAIN), to_json(FULL)]
    assert (packed[-1], packed[:1], len(packed)) == (FULL, [PLAIN], 2)
    assert FULL in packed
    with pytest.raises(IndexError):
        _ = packed[2]


def test_no_queries_are_false_as_an_empty_list_is():
    assert not PackedQueries([])
