"""A rollout's model calls, whole: every request and reply, packed into one text and read back exactly.

A request mostly repeats the one before it, so only what changed is written: the input items that were added, and
the instructions, tools or schema if they are others. Long texts in it (system prompts, tool outputs, replies) recur in
the rollouts of a group, so each is kept once, under its hash, and referred to: `{"$text": sha256}`, or, for a structure
like the list of tools, `{"$json": sha256}`. An object of the request's own that looks so becomes `{"$own": ...}`.
`beside` is what a reply's body says and the SDK's object does not hold, as what differs from the reply before.

A list, one entry for each raw call: null, or `{"kept", "prompt", "ids", "logprobs"}`. Ids are little-endian 32-bit
integers, logprobs 64-bit floats, both in base64. A prompt mostly goes on from the reply before it, so only what comes
after the `kept` ids is written. Not compressed: a text of a stranger's must not swell.
"""

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from agents import ModelResponse
from openai.types.responses import Response
from pydantic import Field, TypeAdapter
from pydantic_core import PydanticSerializationError

from harness.archive.typed_records import checked
from harness.core.records import Record
from harness.core.sampled_tokens import SampledTokens
from harness.rollouts.model_request import common_start, input_items
from harness.rollouts.packed_calls import LONG, MARKS, PlainCall, unpacked

_MOST_IDS = 1 << 26
"""Of a rollout, all prompts together: `kept` lets a short text speak of many."""


class _PackedTokens(Record):
    kept: Annotated[int, Field(ge=0)]
    prompt: str
    ids: str
    logprobs: str | None = None


_TOKENS = TypeAdapter(list[_PackedTokens | None])


def pack_tokens(turns: Sequence[SampledTokens | None]) -> str:
    """Return the tokens of a rollout's raw calls, None where a call has none, as a text."""
    packed: list[str] = []
    before: tuple[int, ...] = ()
    for tokens in turns:
        if tokens is None:
            packed.append("null")
            continue
        kept = common_start(before, tokens.prompt_ids)
        prompt, ids = _as_base64("I", tokens.prompt_ids[kept:]), _as_base64("I", tokens.ids)
        logprobs = "" if tokens.logprobs is None else f',"logprobs":"{_as_base64("d", tokens.logprobs)}"'
        packed.append(f'{{"kept":{kept},"prompt":"{prompt}","ids":"{ids}"{logprobs}}}')  # base64 needs no escapes
        before = tokens.all_ids
    return f"[{','.join(packed)}]"


def unpack_tokens(text: str, where: object = "tokens") -> list[SampledTokens | None]:
    """Return what `pack_tokens` was given. Raises ArchiveDamaged naming `where` for a text that it never gave."""

    def read(text: str) -> list[SampledTokens | None]:
        turns: list[SampledTokens | None] = []
        before: tuple[int, ...] = ()
        total = 0
        for packed in _TOKENS.validate_python(json.loads(text)):
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

    return checked(text, read, where)


def _as_base64(kind: str, numbers: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}{kind}", *numbers)).decode()


def _numbers(kind: str, text: str) -> tuple[Any, ...]:
    data, size = base64.b64decode(text, validate=True), struct.calcsize(kind)
    if len(data) % size:
        raise ValueError("numbers that are not whole")
    numbers = struct.unpack(f"<{len(data) // size}{kind}", data)
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a logprob that is no number")
    return numbers


_RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)
_OUTPUT = TypeAdapter(list[dict[str, Any]])


@dataclass(frozen=True)
class RawCall:
    """What a model was sent (instructions, input, tools, handoffs, output schema), and the SDK's own reply object."""

    request: dict[str, Any]
    reply: ModelResponse
    beside: dict[str, Any] | None = None
    """What the body of the reply said that `reply` does not hold; None where that was not kept."""


def pack(calls: Iterable[RawCall], keep: Callable[[str], str], redact: Callable[[str], str] = str) -> str:
    """Return calls as JSON. `keep` stores a long text and returns its name; see `Packer`."""
    packer = Packer(keep, redact)
    return f"[{','.join(map(packer.add, calls))}]"


