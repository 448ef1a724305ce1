"""Token ids and logprobs, taken out of what a server sends before the SDK reads the rest.

vLLM and newer SGLang answer `return_token_ids`, older SGLang `return_prompt_token_ids` and `return_meta_info`:

- vLLM: `prompt_token_ids` beside `choices`; `token_ids` and `logprobs.content` in a choice; in a stream, each chunk has
  the new ones, and the first chunk has the prompt's.
- SGLang: `prompt_token_ids` and `response_token_ids` (once `token_ids`) in a choice; older:
  `meta_info.output_token_logprobs`, a list of [logprob, id, text]; in a stream `sglext.input_ids` and
  `sglext.output_ids` (a list for each choice) at the end.
- SGLang for miles: `prompt_token_ids` in a choice, and `token_id` in each entry of `logprobs.content`.
- llama.cpp: `id` in each such entry, and nothing of the prompt: that trains nothing.
- tinker's OpenAI endpoint: its documentation names no token ids (tinker-docs.thinkingmachines.ai, November 2026).

Only what looks as servers write it is cut. All else stays in the body and is read with it.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

import openai
from agents import ModelSettings
from pydantic_core import from_json

from harness.core.errors import Refused, option
from harness.core.sampled_tokens import SampledTokens, TokenPolicy
from harness.endpoints.refused_settings import extra_body, with_changes
from harness.endpoints.reply_body import as_list, as_object
from harness.endpoints.retries import error_text

_FIELDS = ("logprobs", "return_token_ids", "return_prompt_token_ids", "return_meta_info")
ASKED: Mapping[str, bool] = dict.fromkeys(_FIELDS, True)
"""Of vLLM and newer SGLang the first two, of older SGLang all but the second; each ignores what it does not know."""
_IN_A_STREAM: Mapping[str, bool] = {"logprobs": True, "return_token_ids": True}
_IN_SGLANGS_STREAM: Mapping[str, bool] = {
    "logprobs": True,
    "return_input_ids_in_sglext": True,
    "return_output_ids_in_sglext": True,
}
"""SGLang refuses `return_token_ids` in a stream, and says so."""
NOTHING: Mapping[str, bool] = {}


_WHO_TELLS = (
    "vLLM (0.10.2 or later) and SGLang (with return_token_ids) tell the ids of prompt and reply without a flag of the "
    "server's; llama.cpp tells none of the prompt, and tinker's OpenAI endpoint names none"
)


class TokenRequests:
    """What the agent calls of a run ask their server for, so that a refusal costs one call."""

    def __init__(self, policy: TokenPolicy, note: Callable[[str], None]) -> None:
        """Call `note` once for each thing that keeps token ids from being there."""
        self.wanted, self._required = policy != "off", policy == "require"
        self._note, self._noted = note, set[str]()
        self._whole, self._streamed = (ASKED, _IN_A_STREAM) if self.wanted else (NOTHING, NOTHING)
        self.any_came = False
        """Whether any reply came with tokens."""

    def asked(self, *, stream: bool) -> Mapping[str, bool]:
        """Return what a call asks for."""
        return self._streamed if stream else self._whole

    def refused(self, error: openai.APIStatusError, asked: Mapping[str, bool]) -> bool:
        """Ask no more for what was `asked` if an error names it; return whether it does. Raises Refused if required."""
        named = any(name in f"{getattr(error, 'param', None)} {error_text(error)}" for name in asked)
        if named and asked is _IN_A_STREAM and "stream" in error_text(error).lower():
            self._streamed = _IN_SGLANGS_STREAM
        elif named:
            self.refuse(error)
        return named

    def refuse(self, error: openai.APIStatusError) -> None:
        """Ask no more: a call that was refused with `error` was taken without asking. Raises Refused if required."""
        self._end(f"the server refuses to tell token ids ({error_text(error)})")

    def check(self, tokens: SampledTokens | str | None) -> None:
        """Check the tokens of a reply that was asked for them. Raises Refused where they are required and missing."""
        if isinstance(tokens, SampledTokens):
            self.any_came = True
            if tokens.logprobs is None:
                self.note("the server tells token ids without logprobs")
        elif not self.any_came:
            self._end(f"the server tells no token ids that can be used ({tokens or 'it ignores return_token_ids'})")
        else:
            self.note(f"the token ids of some replies were dropped ({tokens or 'none were told'})")

    def skip(self, why: str, of: str = "") -> None:
        """Note that a call, `of` some kind, cannot be asked for tokens. Raises Refused where they are required."""
        if self._required:
            auto = f"{option('tokens', 'auto')} goes on without them, and nothing can be trained on that"
            raise Refused(f"{option('tokens', 'require')}: {why}; {_WHO_TELLS}; {auto}")
        self.note(f"no token ids are recorded{of}: {why}")

    def note(self, message: str) -> None:
        """Show the user a message about tokens, once."""
        if message not in self._noted:
            self._noted.add(message)
            self._note(message)

    def _end(self, why: str) -> None:
        self.skip(why)
        self._whole = self._streamed = NOTHING


def asking_for(settings: ModelSettings, fields: Mapping[str, bool]) -> ModelSettings:
    """Return settings that put `fields` into the request's body, beside what is there and wins."""
    return with_changes(settings, extra_body={**fields, **extra_body(settings)}) if fields else settings


