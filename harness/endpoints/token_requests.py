"""Asking a server for token ids: what is sent, and what the run learns of a server that refuses or ignores that."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import openai
from agents import ModelSettings

from harness.core.errors import Refused
from harness.core.turns import SampledTokens, TokenPolicy
from harness.core.wording import option
from harness.endpoints.usage import with_body

ASKED: Mapping[str, bool] = {
    "logprobs": True,
    "return_token_ids": True,
    "return_prompt_token_ids": True,
    "return_meta_info": True,
}
"""Of vLLM and newer SGLang the first two, of older SGLang all but the second; each ignores what it does not know."""
_IN_A_STREAM: Mapping[str, bool] = {"logprobs": True, "return_token_ids": True}
_IN_SGLANGS_STREAM: Mapping[str, bool] = {"logprobs": True, "return_input_ids": True, "return_output_ids": True}
"""SGLang refuses `return_token_ids` in a stream, and says so."""
NOTHING: Mapping[str, bool] = {}


class TokenRequests:
    """What the agent calls of a run ask their server for, so that a refusal costs one call."""

    def __init__(self, policy: TokenPolicy, note: Callable[[str], None]) -> None:
        """Tell `note` once of each thing that keeps token ids from being there."""
        self.wanted = policy != "off"
        self._required = policy == "require"
        self._tell = note
        self._whole = ASKED if self.wanted else NOTHING
        self._streamed = _IN_A_STREAM if self.wanted else NOTHING
        self.told = False
        """Whether any reply came with tokens."""
        self._noted = set[str]()

    def asked(self, *, stream: bool) -> Mapping[str, bool]:
        """Return what a call asks for."""
        return self._streamed if stream else self._whole

    def refused(self, error: openai.APIStatusError, asked: Mapping[str, bool]) -> bool:
        """Return whether an error names something that was `asked`, which is then asked no more.

        Raises Refused where tokens are required.
        """
        if not any(name in f"{getattr(error, 'param', None)} {error.message}" for name in asked):
            return False
        if asked is _IN_A_STREAM and "stream" in error.message.lower():
            self._streamed = _IN_SGLANGS_STREAM
        else:
            self.refuse(error)
        return True

    def refuse(self, error: openai.APIStatusError) -> None:
        """Ask no more: a call that was refused with `error` was taken without asking. Raises Refused if required."""
        self._end(f"the server refuses to tell token ids ({error.message})")

    def heard(self, tokens: SampledTokens | str | None) -> None:
        """Hear the tokens of a reply that was asked for them. Raises Refused where tokens are required and not told."""
        if isinstance(tokens, SampledTokens):
            self.told = True
            if tokens.logprobs is None:
                self.note("the server tells token ids without logprobs")
        elif not self.told:
            self._end(f"the server tells no token ids that can be used ({tokens or 'it ignores return_token_ids'})")
        else:
            self.note(f"the token ids of some replies were dropped ({tokens or 'none were told'})")

    def cannot(self, why: str) -> None:
        """Hear of a call that cannot be asked for tokens. Raises Refused where they are required."""
        if self._required:
            raise Refused(_required(why))
        self.note(f"no token ids are recorded: {why}")

    def note(self, message: str) -> None:
        """Tell the user something about tokens, once."""
        if message not in self._noted:
            self._noted.add(message)
            self._tell(message)

    def _end(self, why: str) -> None:
        if self._required:
            raise Refused(_required(why))
        self._whole = self._streamed = NOTHING
        self.note(f"no token ids are recorded: {why}")


def asking_for(settings: ModelSettings, fields: Mapping[str, bool]) -> ModelSettings:
    """Return settings that put `fields` into the request's body, beside what is there and wins."""
    return with_body(settings, {**fields, **cast("dict[str, Any]", settings.extra_body or {})}) if fields else settings


def asks_for_logprobs(settings: ModelSettings) -> bool:
    """Return whether the agent's own settings ask for logprobs, which then stay in the reply."""
    more = {**(settings.extra_args or {}), **cast("dict[str, Any]", settings.extra_body or {})}
    return settings.top_logprobs is not None or "logprobs" in more


def asks_for_tokens(settings: ModelSettings) -> bool:
    """Return whether settings ask for token ids."""
    return not {"return_token_ids", "return_input_ids"}.isdisjoint(cast("dict[str, Any]", settings.extra_body or {}))


def _required(why: str) -> str:
    return f"{option('tokens', 'require')}: {why}; {option('tokens', 'auto')} goes on without them"
