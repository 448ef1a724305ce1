"""A sequence in tokens, as a trainer of tokens reads it, and the counts of such sequences that the data card says."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.core.wording import counted
from harness.formats.sequences import TurnSequence


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
        each = list(sequences)
        return cls(
            len(each), sum(s.is_exact for s in each), sum(map(_has_logprobs, each)), sum(s.retokenized for s in each)
        )

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        """Add two counts."""
        return TokenCounts(
            self.sequences + other.sequences,
            self.exact + other.exact,
            self.with_logprobs + other.with_logprobs,
            self.retokenized + other.retokenized,
        )

    def words(self) -> str:
        """Return the counts as a sentence or two."""
        if not self.exact:
            where = "none are recorded" if self.sequences else "this format holds none"
            return f"Tokens: {where}. A trainer's own tokenizer makes them of the messages."
        sequences = counted(self.sequences, "sequence")
        lines = [f"Tokens: exact, as the server sampled them, in {self.exact:,} of {sequences}"]
        if self.with_logprobs < self.exact:
            lines.append(f"{self.with_logprobs:,} of them have logprobs")
        text = "; ".join(lines) + "."
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
