"""Which models are of one family, by their names alone, and what a comparison notes of old intervals."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.pipeline.comparing.compare import model_family
from harness.pipeline.comparing.outcome import comparison_of
from tests.comparisons_by_hand import make, stored


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-5.2-mini", "gpt"),
        ("openai/gpt-oss-120b", "gpt"),
        ("o3-mini", "gpt"),
        ("ft:gpt-4o:acme::x", "gpt"),
        ("claude-opus-5", "claude"),
        ("us.anthropic.claude-sonnet-4-5-v1:0", "claude"),
        ("meta-llama/Llama-3.3-70B", "llama"),
        ("qwen2.5-coder", "qwen"),
        ("mistralai/Mixtral-8x22B", "mistral"),
        ("7b", "7b"),
    ],
)
def test_a_family_is_told_by_the_models_name(model: str, family: str):
    assert model_family(model) == family


@pytest.mark.parametrize(("sizes", "noted"), [((5, 1, 1, 1), True), ((2, 2, 2, 2), False)])
def test_a_comparison_of_0_2_0_whose_clusters_differ_in_size_says_so(
    sizes: tuple[int, ...], noted: bool, tmp_path: Path
):
    kinds = [kind for kind, size in zip("abcd", sizes, strict=True) for _ in range(size)]
    made = make(8)
    queries = [
        query.model_copy(update={"metadata": {"kind": kind}}) for query, kind in zip(made.queries, kinds, strict=True)
    ]
    with stored(tmp_path, replace(made, queries=tuple(queries)), cluster="kind") as reader:
        said = comparison_of(reader)
    assert any("differ in size" in note for note in said.notes) == noted