def asks_for_logprobs(settings: ModelSettings) -> bool:
    """Return whether the agent's own settings ask for logprobs, which then stay in the reply."""
    return settings.top_logprobs is not None or "logprobs" in {**(settings.extra_args or {}), **extra_body(settings)}


def asks_for_tokens(settings: ModelSettings) -> bool:
    """Return whether settings ask for token ids."""
    return not {"return_token_ids", "return_input_ids_in_sglext"}.isdisjoint(extra_body(settings))


_Cut = tuple[Any, bytes]
"""What an array says, and the body with null in its place."""

ID_LIMIT = 2**32
"""No id of a token is as large."""

_HEAD = re.compile(rb'"logprobs":\s*(\{\s*"content":\s*\[)')
_LOGPROB = re.compile(rb'"logprob": ?(-?[0-9.eE+-]+)')
_TAIL = re.compile(
    rb'"logprob":\s*-?[0-9.eE+-]+\s*'
    rb'(?:,\s*"\w+":\s*(?:null|\[[0-9,\s]*\]|"(?:[^"\\]|\\.)*")\s*)*\}\s*\]\s*(?:,\s*"refusal":\s*null\s*)?\}'
)
"""The end of the last logprob's entry, of the list, and of the object around the list."""


class TokenIds(list[int]):
    """Ids of tokens, seen to be whole numbers of 32 bits."""


def read_body(content: bytes, *, logprobs: bool) -> Any | None:
    """Return what JSON says, with TokenIds, and `logprobs` as numbers; None unless the ids of a reply were cut out."""
    if (reply := _cut_ids(b'"token_ids":', content)) is None:
        return None
    arrays, rest = {"token_ids": reply[0]}, reply[1]
    if prompt := _cut_ids(b'"prompt_token_ids":', rest):
        arrays["prompt_token_ids"], rest = prompt
    if logprobs and (cut := _cut_logprobs(rest, len(reply[0]))):
        arrays["logprobs"], rest = cut
    try:
        body: Any = from_json(rest)
        (choice,) = body["choices"]
        for key, value in arrays.items():  # put where null stands for them
            holder = body if key == "prompt_token_ids" and key in body else choice
            if holder[key] is not None:
                return None
            holder[key] = value
    except (TypeError, KeyError, ValueError):
        return None  # who reads the whole body will say what is wrong with it
    return body


def _cut_ids(key: bytes, content: bytes) -> _Cut | None:
    """Cut a list of ids. A quote within a string is escaped, so a key with its colon stands in no string."""
    start = content.find(key)
    end = content.find(b"]", start) + 1
    if start < 0 or not end or content.find(key, end) >= 0:
        return None
    text = content[start + len(key) : end].strip()
    try:
        is_list = text[:1] == b"[" and not text[1:-1].translate(None, b"0123456789, ")
        ids: list[int] | None = from_json(text) if is_list else None
    except ValueError:
        return None
    if ids is None or (sum(ids) >= ID_LIMIT and max(ids) >= ID_LIMIT):  # the sum is quicker, and mostly enough
        return None
    return TokenIds(ids), content[: start + len(key)] + b"null" + content[end:]


