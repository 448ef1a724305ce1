"""A rollout as turns and sequences: what the model was shown, said, and could call. Formats are made of them.

Messages and tools have OpenAI's Chat Completions form, made by the SDK's own converter, so they are what a chat server
was sent. Reasoning stands as `reasoning_content`: in a completion always, in a context where the server got it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import groupby, pairwise, zip_longest
from operator import add
from typing import Any, cast

from agents.exceptions import AgentsException
from agents.models.chatcmpl_converter import Converter

from harness.core.errors import counted
from harness.core.records import ModelCall
from harness.core.sampled_tokens import SampledTokens
from harness.core.settings import Api
from harness.endpoints.reply_body import first_choice
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
    call: int | None = field(default=None, compare=False)
    """Which of the rollout's model calls it is, from 0; None for an imported one."""
    cut: bool = field(default=False, compare=False)
    """Whether the reply was cut at the token limit, as far as its server said so."""

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
        try:
            turns.append(replace(_turn(raw, by_raw.get(place), api, of_reply), call=place))
        except (AgentsException, AttributeError, LookupError, TypeError) as exc:  # a call may hold anything
            raise NoMessages(f"{type(exc).__name__}: {exc}") from None
    return tuple(turns)


def _turn(raw: RawCall, call: ModelCall | None, api: Api | None, tokens: SampledTokens | None) -> Turn:
    request = raw.request
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
    return Turn(
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
        tokens=tokens,
        cut=first_choice(raw.beside or {}).get("finish_reason") == "length",
    )


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
    given = list(items)
    messages, lost = messages_of_items(given)
    if messages:
        return messages, lost
    thoughts = [text for item in _with_plain_reasoning(_carried(given)[0]) if (text := _reasoning(item))]
    return ({"role": "assistant", "content": ""} | ({"reasoning_content": thoughts[0]} if thoughts else {}),), lost


