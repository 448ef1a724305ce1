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
from harness.core.records import BUILT_LATER, Step
from harness.core.sampled_tokens import SampledTokens
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, objects_of_kinds, text_in
from harness.formats.training.origins import ImportedTrajectory
from harness.formats.turns import Message, Tool, Turn
from harness.rollouts.model_request import split_think


def content_text(content: JsonValue) -> str:
    """Return a message's content as text: parts by their text, others by their type."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part for part in (content if isinstance(content, list) else [content]) if isinstance(part, dict)]
    return "\n".join(str(p.get("text") or p.get("content") or f"[{p.get('type', 'part')}]") for p in parts)


def join_texts(thought: str | None, text: str | None) -> str | None:
    """Return a thought and, below it, the text that came with it; None for neither."""
    return "\n".join(filter(None, [thought, text])) or None


def steps_without_call(thought: str | None, text: str | None) -> list[Step]:
    """Return a thought and a text that came without a tool call as one step; no step for neither."""
    reasoning = join_texts(thought, text)
    return [Step(kind="reasoning" if thought else "message", reasoning=reasoning)] if reasoning else []


def function_step(name: str, call_id: str, arguments: JsonValue, *, output: str | None, reasoning: str | None) -> Step:
    """Return the call of a function tool as a step."""
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return Step(
        kind="tool",
        tool_type="function",
        tool_name=name,
        call_id=call_id,
        tool_input=arguments,
        tool_output=output,
        reasoning=reasoning,
    )


SYSTEM_ROLES = ("developer", "system")
_ROLES = ("assistant", "developer", "system", "tool", "user")


def read_messages(document: JsonObject) -> ImportedTrajectory:
    """Read one object. Raises ValueError saying what is wrong with it."""
    messages = checked_messages(document.get("messages"))
    system = [content_text(m.get("content")) for m in messages if m["role"] in SYSTEM_ROLES]
    talk = [m for m in messages if m["role"] not in SYSTEM_ROLES]
    if not talk or talk[0]["role"] != "user" or not content_text(talk[0].get("content")).strip():
        raise ValueError("the first message after the system's must be a user's, with a text")
    path, answer = steps_of_messages(talk[1:])
    tools = [object_in(t, "function") if "function" in t else t for t in objects_in(document, "tools")]
    offered = [str(tool.get("name")) for tool in tools]
    return ImportedTrajectory(
        format="messages",
        query=content_text(talk[0].get("content")),
        query_id=text_in(document, "query_id"),
        id=text_in(document, "id"),
        path=path,
        answer=answer,
        reward=number_in(document, "reward"),
        reference=text_in(document, "reference"),
        metadata=object_in(document, "metadata"),
        instructions="\n\n".join(system) or None,
        tool_names=tuple(dict.fromkeys(offered or [step.tool_name for step in path if step.tool_name])),
        models=(str(document["model"]),) if document.get("model") else (),
        temperature=number_in(document, "temperature"),
    )


def steps_of_messages(talk: Sequence[JsonObject]) -> tuple[tuple[Step, ...], str]:
    """Return the steps of what followed the query, and the answer: the last assistant's text, if no call came with it.

    The reasoning and text of a message belong to the first of its calls, as in rollouts made here.
    """
    results = {str(m.get("tool_call_id")): content_text(m.get("content")) for m in talk if m["role"] == "tool"}
    last = max(i for i, m in enumerate(talk) if m["role"] == "assistant")
    steps: list[Step] = []
    answer = ""
    for at, message in enumerate(talk):
        if message["role"] == "user":
            steps.append(Step(kind="message", reasoning=f"The user said: {content_text(message.get('content'))}"))
        elif message["role"] == "assistant":
            think_block, text = split_think(content_text(message.get("content") or message.get("refusal")))
            thought = content_text(message.get("reasoning_content") or message.get("reasoning")) or think_block
            calls = objects_in(message, "tool_calls")
            reasoning = join_texts(thought, text)
            for call in calls:
                function, call_id = object_in(call, "function") or object_in(call, "custom"), str(call.get("id"))
                if not function.get("name"):
                    raise ValueError("a tool call without a name")
                arguments, output = function.get("arguments", function.get("input")), results.get(call_id)
                steps.append(
                    function_step(str(function["name"]), call_id, arguments, output=output, reasoning=reasoning)
                )
                reasoning = None
            if calls:
                continue
            if at == last:
                answer, text = text, ""
            steps += steps_without_call(thought, text)
    return tuple(steps), answer


def checked_messages(messages: JsonValue) -> list[JsonObject]:
    """Return chat messages. Raises ValueError for none, for an unfit role, and where no message is an assistant's."""
    checked = objects_of_kinds(messages, "message", "role", _ROLES)
    if not any(message["role"] == "assistant" for message in checked):
        raise ValueError("no message is an assistant's")
    return checked


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