class Packer:
    """Packs calls one by one, each as what differs from the one before.

    A long text goes through `redact` first: `keep` may take a text that looks like JSON for a structure, and would
    write the text anew in another form, so that a replay would find it changed.

    Replies are dumped with `exclude_unset`: a plain dump writes null for unset fields, and those would change the next
    request when the reply is replayed.
    """

    def __init__(self, keep: Callable[[str], str], redact: Callable[[str], str] = str) -> None:
        """Begin without calls. `keep` stores a long text and returns its name."""
        self._keep, self._redact = keep, redact
        self._before: dict[str, Any] = {"input": ()}
        self._beside: dict[str, Any] = {}

    def add(self, call: RawCall) -> str:
        """Return the next call as JSON."""
        items, before = input_items(call.request), self._before
        kept = common_start(input_items(before), items)
        changed = {k: v for k, v in call.request.items() if k != "input" and (k not in before or before[k] != v)}
        parts = ",".join(f'"{k}":{self._part(v)}' for k, v in changed.items())
        text = "true" if isinstance(call.request["input"], str) else "false"
        new, reply = self._shortened(_dumped(list(items[kept:]))), self._shortened(_reply(call.reply))
        beside = "" if call.beside is None else self._changes(call.beside)
        self._before = call.request
        return f'{{"text":{text},"kept":{kept},"changed":{{{parts}}},"input":{new},"reply":{reply}{beside}}}'

    def _changes(self, beside: dict[str, Any]) -> str:
        """Return what stands beside a reply, as how it differs from what stood there before."""
        before, self._beside = self._beside, beside
        others = {k: v for k, v in beside.items() if k not in before or before[k] != v}
        fields = ",".join(f"{_dumped(k)}:{self._part(v)}" for k, v in others.items())
        changed = f'{{"$own":{{{fields}}}}}' if MARKS & others.keys() else f"{{{fields}}}"
        gone = [k for k in before if k not in beside]
        return f',"beside":{changed}' + (f',"gone":{_dumped(gone)}' if gone else "")

    def _part(self, value: Any) -> str:
        text = _dumped(value)
        if len(text) >= LONG and not isinstance(value, str):  # a structure that is kept as a whole: the tools
            return f'{{"$json":"{self._keep(text)}"}}'
        return self._shortened(text)

    def _shortened(self, text: str) -> str:
        if len(text) < LONG and '"$' not in text:
            return text
        return _dumped(_short(json.loads(text), lambda long: self._keep(self._redact(long))))


def unpack(text: str, get: Callable[[str], str], where: object = "raw calls") -> list[RawCall]:
    """Return what `pack` was given; `get` finds kept texts. Raises ArchiveDamaged naming `where` for any other text."""
    return checked(text, lambda text: with_objects(unpacked(text, get)), where)


def with_objects(calls: Iterable[PlainCall]) -> list[RawCall]:
    """Return calls with their replies as the SDK's objects. Raises ValueError for a reply that is none."""
    return [RawCall(request, _view(reply), beside) for request, reply, beside in calls]


def _view(reply: dict[str, Any]) -> ModelResponse:
    """Return a reply as the SDK's objects, made as the openai client makes them: an item may have any form.

    Raises ValueError where the client would have failed.
    """
    items = _OUTPUT.validate_python(reply.get("output"))
    try:
        output = Response.model_construct(output=items).output
    except RuntimeError as exc:  # what the client raises where no type of item can be made
        raise ValueError(str(exc)) from None
    view = _RESPONSE.validate_python(reply | {"output": []})
    view.output = output
    return view


_dumped = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""As json.dumps, which makes an encoder for each call; a replay compares with what that would give."""


def _short(value: Any, keep: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return {"$text": keep(value)} if len(value) >= LONG else value
    if isinstance(value, list | tuple):
        return [_short(v, keep) for v in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        fields = {k: _short(v, keep) for k, v in cast("dict[str, Any]", value).items()}
        return {"$own": fields} if MARKS & fields.keys() else fields
    return value


def _reply(reply: ModelResponse) -> str:
    try:
        return _RESPONSE.dump_json(reply, exclude_unset=True, warnings=False).decode()
    except PydanticSerializationError:  # a lone surrogate, which UTF-8 cannot hold and an escape can
        return json.dumps(_RESPONSE.dump_python(reply, mode="json", exclude_unset=True, warnings=False))
