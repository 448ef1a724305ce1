"""Chat messages from elsewhere as turns: each run of messages that the model said is a turn, all before it its context.

Messages stay as they came, but for what has one form here: arguments of tool calls are text, reasoning stands under
`reasoning_content`, and what speaks of a message's tokens, or of its weight in training, becomes the turn's.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pydantic import JsonValue, TypeAdapter, ValidationError

from harness.core.errors import quoted
from harness.core.records import BUILT_LATER
from harness.core.sampled_tokens import SampledTokens
from harness.formats.json_values import JsonObject, object_in, objects_in, text_in
from harness.formats.messages import checked_messages
from harness.formats.turns import Message, Tool, Turn

_TOKEN_KEYS = ("prompt_token_ids", "token_ids", "logprobs")
_NOT_SAID = {"weight", *_TOKEN_KEYS}
_Tokens = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...] | None]
_TOKENS: TypeAdapter[_Tokens] = TypeAdapter(_Tokens, config=BUILT_LATER)


def conversation_of(document: JsonObject) -> Turn:
    """Return a turn without messages, which holds the tools that all turns of a conversation were offered.

    Raises ValueError.
    """
    tools: list[Tool] = []
    hosted: list[str] = []
    for tool in objects_in(document, "tools"):
        if tool.get("type", "function") != "function":
            hosted.append(f"hosted tool {tool.get('name') or tool['type']}")
            continue
        # without `function` as the Responses API has them
        made = {"function": {k: v for k, v in tool.items() if k != "type"}} if "function" not in tool else tool
        if not _is_name(object_in(made, "function").get("name")):
            raise ValueError("a tool without a name")
        tools.append(dict(made) if "type" in made else {"type": "function", **made})
    return Turn(None, None, (), (), tools=tuple(tools), lost_tools=tuple(hosted))


def turn_of(
    conversation: Turn, messages: Sequence[Message], begin: int, end: int, tokens: SampledTokens | None = None
) -> Turn:
    """Return the turn in which the model said the messages from `begin` to before `end`."""
    return replace(conversation, context=tuple(messages[:begin]), completion=tuple(messages[begin:end]), tokens=tokens)


def turns_of_messages(messages: Sequence[JsonObject], conversation: Turn) -> tuple[Turn, ...]:
    """Return the turns of a conversation, whose roles are checked already. Raises ValueError.

    A message of the assistant with `"weight": 0` is one that the model did not say there.
    """
    plain, turns = plain_messages(messages), list[Turn]()
    mask = [message["role"] == "assistant" and message.get("weight") != 0 for message in messages]
    for begin, end in masked_runs(mask):
        prompt, ids, logprobs = (messages[begin].get(key) for key in _TOKEN_KEYS)
        tokens = None
        if end == begin + 1 and isinstance(ids, list):  # of several messages nobody knows which tokens are whose
            if isinstance(logprobs, dict):  # as Chat Completions has them
                logprobs = [entry.get("logprob") for entry in objects_in(logprobs, "content")]
            tokens = sampled_tokens(prompt or [], ids, logprobs, f"message {end}")
        turns.append(turn_of(conversation, plain, begin, end, tokens))
    return tuple(turns)


def turns_after(prompt: Sequence[JsonObject], reply: Sequence[JsonObject], document: JsonObject) -> tuple[Turn, ...]:
    """Return the turns of a reply, after a prompt of which the model said nothing. Raises ValueError."""
    messages = checked_messages([dict(message) for message in (*prompt, *reply)])
    shown = [{**message, "weight": 0} for message in messages[: len(prompt)]]
    turns = turns_of_messages([*shown, *messages[len(prompt) :]], conversation_of(document))
    if not turns:
        raise ValueError("no message is one that the assistant said there")
    return turns


def masked_runs(mask: Sequence[object]) -> Iterator[tuple[int, int]]:
    """Yield where each run of what is true in a mask begins, and where it has ended."""
    at = 0
    for is_said, run in groupby(mask, key=bool):
        length = sum(1 for _ in run)
        if is_said:
            yield at, at + length
        at += length


def plain_messages(messages: Sequence[JsonObject]) -> list[Message]:
    """Return messages in the form that they have here. Raises ValueError."""
    made: list[Message] = []
    for number, message in enumerate(messages, 1):
        if not isinstance(message.get("content"), str | list | None):
            raise ValueError(f"message {number}: `content` must be a text or a list of parts")  # noqa: TRY004 - a fault of the file
        plain: Message = {key: value for key, value in message.items() if key not in _NOT_SAID}
        if (reasoning := plain.pop("reasoning", None)) and "reasoning_content" not in plain:
            plain = {"reasoning_content": reasoning} | plain
        if "tool_calls" in plain:
            plain["tool_calls"] = calls = [dict(call) for call in objects_in(message, "tool_calls")]
            for call in calls:
                if "function" not in call:
                    continue  # a custom tool's: its input is a text
                function = object_in(call, "function")
                if not _is_name(function.get("name")):
                    raise ValueError(f"message {number}: a tool call without a name")
                arguments = function.get("arguments", "{}")
                if not isinstance(arguments, str):
                    arguments = json.dumps(arguments, ensure_ascii=False)
                call["function"] = {**function, "arguments": arguments}
        made.append(plain)
    return made


def _is_name(value: JsonValue) -> bool:
    return isinstance(value, str) and bool(value)


def sampled_tokens(prompt: JsonValue, ids: JsonValue, logprobs: JsonValue, where: str) -> SampledTokens:
    """Return tokens as a file names them. Raises ValueError saying `where`."""
    try:
        tokens = SampledTokens(*_TOKENS.validate_python((prompt, ids, logprobs)))
    except ValidationError as exc:
        reason = exc.errors()[0]["msg"]
        raise ValueError(f"{where}: token ids must be whole numbers, logprobs numbers ({reason})") from None
    if tokens.logprobs is not None and len(tokens.logprobs) != len(tokens.ids):
        raise ValueError(f"{where}: {len(tokens.logprobs)} logprobs for {len(tokens.ids)} token ids")
    return tokens


_READ = set(
    "messages query_id id reward reference metadata model temperature tools agent response_format output_schema".split()
)


def turns_of_chat(document: JsonObject) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    """Return the turns of an object with `messages`, whose roles are checked already, and what has no place in them.

    Each thing by its name. Raises ValueError.
    """
    asked = object_in(object_in(document, "response_format"), "json_schema")
    schema = object_in(asked, "schema") or object_in(document, "output_schema") or None
    agent, model, messages = text_in(document, "agent"), text_in(document, "model"), objects_in(document, "messages")
    conversation = replace(conversation_of(document), agent=agent, model=model, output_schema=schema)
    unplaced = [f"the key {quoted(key)}" for key in document if key not in _READ]
    if any("logprobs" in message and "token_ids" not in message for message in messages):
        unplaced.append("logprobs without token_ids")
    return turns_of_messages(messages, conversation), tuple(unplaced)
