"""The tokens of a rollout's model calls, packed into one text and read back exactly.

A list, one entry for each raw call: null, or `{"kept", "prompt", "ids", "logprobs"}`. Ids are little-endian 32-bit
integers, logprobs 64-bit floats, both in base64. A prompt mostly goes on from the reply before it, so only what comes
after the `kept` ids is written. Not compressed: a text of a stranger's must not swell.
"""

import base64
import json
import math
import struct
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from harness.archive.typed_records import checked
from harness.core.records import Record
from harness.core.sampled_tokens import SampledTokens

_MOST_IDS = 1 << 26
"""Of a rollout, all prompts together: `kept` lets a short text speak of many."""


class _PackedTokens(Record):
    kept: Annotated[int, Field(ge=0)]
    prompt: str
    ids: str
    logprobs: str | None = None


_PACKED = TypeAdapter(list[_PackedTokens | None])


def pack_tokens(turns: Sequence[SampledTokens | None]) -> str:
    """Return the tokens of a rollout's raw calls, None where a call has none, as a text."""
    packed: list[str] = []
    before: tuple[int, ...] = ()
    for tokens in turns:
        if tokens is None:
            packed.append("null")
            continue
        kept = _common(before, tokens.prompt_ids)
        prompt, ids = _text("I", tokens.prompt_ids[kept:]), _text("I", tokens.ids)
        logprobs = "" if tokens.logprobs is None else f',"logprobs":"{_text("d", tokens.logprobs)}"'
        packed.append(f'{{"kept":{kept},"prompt":"{prompt}","ids":"{ids}"{logprobs}}}')  # base64 needs no escapes
        before = tokens.all_ids
    return f"[{','.join(packed)}]"


def unpack_tokens(text: str, where: object = "tokens") -> list[SampledTokens | None]:
    """Return what `pack_tokens` was given. Raises ArchiveDamaged naming `where` for a text that it never gave."""
    return checked(text, _unpacked, where)


def _unpacked(text: str) -> list[SampledTokens | None]:
    turns: list[SampledTokens | None] = []
    before: tuple[int, ...] = ()
    total = 0
    for packed in _PACKED.validate_python(json.loads(text)):
        if packed is None:
            turns.append(None)
            continue
        prompt, ids = _numbers("I", packed.prompt), _numbers("I", packed.ids)
        total += packed.kept + len(prompt)
        if packed.kept > len(before) or total > _MOST_IDS:
            raise ValueError("more ids are kept than there are")
        logprobs = None if packed.logprobs is None else _numbers("d", packed.logprobs)
        if logprobs is not None and len(logprobs) != len(ids):
            raise ValueError("there is not one logprob for each id")
        tokens = SampledTokens(before[: packed.kept] + prompt, ids, logprobs)
        turns.append(tokens)
        before = tokens.all_ids
    return turns


def _common(before: Sequence[int], after: Sequence[int]) -> int:
    """Return how many ids two lists begin with alike."""
    shorter = min(len(before), len(after))
    if before[:shorter] == after[:shorter]:
        return shorter
    return next(place for place in range(shorter) if before[place] != after[place])


def _text(kind: str, numbers: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}{kind}", *numbers)).decode()


def _numbers(kind: str, text: str) -> tuple[Any, ...]:
    data, size = base64.b64decode(text, validate=True), struct.calcsize(kind)
    if len(data) % size:
        raise ValueError("numbers that are not whole")
    numbers = struct.unpack(f"<{len(data) // size}{kind}", data)
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a logprob that is no number")
    return numbers
