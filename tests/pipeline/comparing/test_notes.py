"""Which models are of one family, by their names alone."""

import pytest

from harness.pipeline.comparing.compare import family_of


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
    assert family_of(model) == family
