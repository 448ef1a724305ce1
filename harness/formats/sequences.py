"""Sequences: turns that go on from each other, in messages and in tokens, and the counts that the data card says."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from itertools import pairwise
from operator import add
from typing import Any

from harness.core.wording import counted
from harness.formats.turns import Message, Tool, Turn


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


def _has_logprobs(sequence: TurnSequence) -> bool:
    return sequence.is_exact and all(turn.tokens and turn.tokens.logprobs is not None for turn in sequence.turns)
