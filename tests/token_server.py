"""Replies as servers give them that tell token ids: vLLM, SGLang of two ages; and those that refuse, ignore, or lie.

A token is a character of the text that this server makes of the messages, so tokens are easy to read in a test.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from tests.fake_endpoint import Raw, Reaction, Refuse, Say, Seen, chat_reply

Kind = Literal[
    "vllm",
    "sglang",
    "old-sglang",
    "miles",
    "llama.cpp",
    "ignoring",
    "short",
    "wrong-usage",
    "no-prompt",
    "refusing",
    "refusing-by-message",
    "refusing-without-a-word",
]


_NUMBERS = count(1)


def rendered(messages: list[dict[str, Any]]) -> str:
    """Return what the chat template makes of messages, ready for the model to go on."""
    parts = [f"<{m['role']}>{m.get('content') or ''}{_calls(m)}</>" for m in messages]
    return "".join(parts) + "<assistant>"


def reply_text(message: dict[str, Any]) -> str:
    """Return what the model said, with its end."""
    return f"{message.get('content') or ''}{_calls(message)}</>"


def _calls(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls") or ()
    return "".join(f"[{c['function']['name']} {c['function']['arguments']}]" for c in calls)


def ids(text: str) -> list[int]:
    return [ord(character) for character in text]


def logprob(place: int) -> float:
    return -0.125 * (place % 7)


@dataclass
class TokenServer:
    """Adds tokens to what `script` says, where a request asks for them as `kind` understands it."""

    script: Callable[[Seen], Any]
    kind: Kind = "vllm"
    retokenizes: bool = False
    """Whether the history is made of other tokens than were sampled."""
    token_length: int = 1
    """How many characters a token has. A longer one has the id of its first, so it cannot be read back."""

    def __call__(self, seen: Seen) -> Reaction:
        said = self.script(seen)
        if not isinstance(said, Say):
            return said
        refused = _REFUSALS[self.kind](seen.body) if self.kind in _REFUSALS else None
        if refused:
            return refused
        whole = self._whole(said, seen.body, next(_NUMBERS))
        return Raw(_stream(whole, self.kind) if seen.body.get("stream") else whole)

    def _whole(self, say: Say, body: dict[str, Any], number: int) -> dict[str, Any]:
        """Return a reply with its tokens."""
        reply = chat_reply(say, body, number)
        (choice,) = reply["choices"]
        messages = json.loads(json.dumps(body["messages"]))
        prompt = ids(rendered(messages))[:: self.token_length]
        sampled = ids(reply_text(choice["message"]))[:: self.token_length]
        if self.retokenizes:
            prompt = [i + 1000 if len(messages) > 2 else i for i in prompt]
        reply["usage"] |= {"prompt_tokens": len(prompt), "completion_tokens": len(sampled)}
        logprobs = [logprob(place) for place in range(len(sampled))]
        if body.get("logprobs"):
            content = [
                {"token": chr(i) * self.token_length, "logprob": p, "top_logprobs": []}
                for i, p in zip(sampled, logprobs, strict=True)
            ]
            choice["logprobs"] = {"content": content}
        if self.kind == "wrong-usage":
            reply["usage"]["completion_tokens"] += 1
        if self.kind == "short":
            sampled = sampled[:-1]
        if self.kind == "sglang":
            told = {"input": prompt, "output": [sampled]}
            extension = {f"{name}_ids": told[name] for name in told if body.get(f"return_{name}_ids_in_sglext")}
            reply |= {"sglext": extension} if extension else {}
        if self.kind in {"sglang", "old-sglang"}:
            pairs = [[p, i, None] for p, i in zip(logprobs, sampled, strict=True)]
            all_ids = self.kind == "sglang" and body.get("return_token_ids")
            choice |= {"prompt_token_ids": prompt} if all_ids or body.get("return_prompt_token_ids") else {}
            choice |= {"response_token_ids": sampled} if all_ids else {}
            choice |= {"meta_info": {"output_token_logprobs": pairs}} if body.get("return_meta_info") else {}
        elif self.kind in {"miles", "llama.cpp"} and body.get("logprobs"):
            key = "token_id" if self.kind == "miles" else "id"
            for i, entry in zip(sampled, choice["logprobs"]["content"], strict=True):
                entry[key] = i
            if self.kind == "miles" and body.get("return_prompt_token_ids"):
                choice["prompt_token_ids"] = prompt
        elif self.kind != "ignoring" and body.get("return_token_ids"):
            choice["token_ids"] = sampled
            if self.kind != "no-prompt":
                reply["prompt_token_ids"] = prompt
        return reply


def _asks(body: dict[str, Any]) -> bool:
    return "return_token_ids" in body or "return_meta_info" in body


_REFUSALS: dict[str, Callable[[dict[str, Any]], Refuse | None]] = {
    "refusing": lambda body: (
        Refuse(400, "Unknown parameter: 'return_token_ids'.", "unknown_parameter", "return_token_ids")
        if _asks(body)
        else None
    ),
    "refusing-by-message": lambda body: (
        Refuse(422, "return_meta_info: Extra inputs are not permitted") if _asks(body) else None
    ),
    "refusing-without-a-word": lambda body: Refuse(400, "Bad request") if _asks(body) else None,
    "sglang": lambda body: (
        Refuse(400, "return_token_ids is not supported with streaming on /v1/chat/completions.")
        if body.get("stream") and body.get("return_token_ids")
        else None
    ),
}


def _stream(whole: dict[str, Any], kind: Kind) -> str:
    """Return a reply as chunks: of vLLM with the prompt's ids in the first and the new ids in each."""
    (choice,) = whole["choices"]
    head = {k: whole[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    token_ids, prompt = choice.get("token_ids"), whole.get("prompt_token_ids")
    logprobs = (choice.get("logprobs") or {}).get("content")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"tool_calls": [call | {"index": i}]} for i, call in enumerate(choice["message"].get("tool_calls", ()))]
    deltas += [{"content": c} for c in choice["message"]["content"] or ""]
    chunks: list[dict[str, Any]] = []
    for place, delta in enumerate(deltas):
        last = place == len(deltas) - 1
        of_chunk = slice(place, None if last else place + 1)
        one = {"index": 0, "delta": delta, "finish_reason": choice["finish_reason"] if last else None}
        one |= {"token_ids": token_ids[of_chunk]} if token_ids is not None else {}
        one |= {"logprobs": {"content": logprobs[of_chunk]}} if logprobs is not None else {}
        chunks.append(head | {"choices": [one]} | ({"prompt_token_ids": prompt} if prompt and not place else {}))
    chunks.append(head | {"choices": [], "usage": whole["usage"]})
    if "sglext" in whole:
        chunks.append(head | {"choices": [], "sglext": whole["sglext"]})
    return "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"
