"""Counting tokens: by tiktoken only where its data are on this machine already."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.judging.transcript_form import recorded_form
from harness.transcripts.tokens import ESTIMATE, can_count_by, count_by, counter_for, estimate_tokens, transcript_budget
from harness.transcripts.transcript import RENDERING
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))


def test_a_token_is_estimated_as_four_bytes_of_utf_8() -> None:
    assert [estimate_tokens(t) for t in ("", "four", "five!", "日本語", "\ud800")] == [0, 1, 2, 3, 1]


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5.2", "some-local-model", "", None])
def test_without_data_on_this_machine_tokens_are_estimated_and_nothing_is_downloaded(model: str | None) -> None:
    assert counter_for(model) == ESTIMATE


def test_a_counter_that_is_not_here_is_told_and_the_estimate_stands_in() -> None:
    assert not can_count_by("tiktoken:o200k_base")
    assert not can_count_by("tiktoken:no-such-encoding")
    assert can_count_by(ESTIMATE)
    assert count_by("tiktoken:o200k_base") is estimate_tokens


def test_no_cache_folder_at_all_is_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert counter_for("gpt-4o") == ESTIMATE


def test_each_of_two_transcripts_has_half_and_nought_is_no_limit() -> None:
    half = transcript_budget(32_000, ESTIMATE)
    assert half
    assert half.tokens == 16_000
    assert transcript_budget(0, ESTIMATE) is None


def test_a_ranking_s_transcripts_have_the_budget_that_its_header_states() -> None:
    told = recorded_form({"judge_budget": 900}, {"counter": ESTIMATE}, RENDERING).budget
    assert told
    assert told.tokens == 450


@pytest.mark.nightly
@pytest.mark.process
def test_importing_does_not_import_tiktoken() -> None:
    script = "import sys, harness.pipeline.runs; sys.exit('tiktoken' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0
