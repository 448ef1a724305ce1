"""The exported tokens are those that a model sampled: put through the same model, they have the recorded logprobs."""

import json
import os
from itertools import groupby
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from harness.cli.app import app
from tests.consumers.tiny_model import tiny_model, tiny_tokenizer
from tests.fake_endpoint import FakeEndpoint, Raw, Seen, fair_judge

torch: Any = pytest.importorskip("torch")

AGENT = """\
from agents import Agent, function_tool

@function_tool
def look_up(word: str) -> str:
    "Look a word up."
    return f"Meaning of {word}."

agent = Agent(name="looker", instructions="Look.", tools=[look_up])
"""
TEMPLATE = """\
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for call in m.tool_calls or [] %}{{ call.function.arguments.word }}{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""
"""A call is written as the model said it: one word, without quotes. So the text of the history is the sampled text."""
PAIRS = ".".join(2 * [a + b for a in ascii_lowercase for b in ascii_lowercase])
"""Of two letters the tokenizer makes one token; the model samples letters one by one, too."""
REPLY = 24
"""Tokens of a reply, its end aside."""


class SamplingServer:
    """Serves a tiny random model as vLLM does. Its first two replies to a query are calls, the third is the answer.

    The model samples letters alone, as with `allowed_token_ids`; logprobs are over the whole vocabulary, at
    temperature 1. With `keeps_ids` the history goes to the model in the tokens that it sampled, else in new ones.
    """

    def __init__(self, *, keeps_ids: bool) -> None:
        self.tokenizer = tiny_tokenizer(text=PAIRS, tokens=600)
        self.tokenizer.chat_template = TEMPLATE
        self.model = tiny_model(self.tokenizer).eval()
        self.sampled: list[list[int]] = []
        self._keeps_ids = keeps_ids
        self._ids_of: dict[str, list[int]] = {"": []}
        self._letters = [i for i in range(len(self.tokenizer)) if self.tokenizer.decode([i]).isalpha()]
        self._rng = torch.Generator().manual_seed(1)

    def __call__(self, seen: Seen) -> Raw:
        assert seen.body["return_token_ids"]
        assert seen.body["logprobs"]
        text = self.rendered(seen.body["messages"], reply=True)
        known = max((k for k in self._ids_of if text.startswith(k)), key=len) if self._keeps_ids else ""
        prompt = self._ids_of[known] + self.ids(text[len(known) :])
        ids, logprobs = self._sample(prompt, seen.body["temperature"])
        self.sampled.append(ids)
        self._ids_of[f"{text}{self.tokenizer.decode(ids)}"] = prompt + ids
        return Raw(self._reply(seen, prompt, ids, logprobs))

    def rendered(self, messages: list[dict[str, Any]], *, reply: bool = False) -> str:
        """Return messages as the chat template writes them; a call's arguments are read first, as servers do."""
        read: list[dict[str, Any]] = json.loads(json.dumps(messages))
        for call in (c for m in read for c in m.get("tool_calls") or ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return self.tokenizer.apply_chat_template(read, tokenize=False, add_generation_prompt=reply)

    def ids(self, text: str) -> list[int]:
        """Return a text as the tokenizer has it."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def logprobs(self, ids: list[int]) -> Any:
        """Return the model's logprobs of whatever comes after each of `ids`."""
        with torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].log_softmax(-1)

    def _sample(self, prompt: list[int], temperature: float) -> tuple[list[int], list[float]]:
        ids, told = list[int](), list[float]()
        for place in range(REPLY + 1):
            after = self.logprobs(prompt + ids)[-1]
            token = self.tokenizer.eos_token_id if place == REPLY else self._letter(after, temperature)
            ids.append(token)
            told.append(after[token].item())
        return ids, told

    def _letter(self, logprobs: Any, temperature: float) -> int:
        allowed = logprobs[self._letters]
        if temperature == 0:
            return self._letters[int(allowed.argmax())]
        chances = (allowed / temperature).softmax(-1)
        return self._letters[int(torch.multinomial(chances, 1, generator=self._rng))]

    def _reply(self, seen: Seen, prompt: list[int], ids: list[int], logprobs: list[float]) -> dict[str, Any]:
        text, number = self.tokenizer.decode(ids[:-1]), len(self.sampled)
        function = {"name": "look_up", "arguments": json.dumps({"word": text})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        calls = len(seen.tool_outputs) < 2
        message = {"content": None, "tool_calls": [call]} if calls else {"content": text}
        told = zip(ids, logprobs, strict=True)
        choice = {
            "index": 0,
            "message": {"role": "assistant", **message},
            "finish_reason": "tool_calls" if calls else "stop",
            "logprobs": {"content": [{"token": f"token_id:{i}", "logprob": p, "top_logprobs": []} for i, p in told]},
            "token_ids": ids,
        }
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": "tiny"}
        return head | {"choices": [choice], "usage": usage, "prompt_token_ids": prompt}


def exported(server: SamplingServer, folder: Path, *options: str) -> list[dict[str, Any]]:
    """Run, rank and export, and return the exported rollouts."""
    (folder / "agent.py").write_text(AGENT)
    with FakeEndpoint(server, fair_judge()).serving() as endpoint:
        environ = dict(os.environ) | {"OPENAI_BASE_URL": endpoint.base_url}
        line = f"run Why? --agent {folder}/agent.py --model tiny --judge-model j -n 5 --tokens require -q"
        assert not app.main([*line.split(), "--runs-dir", str(folder)], standalone_mode=False, obj=environ)
    line = f"export --format groups -o {folder}/out --runs-dir {folder} -q"
    assert not app.main([*line.split(), *options], standalone_mode=False, obj=dict(os.environ))
    (group,) = [json.loads(text) for text in (folder / "out" / "train.jsonl").read_text("utf-8").splitlines()]
    return group["rollouts"]


def replies(sequence: dict[str, Any]) -> list[list[int]]:
    """Return the trained tokens of a sequence, reply by reply."""
    marked = zip(sequence["token_ids"], sequence["token_mask"], strict=True)
    return [[token for token, _ in run] for mask, run in groupby(marked, key=lambda pair: pair[1]) if mask]


@pytest.mark.parametrize("keeps_ids", [True, False], ids=["history as sampled", "history in new tokens"])
def test_the_model_gives_the_exported_tokens_the_recorded_logprobs(tmp_path: Path, *, keeps_ids: bool):
    server = SamplingServer(keeps_ids=keeps_ids)
    rollouts = exported(server, tmp_path)
    sequences = [sequence for rollout in rollouts for sequence in rollout["sequences"]]
    for sequence in sequences:
        ids, mask = sequence["token_ids"], sequence["token_mask"]
        now = server.logprobs(ids)
        trained = [place for place, of_model in enumerate(mask) if of_model]
        recorded = torch.tensor([sequence["logprobs"][place] for place in trained])
        given = torch.stack([now[place - 1, ids[place]] for place in trained])
        assert (recorded - given).abs().max() <= 1e-4
        assert [sequence["logprobs"][place] for place in range(len(ids)) if not mask[place]] == [None] * mask.count(0)
        outputs = [m["content"] for m in sequence["messages"] if m["role"] == "tool"]
        shown = server.tokenizer.decode([i for i, of_model in zip(ids, mask, strict=True) if not of_model])
        assert all(output in shown for output in outputs)
        assert server.rendered(sequence["messages"]).rstrip("\n") == server.tokenizer.decode(ids)
    said = [reply for sequence in sequences for reply in replies(sequence)]
    assert len(said) == 3 * len(rollouts)
    assert all(reply in server.sampled for reply in said)  # none is a prompt, or a tool's result
    made_anew = [server.ids(server.rendered(s["messages"]).rstrip("\n")) for s in sequences]
    assert any(anew != s["token_ids"] for anew, s in zip(made_anew, sequences, strict=True))
    of_rollouts = {len(rollout["sequences"]) for rollout in rollouts}
    assert of_rollouts == {1} if keeps_ids else max(of_rollouts) == 3
