"""Files of other programs: how each shows itself, and its trajectories as chats.

A row of SHAPES holds a format: its recogniser and its reader. A reader names all that it reads of a row; the rest goes
into the metadata, or is named. Held against TRL 1.16, verifiers 0.1.14 (rows) and 0.4.0 (traces; prime-rl writes what
these do), NeMo Gym's example_rollouts.jsonl of November 2026, ShareGPT and Alpaca as LLaMA-Factory has them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pydantic import JsonValue

from harness.core.errors import counted, quoted
from harness.formats.eval_logs import is_evals, is_promptfoo, read_evals, read_inspect, read_otlp, read_promptfoo
from harness.formats.foreign_chats import ForeignChat, as_call, as_message, left_names, left_over, make_chat, prompted
from harness.formats.json_values import JsonObject, number_in, object_in, objects_in, parse_json, text_in
from harness.formats.turns import Message, messages_of_items

ForeignFormat = Literal[
    "kto",
    "prompt-completion",
    "verifiers",
    "nemo-gym",
    "sharegpt",
    "alpaca",
    "openai-evals",
    "promptfoo",
    "inspect",
    "responses",
    "otlp",
]


@dataclass(frozen=True)
class Shape:
    """A format: whether an object is of it, and the chats in it. With `whole`, all objects of a file are one."""

    shown: Callable[[JsonObject], bool]
    read: Callable[[JsonObject], Iterator[ForeignChat]]
    whole: bool = False


def _kto(row: JsonObject) -> Iterator[ForeignChat]:
    if not isinstance(row.get("label"), bool):
        raise ValueError("`label` must be true or false")  # noqa: TRY004 - a fault of the file
    yield prompted(row, "", reward=float(bool(row["label"])))


def _verifiers(row: JsonObject) -> Iterator[ForeignChat]:
    if "traces" in row:
        for trace in objects_in(row, "traces"):
            for chat in _verifiers_trace(trace):
                metadata = {**object_in(chat.document, "metadata"), "episode": left_over(row, "traces")}
                yield replace(chat, document={**chat.document, "metadata": metadata})
    elif "nodes" in row:
        yield from _verifiers_trace(row)
    else:
        tools: list[JsonValue] = [{"type": "function", "function": dict(t)} for t in objects_in(row, "tool_defs")]
        task, example = row.get("task"), text_in(row, "example_id")
        yield prompted(
            row,
            "reward answer tool_defs",
            tools=tools or row.get("tools"),
            query_id=f"{task} {example}" if isinstance(task, str) and example else example,
            reward=number_in(row, "reward"),
            reference=row.get("answer"),
            failed=row.get("error"),
        )


_NODE = "parent message sampled token_ids mask logprobs timestamp tools"


def _verifiers_trace(row: JsonObject) -> Iterator[ForeignChat]:
    """Yield the longest branch of a graph of messages."""
    nodes, task, agent = objects_in(row, "nodes"), object_in(row, "task"), object_in(row, "agent")
    paths: list[list[int]] = []
    for at, node in enumerate(nodes):
        parent = node.get("parent")
        if parent is not None and not (isinstance(parent, int) and 0 <= parent < at):
            raise ValueError(f"node {at}: `parent` is {quoted(parent)}, no node before it")
        paths.append([*(paths[parent] if isinstance(parent, int) else ()), at])
    path = max(paths, key=len, default=list[int]())
    messages: list[Message] = []
    ids: list[JsonValue] = []
    for at in path:
        node, message = nodes[at], as_message(object_in(nodes[at], "message"))
        own = cast("list[int]", node.get("token_ids") or [])
        mask = cast("list[bool]", node.get("mask") or [])
        if node.get("sampled") and True in mask and len(mask) == len(own):
            begin, sampled = mask.index(True), [token for token, said in zip(own, mask, strict=True) if said]
            message |= {"prompt_token_ids": [*ids, *own[:begin]], "token_ids": sampled}
            message |= {"logprobs": node["logprobs"]} if node.get("logprobs") else {}
        elif message.get("role") == "assistant" and not node.get("sampled"):
            message["weight"] = 0
        ids += own
        messages.append(message)
    rewards = [object_in(object_in(row, "rewards"), name) for name in left_over(object_in(row, "rewards"), "")]
    earned = [(number_in(each, "score") or 0.0) * float(str(each.get("weight", 1))) for each in rewards]
    name, key = agent.get("name", "agent"), text_in(task, "key") or text_in(task, "hash")
    aside = len(nodes) - len(path)
    unplaced = [f"{counted(aside, 'message')} of other branches"] if aside else []
    unplaced += [what for node in nodes for what in left_names(node, _NODE, "a message")]
    yield make_chat(
        row,
        "nodes tools id errors",
        messages,
        unplaced=unplaced,
        id=row.get("id"),
        query_id=key if name == "agent" or not key else f"{key} {name}",
        reward=sum(earned) if earned else None,
        reference=text_in(object_in(task, "data"), "answer"),
        tools=[{"type": "function", "function": dict(tool)} for tool in objects_in(row, "tools")],
        failed=row.get("errors") if row.get("ok") is False else None,
    )


_ITEM = "type role content summary call_id name arguments output id status"


def _answered(row: JsonObject, read: str, asked: JsonObject, reply: JsonObject, **said: Any) -> ForeignChat:
    """Return the chat of a request to the Responses API with its response."""
    given, output = asked.get("input"), objects_in(reply, "output")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects_in(asked, "input")
    if not items:
        raise ValueError("it lacks the input: what was asked stands nowhere in it")
    system = asked.get("instructions") or reply.get("instructions")
    (before, lost), (after, lost_after) = messages_of_items(items), messages_of_items(output)
    messages = [*([{"role": "system", "content": system}] if system else ()), *({**m, "weight": 0} for m in before)]
    unplaced = [
        *lost,
        *lost_after,
        *(name for item in (*items, *output) for name in left_names(item, _ITEM, "an item")),
    ]
    for item in (*items, *output):
        parts = objects_in(item, "content") if isinstance(item.get("content"), list) else ()
        unplaced += [
            name for part in (*parts, *objects_in(item, "summary")) for name in left_names(part, "type text", "a part")
        ]
    echoed = [name for name in ("instructions", "tools") if not asked.get(name) or asked.get(name) == reply.get(name)]
    more = {
        "request": left_over(asked, "input instructions tools"),
        "response": left_over(reply, " ".join(("output model", *echoed))),
    }
    beside = {key: value for key, value in row.items() if key not in read.split()} | more
    return make_chat(
        beside,
        "",
        (*messages, *after),
        unplaced=unplaced,
        tools=asked.get("tools") or reply.get("tools"),
        model=reply.get("model") or asked.get("model"),
        temperature=asked.get("temperature") or reply.get("temperature"),
        failed=reply.get("error"),
        **said,
    )


def _nemo_gym(row: JsonObject) -> Iterator[ForeignChat]:
    asked, read = object_in(row, "responses_create_params"), "responses_create_params response reward"
    if not row.get("response"):
        raise ValueError("it lacks the response: it is a task, to be run")
    said = {"query_id": text_in(row, "_ng_task_index"), "reward": number_in(row, "reward")}
    yield _answered(row, read, asked, object_in(row, "response"), **said)


def _responses(row: JsonObject) -> Iterator[ForeignChat]:
    if "request" in row:
        yield _answered(row, "request response", object_in(row, "request"), object_in(row, "response"))
    elif isinstance(row.get("output"), dict):
        yield _answered(row, "input output", {"input": row.get("input")}, object_in(row, "output"))
    else:
        yield _answered({}, "", {"input": row.get("input")}, {k: v for k, v in row.items() if k != "input"})


_SHAREGPT: Mapping[object, str] = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "function_call"), "assistant"),
    **dict.fromkeys(("observation", "tool", "function_response"), "tool"),
    "system": "system",
}


def _sharegpt(row: JsonObject) -> Iterator[ForeignChat]:
    if {"chosen", "rejected"} <= row.keys():
        raise ValueError("preferences of this shape lack messages: give `prompt`, `chosen` and `rejected`")
    messages: list[Message] = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    unplaced: list[str] = []
    calls = 0
    for number, entry in enumerate(objects_in(row, "conversations"), 1):
        source, value = entry.get("from"), entry.get("value")
        if source not in _SHAREGPT:
            raise ValueError(f"entry {number}: `from` is {quoted(source)}, not one of {', '.join(map(str, _SHAREGPT))}")
        message: Message = {"role": _SHAREGPT[source], "content": value}
        if source == "function_call":
            parsed: Any = parse_json(str(value))
            called = cast("list[Any]", parsed) if isinstance(parsed, list) else [parsed]
            made = [as_call({"id": f"call_{calls + at}", **each}) for at, each in enumerate(called)]
            calls += len(made)
            message = {"role": "assistant", "content": None, "tool_calls": made}
        elif message["role"] == "tool":
            message["tool_call_id"] = f"call_{calls - 1}"
        weight = {"weight": entry["weight"]} if "weight" in entry else {}
        messages.append(message | weight)
        unplaced += left_names(entry, "from value weight", "an entry")
    tools: Any = row.get("tools")
    tools = parse_json(tools) if isinstance(tools, str) and tools.strip() else tools
    yield make_chat(
        row, "conversations system tools id", messages, unplaced=unplaced, id=row.get("id"), tools=tools or None
    )


def _alpaca(row: JsonObject) -> Iterator[ForeignChat]:
    asked = "\n".join(str(row[name]) for name in ("instruction", "input") if row.get(name))
    before: list[Message] = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    history: Any = row.get("history") or []
    for question, answer in history:
        before += [{"role": "user", "content": question}, {"role": "assistant", "content": answer, "weight": 0}]
    said = [{"role": "user", "content": asked}, {"role": "assistant", "content": str(row["output"])}]
    yield make_chat(row, "instruction input output system history", [*before, *said])


def _has(*keys: str) -> Callable[[JsonObject], bool]:
    return lambda row: row.keys() >= set(keys)


SHAPES: Mapping[ForeignFormat, Shape] = {
    "nemo-gym": Shape(_has("responses_create_params"), _nemo_gym),
    "inspect": Shape(_has("eval", "samples", "status"), read_inspect),
    "promptfoo": Shape(is_promptfoo, read_promptfoo),
    "openai-evals": Shape(is_evals, read_evals, whole=True),
    "otlp": Shape(_has("resourceSpans"), read_otlp, whole=True),
    "kto": Shape(_has("prompt", "completion", "label"), _kto),
    "verifiers": Shape(
        lambda row: any(
            _has(*keys.split())(row) for keys in ("prompt completion reward", "nodes task agent", "traces task")
        ),
        _verifiers,
    ),
    "prompt-completion": Shape(_has("prompt", "completion"), lambda row: iter((prompted(row, ""),))),
    "sharegpt": Shape(_has("conversations"), _sharegpt),
    "alpaca": Shape(_has("instruction", "output"), _alpaca),
    "responses": Shape(lambda row: _has("input", "output")(row) or _has("request", "response")(row), _responses),
}
"""How each format shows itself, the surest first."""


def shape_named(name: str) -> Shape | None:
    """Return the format of that name; None for a name that is no other program's."""
    return next((shape for key, shape in SHAPES.items() if key == name), None)


LACKING: Sequence[tuple[Callable[[JsonObject], bool], str]] = (
    (
        lambda row: row.get("object") == "response",
        "a response of the Responses API lacks its input: give both, as `input` and `output`",
    ),
    (
        lambda row: row.get("object") == "chat.completion",
        "a chat completion lacks its request: give its `messages`, the reply the last",
    ),
    (_has("custom_id"), "a line of OpenAI's Batch API holds the request or the reply; join the two by `custom_id`"),
    (
        _has("prompt", "completions", "labels"),
        "TRL's stepwise supervision labels steps, and lacks an answer of its own",
    ),
    (_has("input_ids"), "token ids alone lack the messages that they were made of"),
    (_has("prompt"), "a prompt alone lacks a completion: it is a query, for a run to ask"),
    (_has("text"), "a text alone lacks roles: nothing says which part the model said"),
)
"""What is recognised and cannot be read, with what it lacks."""
