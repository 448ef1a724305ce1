"""A language model of few random weights, and a tokenizer of bytes, made on the spot: nothing is downloaded."""

from pathlib import Path
from typing import Any

import pytest

WORDS = "Number look up assistant user system tool call"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tiny_tokenizer(template: str = "qwen3", *, text: str = WORDS, tokens: int = 300) -> Any:
    """Return a tokenizer whose tokens are bytes and what `text` repeats, with one of TRL's own chat templates."""
    tokenizers: Any = pytest.importorskip("tokenizers")
    transformers: Any = pytest.importorskip("transformers")
    trl: Any = pytest.importorskip("trl")
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator([text], vocab_size=tokens, special_tokens=SPECIAL)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made._tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja").read_text("utf-8")
    return tokenizer


def tiny_model(tokenizer: Any) -> Any:
    """Return a random Qwen3 of two small layers that knows the tokenizer's tokens. The same in every test."""
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    return transformers.Qwen3ForCausalLM(config)
