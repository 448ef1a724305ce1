"""How many tokens a text takes: by tiktoken where that is at hand, else by a stated estimate."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from harness.transcripts.render import Budget, Count, estimate_tokens

ESTIMATE = "estimate"
_DATA = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_FILES = {"o200k_harmony": "o200k_base"}
"""Encodings whose data stand in another's file."""


def transcript_budget(both: int, counter: str) -> Budget | None:
    """Return what each of two transcripts may take of `both` tokens, counted by `counter`; None for 0: no limit."""
    return Budget(both // 2, count_by(counter)) if both else None


def recorded_budget(settings: Mapping[str, JsonValue], judge: Mapping[str, JsonValue]) -> Budget | None:
    """Return the budget that a ranking's header states; rankings from before there was one had no limit."""
    both = settings.get("judge_budget")
    return transcript_budget(both if isinstance(both, int) else 0, str(judge.get("counter", ESTIMATE)))


def counter_for(model: str | None) -> str:
    """Name the counter for a judge: a tiktoken encoding that is on this machine already, else the estimate.

    Nothing is downloaded: tiktoken would, so its own cache is looked at first.
    """
    try:
        import tiktoken  # noqa: PLC0415 - optional, and slow to import

        name = tiktoken.encoding_name_for_model(model or "")
    except Exception:  # noqa: BLE001 - not installed, broken, or a model that it does not know
        return ESTIMATE
    return f"tiktoken:{name}" if _encoding(name) else ESTIMATE


def is_at_hand(counter: str) -> bool:
    """Tell whether this machine can count by `counter`."""
    return counter == ESTIMATE or _encoding(counter.removeprefix("tiktoken:")) is not None


def count_by(counter: str) -> Count:
    """Return the counter of that name; the estimate where the encoding is not on this machine."""
    encoding = _encoding(counter.removeprefix("tiktoken:")) if counter != ESTIMATE else None
    return estimate_tokens if encoding is None else lambda text: len(encoding.encode_ordinary(text))


def _encoding(name: str) -> Any:
    try:
        import tiktoken  # noqa: PLC0415 - as above

        return tiktoken.get_encoding(name) if _cached(_FILES.get(name, name)) else None
    except Exception:  # noqa: BLE001 - a broken cache is no reason to stop
        return None


def _cached(file: str) -> bool:
    """Tell whether tiktoken has an encoding's data, where its own loader looks for them."""
    told = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    folder = Path(tempfile.gettempdir(), "data-gym-cache") if told is None else Path(told)
    name = hashlib.sha1(_DATA.format(file).encode(), usedforsecurity=False).hexdigest()
    return bool(told != "") and (folder / name).is_file()