def messages_of_items(items: Iterable[Any]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Return items of the Responses API as messages, all reasoning in them, and what has no place there.

    Raises NoMessages.
    """
    carried, lost = _carried(items)
    try:
        messages = _converted(list(_with_plain_reasoning(carried)), model=None, whole=True)
    except AgentsException as exc:
        raise NoMessages(f"{type(exc).__name__}: {exc}") from None
    if any(item.get("type") == "reasoning" and not _reasoning(item) for item in carried):
        lost = (*lost, _HIDDEN)
    return messages, lost


def _converted(items: Any, *, model: str | None, whole: bool) -> tuple[Message, ...]:
    """Return items as messages; `whole` sends back all reasoning, and all of a tool's output. Raises as the SDK."""
    messages = Converter.items_to_messages(
        items,
        model=(model or "") if not whole else "any",
        preserve_tool_output_all_content=whole,
        should_replay_reasoning_content=(lambda _: True) if whole else None,
    )
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


@dataclass(frozen=True)
class TurnSequence:
    """Turns of one agent and model of which each begins with all messages of the one before, word for word.

    In a sequence by tokens, each begins with all tokens of the one before; a message may lack its reasoning there.
    """

    turns: tuple[Turn, ...]
    retokenized: bool = False
    """Whether its first turn goes on from another by the messages, and not by the tokens."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that all turns were offered."""
        return self.turns[0].tools

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages: those of the last turn, since it extends the others, and each reply as it was said."""
        messages = list(self.turns[-1].messages)
        for turn in self.turns:
            messages[len(turn.context) : len(turn.messages)] = turn.completion
        return tuple(messages)

    @property
    def prompt(self) -> tuple[Message, ...]:
        """What stood there before the model said anything."""
        return self.turns[0].context

    @property
    def message_mask(self) -> tuple[int, ...]:
        """For each message 1 if the model said it in this sequence, else 0."""
        said = {place for turn in self.turns for place in range(len(turn.context), len(turn.messages))}
        return tuple(int(place in said) for place in range(len(self.turns[-1].messages)))

    def has_foreign(self, begin: int = 0) -> bool:
        """Return whether, from a place on, a message of the assistant is from elsewhere, or lost its reasoning."""
        masked = zip(self.messages[begin:], self.message_mask[begin:], strict=True)
        return any(message["role"] == "assistant" and not mask for message, mask in masked)

    @property
    def is_exact(self) -> bool:
        """Whether the tokens of all its turns are there, each going on exactly from those before."""
        told = [turn.tokens for turn in self.turns if turn.tokens and turn.tokens.after_prompt]
        return len(told) == len(self.turns) and all(after.extends(before) for before, after in pairwise(told))

    @property
    def lost(self) -> tuple[str, ...]:
        """Each thing in it that messages have no place for, once, by its type."""
        return self.turns[-1].lost


def join_turns(turns: Iterable[Turn], *, by_tokens: bool = False) -> tuple[TurnSequence, ...]:
    """Return the sequences of a rollout, in the order of their first turns.

    A turn joins the sequence whose messages it extends exactly, the longest of these; else it begins one. So a handoff,
    a nested agent, an input filter, or reasoning that was not sent back each begin a new sequence.

    With `by_tokens` the tokens decide where they are there: a turn with tokens joins a sequence whose tokens it extends
    exactly, and begins one where the server made other tokens of the messages that went before.
    """
    sequences: list[TurnSequence] = []
    for turn in turns:
        exact = by_tokens and _is_exact(turn)
        fitting = [
            place
            for place, sequence in enumerate(sequences)
            if not (by_tokens and _is_exact(sequence.turns[0]) != exact)
            and _extends(turn, sequence.turns[-1], exact=exact)
        ]
        if fitting:
            longest = max(fitting, key=lambda place: (len(sequences[place].turns[-1].messages), place))
            before = sequences[longest]
            sequences[longest] = TurnSequence((*before.turns, turn), before.retokenized)
        else:
            retokenized = exact and any(_extends(turn, sequence.turns[-1]) for sequence in sequences)
            sequences.append(TurnSequence((turn,), retokenized))
    return tuple(sequences)


def _is_exact(turn: Turn) -> bool:
    return turn.tokens is not None and turn.tokens.after_prompt


def _extends(turn: Turn, before: Turn, *, exact: bool = False) -> bool:
    """Return whether a turn's context begins with all that was there when the turn before it ended.

    `exact`: its prompt, in tokens. A server may have put the reasoning back that the request did not hold: the messages
    may differ in that alone. Both turns must be of one agent and model, with the same tools.
    """
    one, other = ((each.agent, each.model, each.tools, each.lost_tools) for each in (turn, before))
    shown, begin = before.messages, turn.context[: len(before.messages)]
    if one != other:
        return False
    if exact:
        follows = bool(turn.tokens and before.tokens and turn.tokens.extends(before.tokens))
        return follows and [*map(without_reasoning, begin)] == [*map(without_reasoning, shown)]
    lost = (*before.lost_context, *before.lost_completion)
    return begin == shown and turn.lost_context[: len(lost)] == lost


def without_reasoning(message: Message) -> Message:
    """Return a message without its reasoning, which a server may not have got back."""
    return {key: value for key, value in message.items() if key != "reasoning_content"}


@dataclass(frozen=True)
class TokenCounts:
    """How many sequences there are, how many of them have exact tokens, and why there are so many."""

    sequences: int = 0
    exact: int = 0
    with_logprobs: int = 0
    retokenized: int = 0
    """Sequences that go on from another by the messages, and not by the tokens."""

    @classmethod
    def of(cls, sequences: Iterable[TurnSequence]) -> "TokenCounts":
        """Count some sequences."""
        rows = [(1, s.is_exact, _has_logprobs(s), s.retokenized) for s in sequences]
        return cls(*map(sum, zip(*rows, strict=True)))

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        """Add two counts."""
        return TokenCounts(*map(add, astuple(self), astuple(other)))

    def words(self) -> str:
        """Return the counts as a sentence or two."""
        if not self.exact:
            where = "none are recorded" if self.sequences else "this format holds none"
            return f"Tokens: {where}. A trainer's own tokenizer makes them of the messages."
        sequences = counted(self.sequences, "sequence")
        known = f"; {self.with_logprobs:,} of them have logprobs" if self.with_logprobs < self.exact else ""
        text = f"Tokens: exact, as the server sampled them, in {self.exact:,} of {sequences}{known}."
        if self.retokenized:
            several = f"{self.retokenized:,} turns are sequences of their own"
            alone = "1 turn is a sequence of its own" if self.retokenized == 1 else several
            text += f" {alone}: the server made other tokens of the messages before them than it had sampled."
        return text


NO_TOKENS = TokenCounts()


def token_fields(sequence: TurnSequence) -> dict[str, Any]:
    """Return `token_ids`, `token_mask` (1: sampled by the model) and `logprobs` (null where the mask is 0).

    Nothing unless the tokens of all turns are there; no logprobs unless those of all turns are.
    """
    told = [turn.tokens for turn in sequence.turns if turn.tokens and turn.tokens.after_prompt]
    if len(told) < len(sequence.turns):
        return {}
    ids = told[-1].all_ids
    mask, logprobs = [0] * len(ids), list[float | None]([None]) * len(ids)
    for tokens in told:  # the prompt of the last turn holds the replies before it, and the results of tools between
        start, end = len(tokens.prompt_ids), len(tokens.prompt_ids) + len(tokens.ids)
        mask[start:end] = [1] * len(tokens.ids)
        logprobs[start:end] = tokens.logprobs or [None] * len(tokens.ids)
    fields: dict[str, Any] = {"token_ids": ids, "token_mask": mask}
    return fields | ({"logprobs": logprobs} if _has_logprobs(sequence) else {})


def step_fields(sequence: TurnSequence, worth: Sequence[float]) -> dict[str, Any]:
    """Return `step_advantages`, one a message, and where tokens are known `token_advantages`, one a token.

    `worth` has one for each of the rollout's model calls. Messages and tokens that the model did not say have 0.
    """
    of_messages = [0.0] * len(sequence.messages)
    of_tokens = [0.0] * len(token_fields(sequence).get("token_ids", ()))
    for turn in sequence.turns:
        value = 0.0 if turn.call is None else worth[turn.call]
        of_messages[len(turn.context) : len(turn.messages)] = [value] * len(turn.completion)
        if of_tokens and turn.tokens:
            start = len(turn.tokens.prompt_ids)
            of_tokens[start : start + len(turn.tokens.ids)] = [value] * len(turn.tokens.ids)
    return {"step_advantages": of_messages} | ({"token_advantages": of_tokens} if of_tokens else {})


def _has_logprobs(sequence: TurnSequence) -> bool:
    return sequence.is_exact and all(turn.tokens and turn.tokens.logprobs is not None for turn in sequence.turns)