def _cut_logprobs(content: bytes, count: int) -> _Cut | None:
    """Cut an object of logprobs, if it has one for each of `count` tokens, and none for alternatives."""
    head, last = _HEAD.search(content), content.rfind(b'"logprob":')
    tail = _TAIL.match(content, last) if head and last > head.end() else None
    if not head or not tail:
        return None
    numbers = _LOGPROB.findall(content, head.end(), tail.end())
    try:
        logprobs = cast("list[Any]", from_json(b"[" + b",".join(numbers) + b"]")) if len(numbers) == count else None
    except ValueError:
        return None
    rest = content[: head.start(1)] + b"null" + content[tail.end() :]
    return None if logprobs is None else ({"content": logprobs}, rest)


class ReplyTokens:
    """Collects the tokens of a reply from its body, or from the chunks of its stream."""

    def __init__(self, *, keep_logprobs: bool = False) -> None:
        """Begin with nothing. With `keep_logprobs`, which the agent asked for itself, they stay in the reply, too."""
        self.on_body: Callable[[dict[str, Any]], None] = lambda _: None
        """Called with what is left of a whole body."""
        self.keep_logprobs = keep_logprobs
        self._prompt: list[Any] | None = None
        self._ids: list[Any] | None = None
        self._logprobs: list[Any] = []
        self._usage: dict[str, Any] = {}

    def take(self, body: dict[str, Any]) -> None:
        """Take the tokens out of a body, or a chunk of a stream."""
        self._note_prompt(body.pop("prompt_token_ids", None))
        self._usage = as_object(body.get("usage")) or self._usage
        extension = as_object(body.pop("sglext", None))
        self._note_prompt(extension.get("input_ids"))
        if isinstance(whole := _first(extension.get("output_ids")), list):
            self._ids = cast("list[Any]", whole)
        choice = as_object(_first(body.get("choices")))
        self._note_prompt(choice.pop("prompt_token_ids", None))
        ids, meta = choice.pop("response_token_ids", None), as_object(choice.pop("meta_info", None))
        ids = choice.pop("token_ids", None) or ids
        pairs = meta.get("output_token_logprobs")
        logprobs = choice.get("logprobs") if self.keep_logprobs else choice.pop("logprobs", None)
        if isinstance(pairs, list):
            of_meta = [(_first(pair), _at(pair, 1)) for pair in cast("list[Any]", pairs)]
            self._add(ids if isinstance(ids, list) else [i for _, i in of_meta])
            self._logprobs += [logprob for logprob, _ in of_meta]
        else:
            self._add(ids)
            entries = as_list(as_object(logprobs).get("content"))
            with suppress(TypeError, KeyError):
                self._logprobs += [e["logprob"] for e in entries] if isinstance(_first(entries), dict) else entries
            if not isinstance(ids, list) and isinstance(_first(entries), dict):
                told = [entry.get("token_id", entry.get("id")) for entry in map(as_object, entries)]
                self._add(None if None in told else told)

    def tokens(self) -> SampledTokens | str | None:
        """Return the tokens; in words why they cannot be used; None if the server told none."""
        if self._ids is None:
            return None
        prompt, ids = self._prompt, self._ids
        if prompt is None:
            return "without the ids of the prompt"
        for name, listed in (("completion_tokens", ids), ("prompt_tokens", prompt)):
            if (counted := self._usage.get(name)) != len(listed):
                return f"{len(listed)} ids where usage counts {counted} {name}"
        if not (_are_ids(prompt) and _are_ids(ids)):
            return "an id that is no id"
        logprobs: tuple[float, ...] | None = None
        if len(self._logprobs) == len(ids) and set(map(type, self._logprobs)) <= {int, float}:
            numbers = tuple(map(float, self._logprobs))
            logprobs = numbers if all(map(math.isfinite, numbers)) else None
        return SampledTokens(tuple(prompt), tuple(ids), logprobs)

    def _note_prompt(self, ids: Any) -> None:
        if self._prompt is None and isinstance(ids, list):
            self._prompt = cast("list[Any]", ids)

    def _add(self, ids: Any) -> None:
        if isinstance(ids, list):
            self._ids = cast("list[Any]", ids) if self._ids is None else self._ids + cast("list[Any]", ids)


def _first(several: Any) -> Any:
    return _at(several, 0)


def _at(several: Any, place: int) -> Any:
    listed = as_list(several)
    return listed[place] if len(listed) > place else None


def _are_ids(listed: list[Any]) -> bool:
    if isinstance(listed, TokenIds) or not listed:
        return True
    return set(map(type, listed)) == {int} and min(listed) >= 0 and max(listed) < ID_LIMIT
