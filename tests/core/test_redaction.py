"""Keys and what patterns name are taken out of every text; what records find one another by stays."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.store import MemoryStore
from harness.core.errors import UsageError
from harness.core.records import Query, Rollout
from harness.core.redaction import MARK, Redactor
from tests.builders import judgeds, queries, rollouts

KEY = "sk-very-secret-123"


@given(st.text(), st.text())
def test_no_text_keeps_a_key(before: str, after: str):
    assert KEY not in Redactor([KEY])(before + KEY + after)


@given(rollouts)
def test_without_anything_to_take_out_a_record_is_itself(rollout: Rollout):
    assert Redactor([KEY]).record(rollout) is rollout


@given(rollouts, st.sampled_from(["instructions", "query", "run"]))
def test_a_key_is_in_no_field_of_a_record(rollout: Rollout, field: str):
    kept = Redactor([KEY]).record(rollout.model_copy(update={field: f"x{KEY}"}))
    assert KEY not in kept.model_dump_json()


@given(rollouts)
def test_a_pattern_that_fits_everything_leaves_ids_kinds_and_numbers(rollout: Rollout):
    kept = Redactor(patterns=[r"(?s).+"]).record(rollout)
    for name in ("run", "query", "index", "role", "status", "raw_calls", "fingerprint", "started_at", "usage"):
        assert getattr(kept, name) == getattr(rollout, name)
    assert [(s.kind, s.call_id, s.tool_type) for s in kept.trajectory.path] == [
        (s.kind, s.call_id, s.tool_type) for s in rollout.trajectory.path
    ]
    texts = [kept.trajectory.answer, *(s.tool_output for s in kept.trajectory.path)]
    assert set(texts) <= {MARK, "", None}


@given(queries, judgeds)
def test_redacting_twice_changes_nothing_more(query: Query, verdict: Any):
    redact = Redactor([KEY], [r"\d{3,}", "[xyz]"])
    for record in (query, verdict):
        assert redact.record(redact.record(record)) == redact.record(record)


def test_json_stays_json_and_keeps_what_it_is_found_by():
    told = [
        {"type": "function_call", "call_id": "call-12", "name": "f", "arguments": '{"a": "12\\"3"}', "sha": "12" * 32}
    ]
    kept = json.loads(Redactor(patterns=["12"]).blob(json.dumps(told)))
    assert kept == [told[0] | {"arguments": f'{{"a": "{MARK}\\"3"}}'}]


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef123456",
        '{"authorization": "Basic dXNlcjpwYXNz"}',
        "AUTHORIZATION=token zzzzzzzzzz",
    ],
)
def test_authorization_values_go_whatever_the_key(text: str):
    kept = Redactor()(text)
    assert MARK in kept
    assert not any(value in kept for value in ("abcdef123456", "dXNlcjpwYXNz", "zzzzzzzzzz"))


def test_the_beginning_of_a_key_at_the_end_of_a_cut_text_goes_too():
    assert Redactor([KEY])(f"Incorrect key: {KEY[:12]}") == f"Incorrect key: {MARK}"


@pytest.mark.parametrize("word", ["ollama", "none", "x", "EMPTY"])
def test_a_word_that_stands_for_no_key_is_left_alone(word: str):
    assert Redactor([word])(f"I run {word} here") == f"I run {word} here"


def broken(text: str) -> str:
    raise ValueError(text)


@pytest.mark.parametrize("hook", [broken, lambda text: None, sys.exit])
def test_a_hook_that_gives_no_text_is_an_error_that_names_it(hook: Any):
    with pytest.raises(UsageError, match=r"redact\(text\)"):
        Redactor(hook=hook)("x")


def test_a_store_redacts_all_that_it_keeps():
    store = MemoryStore(Redactor([KEY], ["moon"]))
    name = store.put_blob(f"{KEY} on the moon")
    store.add_query(Query(id="moon", text="the moon"))
    assert store.blobs[name] == f"{MARK} on the {MARK}"
    assert store.queries == [Query(id="moon", text=f"the {MARK}")]
