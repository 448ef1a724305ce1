"""A rollout as turns: what the model was shown, said, and could call. Every training format is made of turns.

Messages and tools have OpenAI's Chat Completions form, made by the SDK's own converter, so they are what a chat server
was sent. Reasoning stands as `reasoning_content`: in a completion always, in a context where the server got it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any, cast

from agents.exceptions import AgentsException
from agents.models.chatcmpl_converter import Converter

from harness.core.records import ModelCall
from harness.core.sampled_tokens import SampledTokens
from harness.core.settings import Api
from harness.rollouts.raw import RawCall

Message = dict[str, Any]
Tool = dict[str, Any]

_CARRIED = {"message", "function_call", "function_call_output", "reasoning"}
"""The types of items that chat messages have a place for."""
_HIDDEN = "reasoning that the endpoint hides"


class NoMessages(ValueError):
    """A call holds something that has no form as chat messages; the text says what."""


@dataclass(frozen=True)
class Turn:
    """One model call. `context` is what the model was shown, `completion` what it said: mostly one message."""

    agent: str | None
    model: str | None
    context: tuple[Message, ...]
    completion: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    within: str | None = None
    """The id of the tool call during which an agent made it, None for a call of the outermost run."""
    lost_context: tuple[str, ...] = ()
    """Each thing in the context that messages have no place for, by its type."""
    lost_completion: tuple[str, ...] = ()
    lost_tools: tuple[str, ...] = ()
    """Hosted tools: they have a name, and no schema that the archive holds."""
    tokens: SampledTokens | None = None
    """None: the server did not tell them, or was not asked."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Context and completion."""
        return self.context + self.completion

    @property
    def lost(self) -> tuple[str, ...]:
        """All that messages have no place for."""
        return (*self.lost_context, *self.lost_completion, *self.lost_tools)


def recorded_turns(
    calls: Sequence[RawCall], made: Iterable[ModelCall], api: Api | None, tokens: Sequence[SampledTokens | None] = ()
) -> tuple[Turn, ...]:
    """Return the turns of a rollout, in the order in which its calls began.

    `made` says of each call which agent and model it was. By `api` a server got reasoning back ("responses"), or got
    it only where the SDK sends it in chat messages; None (an agent's own model) counts as chat. `tokens` are those of
    each call, or none. Raises NoMessages.
    """
    by_raw = {call.raw: call for call in made if call.raw is not None}
    turns: list[Turn] = []
    for place, (raw, of_reply) in enumerate(zip_longest(calls, tokens[: len(calls)])):
        request, call = raw.request, by_raw.get(place)
        model = (call.model or call.replied_model) if call else None
        context, lost_context = _context(request, model, None if call and call.own_model else api)
        completion, lost_completion = _completion(raw.reply.to_input_items())
        offered = [*(request.get("tools") or ()), *(request.get("handoffs") or ())]
        tools: list[Tool] = []
        for tool in offered:  # of a handoff the archive holds no description
            if "schema" in tool:
                described = {"description": tool["description"]} if tool.get("description") else {}
                function = {"name": tool["name"], **described, "parameters": tool["schema"]}
                tools.append({"type": "function", "function": function})
        turn = Turn(
            agent=call.agent if call else None,
            model=(call.replied_model or call.model) if call else None,
            context=context,
            completion=completion,
            tools=tuple(tools),
            output_schema=request.get("output_schema"),
            within=call.within if call else None,
            lost_context=lost_context,
            lost_completion=lost_completion,
            lost_tools=tuple(f"hosted tool {tool.get('name')}" for tool in offered if "schema" not in tool),
            tokens=of_reply,
        )
        turns.append(turn)
    return tuple(turns)


def _context(
    request: Mapping[str, Any], model: str | None, api: Api | None
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Return what the model was shown, as messages."""
    content, lost = request["input"], ()
    if not isinstance(content, str):
        content, lost = _carried(content)
        content = list(_with_plain_reasoning(content)) if api == "responses" else content
    messages = _converted(content, model=model, whole=api == "responses")
    system = request.get("instructions")
    return ((*([{"role": "system", "content": system}] if system else ()), *messages), lost)


def _completion(items: Iterable[Any]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Return what the model said, as messages; one without content for a reply in which there is no item."""
    carried, lost = _carried(items)
    plain = list(_with_plain_reasoning(carried))
    messages = _converted(plain, model=None, whole=True)
    if any(item.get("type") == "reasoning" and not _reasoning(item) for item in carried):
        lost = (*lost, _HIDDEN)
    if messages:
        return messages, lost
    thoughts = [text for item in plain if (text := _reasoning(item))]
    return ({"role": "assistant", "content": ""} | ({"reasoning_content": thoughts[0]} if thoughts else {}),), lost


def _converted(items: Any, *, model: str | None, whole: bool) -> tuple[Message, ...]:
    """Return items as messages; `whole` sends back all reasoning, and all of a tool's output. Raises NoMessages."""
    try:
        messages = Converter.items_to_messages(
            items,
            model=(model or "") if not whole else "any",
            preserve_tool_output_all_content=whole,
            should_replay_reasoning_content=(lambda _: True) if whole else None,
        )
    except (AgentsException, KeyError, TypeError) as exc:
        raise NoMessages(f"{type(exc).__name__}: {exc}") from None
    made = [cast("Message", message) for message in messages]
    for at, message in enumerate(made):
        if "reasoning" in message:  # as OpenRouter and newer vLLM say it
            others = {key: value for key, value in message.items() if key != "reasoning"}
            made[at] = {"reasoning_content": message["reasoning"]} | others
    return tuple(made)


def _carried(items: Iterable[Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the items that messages have a place for, and the types of the others."""
    carried: list[dict[str, Any]] = []
    lost: list[str] = []
    for item in items:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {"type": type(item).__name__}
        if (kind := str(fields.get("type") or "message")) in _CARRIED:
            carried.append(fields)
        else:
            lost.append(kind)
    return carried, tuple(lost)


def _with_plain_reasoning(items: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield items with each run of reasoning items as one that holds all its text where the converter looks."""
    for is_reasoning, run in groupby(items, key=lambda item: item.get("type") == "reasoning"):
        if not is_reasoning:
            yield from run
        elif text := "\n".join(filter(None, map(_reasoning, run))):
            yield {"type": "reasoning", "id": "", "summary": [{"type": "summary_text", "text": text}]}


def _reasoning(item: Mapping[str, Any]) -> str:
    """Return the text of a reasoning item: its content, else the summary."""
    if item.get("type") != "reasoning":
        return ""
    parts = item.get("content") or item.get("summary") or ()
    return "\n".join(str(part["text"]) for part in parts if part.get("text"))
