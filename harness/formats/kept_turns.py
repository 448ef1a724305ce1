"""Turns as a text that the archive keeps: of rollouts from elsewhere, whose calls were never the SDK's objects.

A turn mostly begins with all messages of the turn before it, so only what was added is written.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from harness.archive.typed_records import checked
from harness.core.records import BUILT_LATER, Record
from harness.core.sampled_tokens import SampledTokens
from harness.formats.json_values import length_in_common
from harness.formats.turns import Message, Tool, Turn


class _KeptTokens(Record):
    kept: Annotated[int, Field(ge=0)] = 0
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None


class _KeptTurn(Record):
    kept: Annotated[int, Field(ge=0)] = 0
    """How many messages of the turn before the context begins with; `context` holds those after them."""
    context: tuple[Message, ...]
    completion: tuple[Message, ...]
    agent: str | None = None
    model: str | None = None
    within: str | None = None
    tools: tuple[Tool, ...] | None = None
    """None: those of the turn before."""
    output_schema: dict[str, Any] | None = None
    lost: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = ((), (), ())
    tokens: _KeptTokens | None = None


_KEPT: TypeAdapter[list[_KeptTurn]] = TypeAdapter(list[_KeptTurn], config=BUILT_LATER)


def pack_turns(turns: Iterable[Turn]) -> str:
    """Return turns as JSON."""
    packed: list[dict[str, Any]] = []
    before: Turn | None = None
    for turn in turns:
        kept = length_in_common(turn.context, before.messages if before else ())
        fields: dict[str, Any] = {"kept": kept, "context": turn.context[kept:], "completion": turn.completion}
        fields |= {name: value for name in ("agent", "model", "within") if (value := getattr(turn, name)) is not None}
        if before is None or turn.tools != before.tools:
            fields["tools"] = turn.tools
        if turn.output_schema:
            fields["output_schema"] = dict(turn.output_schema)
        if turn.lost:
            fields["lost"] = (turn.lost_context, turn.lost_completion, turn.lost_tools)
        if tokens := turn.tokens:
            kept = length_in_common(tokens.prompt_ids, before.tokens.all_ids if before and before.tokens else ())
            fields["tokens"] = {"kept": kept, "prompt_ids": tokens.prompt_ids[kept:], "ids": tokens.ids}
            fields["tokens"] |= {} if tokens.logprobs is None else {"logprobs": tokens.logprobs}
        packed.append(fields)
        before = turn
    return json.dumps(packed, ensure_ascii=False)


def unpack_turns(text: str, where: object) -> tuple[Turn, ...]:
    """Return what `pack_turns` was given. Raises ArchiveDamaged naming `where` for a text that it never gave."""
    return checked(text, _unpacked, where)


def _unpacked(text: str) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    shown: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    ids: tuple[int, ...] = ()
    for kept in _KEPT.validate_python(json.loads(text)):
        tools, told, tokens = tools if kept.tools is None else kept.tools, kept.tokens, None
        if told:
            tokens = SampledTokens((*ids[: told.kept], *told.prompt_ids), told.ids, told.logprobs)
        turn = Turn(
            agent=kept.agent,
            model=kept.model,
            context=(*shown[: kept.kept], *kept.context),
            completion=kept.completion,
            tools=tools,
            output_schema=kept.output_schema,
            within=kept.within,
            lost_context=kept.lost[0],
            lost_completion=kept.lost[1],
            lost_tools=kept.lost[2],
            tokens=tokens,
        )
        shown, ids = turn.messages, tokens.all_ids if tokens else ()
        turns.append(turn)
    return tuple(turns)
