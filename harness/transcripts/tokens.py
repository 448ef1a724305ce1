"""How many tokens a text takes: by tiktoken where it is installed, else by a stated estimate."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ESTIMATE = "estimate"
_TIKTOKEN = "tiktoken:"
_DATA = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_FILES = {"o200k_harmony": "o200k_base"}
"""Encodings whose data stand in another's file."""
_PIECE = 4000
"""Characters counted at a time: a tokenizer's time, and its stack, can grow with the square of a text's length."""

TokenCounter = Callable[[str], int]
"""Returns how many tokens a text takes."""


@dataclass(frozen=True)
class TokenBudget:
    """The tokens that one transcript may take, and how they are counted."""

    tokens: int
    count: TokenCounter

    def holds(self, *texts: str) -> bool:
        """Return whether the texts fit; counting ends as soon as they do not."""
        left = self.tokens
        for text in texts:
            for at in range(0, len(text), _PIECE):
                left -= self.count(text[at : at + _PIECE])
                if left < 0:
                    return False
        return True


def transcript_budget(both: int, counter: str) -> TokenBudget | None:
    """Return what each of two transcripts may take of `both` tokens, counted by `counter`; None for 0: no limit."""
    return TokenBudget(both // 2, count_by(counter)) if both else None


def estimate_tokens(text: str) -> int:
    """Estimate tokens as UTF-8 bytes / 4, rounded up: 4 characters of English a token, 2 of Cyrillic, 4/3 of CJK."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def counter_for(model: str | None) -> str:
    """Name the counter for a judge: a tiktoken encoding that is on this machine already, else the estimate.

    Nothing is downloaded. tiktoken itself would download an encoding, so its cache is looked at first.
    """
    try:
        import tiktoken  # noqa: PLC0415 - optional, and slow to import

        name = tiktoken.encoding_name_for_model(model or "")
    except Exception:  # noqa: BLE001 - not installed, broken, or a model that it does not know
        return ESTIMATE
    return f"{_TIKTOKEN}{name}" if _encoding(name) else ESTIMATE


def can_count_by(counter: str) -> bool:
    """Return whether this machine can count by `counter`."""
    return counter == ESTIMATE or _encoding(counter.removeprefix(_TIKTOKEN)) is not None


def count_by(counter: str) -> TokenCounter:
    """Return the counter of that name; the estimate where the encoding is not on this machine."""
    encoding = None if counter == ESTIMATE else _encoding(counter.removeprefix(_TIKTOKEN))
    return estimate_tokens if encoding is None else lambda text: len(encoding.encode_ordinary(text))


def _encoding(name: str) -> Any:
    """Return an encoding of tiktoken's, None where its data are not in tiktoken's cache.

    tiktoken reads the process's environment for its cache folder, so this does too: an environment passed in as an
    argument could name another folder than the one that tiktoken then reads.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":  # switches tiktoken's cache off
        return None
    try:
        import tiktoken  # noqa: PLC0415 - as above

        cache = Path(tempfile.gettempdir(), "data-gym-cache") if folder is None else Path(folder)
        file = hashlib.sha1(_DATA.format(_FILES.get(name, name)).encode(), usedforsecurity=False).hexdigest()
        return tiktoken.get_encoding(name) if (cache / file).is_file() else None
    except Exception:  # noqa: BLE001 - a broken cache is no reason to stop
        return None
