"""Turns that extend each other as sequences: what a trainer reads as one text, with the model's own words marked."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.formats.turns import Message, Tool, Turn


@dataclass(frozen=True)
class TurnSequence:
    """Turns of one agent and model of which each begins with all messages of the one before, word for word."""

    turns: tuple[Turn, ...]

    @property
    def agent(self) -> str | None:
        """The agent whose turns they are."""
        return self.turns[0].agent

    @property
    def model(self) -> str | None:
        """The model that said the completions."""
        return self.turns[0].model

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that all turns were offered."""
        return self.turns[0].tools

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages: those of the last turn, since it extends the others."""
        return self.turns[-1].messages

    @property
    def prompt(self) -> tuple[Message, ...]:
        """What stood there before the model said anything."""
        return self.turns[0].context

    @property
    def message_mask(self) -> tuple[int, ...]:
        """For each message 1 if the model said it in this sequence, else 0."""
        said = {
            place for turn in self.turns for place in range(len(turn.context), len(turn.context) + len(turn.completion))
        }
        return tuple(int(place in said) for place in range(len(self.messages)))

    @property
    def is_whole(self) -> bool:
        """Whether the model said all of the assistant here: no message is from elsewhere, or lost its reasoning."""
        masked = zip(self.messages, self.message_mask, strict=True)
        return all(mask or message["role"] != "assistant" for message, mask in masked)

    @property
    def lost(self) -> tuple[str, ...]:
        """Each thing in it that messages have no place for, once, by its type."""
        last = self.turns[-1]
        return (*last.lost_context, *last.lost_completion, *last.lost_tools)


def sequences_of(turns: Iterable[Turn]) -> tuple[TurnSequence, ...]:
    """Return the sequences of a rollout, in the order of their first turns.

    A turn joins the sequence whose messages it extends exactly, the longest of these; else it begins one. So a handoff,
    a nested agent, an input filter, or reasoning that was not sent back each begin a new sequence.
    """
    sequences: list[TurnSequence] = []
    for turn in turns:
        fitting = [place for place, sequence in enumerate(sequences) if _extends(turn, sequence.turns[-1])]
        if fitting:
            longest = max(fitting, key=lambda place: (len(sequences[place].messages), place))
            sequences[longest] = TurnSequence((*sequences[longest].turns, turn))
        else:
            sequences.append(TurnSequence((turn,)))
    return tuple(sequences)


def _extends(turn: Turn, before: Turn) -> bool:
    """Return whether a turn's context begins with all that was there when the turn before it ended."""
    shown, lost = before.messages, (*before.lost_context, *before.lost_completion)
    return (
        (turn.agent, turn.model, turn.tools, turn.lost_tools)
        == (before.agent, before.model, before.tools, before.lost_tools)
        and turn.context[: len(shown)] == shown
        and turn.lost_context[: len(lost)] == lost
    )
