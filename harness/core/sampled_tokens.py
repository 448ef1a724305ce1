"""A reply in tokens, as the server that sampled it reports them."""

from dataclasses import dataclass
from typing import Literal

TokenPolicy = Literal["off", "auto", "require"]
"""Whether servers are asked for token ids: not; where they tell them; or no run without them."""


@dataclass(frozen=True)
class SampledTokens:
    """A reply in tokens: what the model was shown, and what it said. `logprobs` has one for each of `ids`, or is None.

    A reply's tokens are complete: there are as many of them as the server's usage counts.
    """

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None

    @property
    def after_prompt(self) -> bool:
        """Whether the tokens of the prompt are known, too: an imported file may name those of the reply alone."""
        return bool(self.prompt_ids)

    @property
    def all_ids(self) -> tuple[int, ...]:
        """What a prompt begins with that goes on exactly from here."""
        return self.prompt_ids + self.ids

    def extends(self, before: "SampledTokens") -> bool:
        """Return whether the prompt begins with all that was there when the reply `before` ended."""
        shown = before.prompt_ids
        end = len(shown) + len(before.ids)
        return self.prompt_ids[: len(shown)] == shown and self.prompt_ids[len(shown) : end] == before.ids
