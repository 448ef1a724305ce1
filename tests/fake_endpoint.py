"""A server on a real socket that speaks Chat Completions and Responses as real endpoints do, and logs what it saw.

What the server replies is scripted: `agent` and `judge` are functions from the request's body to a `Say` or a `Refuse`.
"""

import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

JUDGE_MARKS = ("LLM_A", "trajectory_id")
"""What the fixed text of a judge of pairs, and of a listwise one, speaks of."""


@dataclass(frozen=True)
class Say:
    """A reply: text, or calls of function tools (name, arguments), with or without reasoning and usage."""

    text: str | None = None
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    reasoning: str | None = None
    searched: str | None = None
    """A hosted web search that the Responses API reports beside the text."""
    usage: tuple[int, int] | None = (100, 20)
    cached: int | None = None
    """Input tokens that came from the provider's prompt cache."""
    to_cache: int | None = None
    """Input tokens that were written to it."""
    model: str | None = None
    finish: str | None = None
    """`length` or `content_filter`: the reply was cut, or withheld."""
    refusal: str | None = None
    items: tuple[dict[str, Any], ...] = ()
    """Further output items of the Responses API, before the text."""
    tier: str | None = None
    """The service tier that the reply names."""


@dataclass(frozen=True)
class Refuse:
    """An error reply."""

    status: int
    message: str = "no"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A gateway's error page that comes with status 200."""

    text: str = "<html>Bad gateway</html>"


@dataclass(frozen=True)
class Raw:
    """A reply as it goes out, JSON or the text of an event stream."""

    body: dict[str, Any] | str


@dataclass(frozen=True)
class Torn:
    """Half of a reply's bytes, then the connection is closed; or, where `framed`, half of its JSON as a whole body."""

    reply: Say = field(default_factory=lambda: Say("This reply is cut short."))
    framed: bool = False


@dataclass(frozen=True)
class Cut:
    """The connection is closed without a reply."""


@dataclass(frozen=True)
class Hang:
    """No reply for this long, then the connection is closed."""

    seconds: float


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    path: str
    key: str | None
    body: dict[str, Any]
    gateway_key: str | None = None
    """The header X-Gateway-Key, which OPENAI_CUSTOM_HEADERS may hold."""
    raw: bytes = b""

    @property
    def is_judge(self) -> bool:
        return any(mark in self.system for mark in JUDGE_MARKS)

    @property
    def system(self) -> str:
        if "messages" not in self.body:
            return self.body.get("instructions") or ""
        return next((m["content"] for m in self.body["messages"] if m["role"] in {"system", "developer"}), "")

    @property
    def items(self) -> list[dict[str, Any]]:
        """Messages, or input items, after the system message."""
        if "messages" in self.body:
            return [m for m in self.body["messages"] if m["role"] not in {"system", "developer"}]
        given = self.body["input"]
        return [{"role": "user", "content": given}] if isinstance(given, str) else given

    @property
    def tool_outputs(self) -> list[str]:
        return [
            str(i.get("output", i.get("content")))
            for i in self.items
            if i.get("role") == "tool" or i.get("type") == "function_call_output"
        ]

    @property
    def user(self) -> str:
        content = next(i["content"] for i in self.items if i.get("role") == "user")
        return content if isinstance(content, str) else "".join(p["text"] for p in content)


Reaction = Say | Refuse | Page | Raw | Torn | Cut | Hang
Script = Callable[[Seen], Reaction]


def searching_agent() -> Callable[[Seen], Say]:
    """Search once where there is a function tool, then answer; every answer is another."""
    numbers = count(1)

    def reply(seen: Seen) -> Say:
        names = [t.get("name") or t.get("function", {}).get("name") for t in seen.body.get("tools", [])]
        if "search" in names and not seen.tool_outputs:
            return Say(calls=(("search", {"query": "programming languages"}),), reasoning="I should search first.")
        hosted = any(t.get("type", "").startswith("web_search") for t in seen.body.get("tools", []))
        return Say(f"Answer number {next(numbers)}.", searched="programming languages" if hosted else None)

    return reply


def verdict(a: int, b: int, *, rubric_keys: Any = None) -> str:
    """Return a judge's reply that marks every dimension of one side `a` and of the other `b`."""
    path, answer = rubric_keys or (
        ("understanding", "logic", "richness"),
        ("relevance", "content_quality", "language_style", "clarity"),
    )
    sides = {"LLM_A": a, "LLM_B": b}
    return json.dumps(
        {
            "analysis": {"path_A": "p", "path_B": "p", "answer_A": "x", "answer_B": "y"},
            "path_scores": {s: dict.fromkeys([*path, "overall_p"], v) for s, v in sides.items()},
            "answer_scores": {s: dict.fromkeys([*answer, "overall_a"], v) for s, v in sides.items()},
            "combined_scores": {s: float(v) for s, v in sides.items()},
            "winner": "LLM_A" if a > b else "LLM_B" if b > a else "Tie",
        }
    )


def fair_judge(quality: Callable[[str], int] = lambda text: sum(map(ord, text)) % 11) -> Script:
    """Mark a side by its answer's text alone, whatever the order."""

    def reply(seen: Seen) -> Say:
        return Say(verdict(*(quality(block(seen.user, f"ANSWER_{side}")) for side in "AB")), usage=(1000, 200))

    return reply


def list_judge(quality: Callable[[str], float] = lambda text: sum(map(ord, text)) % 101 / 100) -> Script:
    """Score each trajectory of a list by its answer's text alone, naming the last one first."""

    def reply(seen: Seen) -> Say:
        scores = [
            {"trajectory_id": id_, "explanation": f"said: {answer}", "score": quality(answer)}
            for id_, answer in trajectories(seen.user).items()
        ]
        return Say(json.dumps({"scores": scores[::-1]}), usage=(1000, 200))

    return reply


def trajectories(text: str) -> dict[str, str]:
    """Return the answers in a listwise judge's prompt, by id."""
    found = re.findall(r'<trajectory id="(\d+)" nonce="(\w+)">(.*?)</trajectory nonce="\2">', text, re.DOTALL)
    return {
        id_: body.split(f'<answer nonce="{nonce}">\n')[1].split(f'\n</answer nonce="{nonce}">')[0]
        for id_, nonce, body in found
    }


def block(text: str, name: str) -> str:
    """Return what stands in a fenced block of a judge's prompt."""
    return text.split(f"[{name} ", 1)[1].split("]\n", 1)[1].split(f"\n[/{name} ", 1)[0]


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # 64 rollouts connect at once

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a command that was stopped has reset its connections."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class FakeEndpoint:
    """The server. `requests` is its log, in the order of arrival."""

    def __init__(self, agent: Script | None = None, judge: Script | None = None) -> None:
        self.agent = agent or searching_agent()
        self.judge = judge or fair_judge()
        self.requests: list[Seen] = []
        self.models: list[str | dict[str, Any]] | Refuse | Page | Hang | str = []
        """What GET /v1/models lists: names, or entries; or what it gives in place of a list."""
        self.lists_read: list[str | None] = []
        """The key of each GET /v1/models, in the order of arrival."""
        self._closing = threading.Event()
        self.ids = count(1)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.base_url = f"http://{self.host}/v1"

    @property
    def of_agent(self) -> list[Seen]:
        return [r for r in self.requests if not r.is_judge]

    @property
    def of_judge(self) -> list[Seen]:
        return [r for r in self.requests if r.is_judge]

    @contextmanager
    def serving(self) -> Generator["FakeEndpoint"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._closing.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def answer(self, seen: Seen) -> tuple[int, dict[str, Any] | str, dict[str, str]] | None:
        with self._lock:
            self.requests.append(seen)
            reaction = (self.judge if seen.is_judge else self.agent)(seen)
            number = next(self.ids)
        if isinstance(reaction, Hang):
            self._closing.wait(reaction.seconds)
        if isinstance(reaction, Hang | Cut):
            return None
        if isinstance(reaction, Page):
            return 200, reaction.text, {"content-type": "text/html"}
        if isinstance(reaction, Raw):
            kind = "text/event-stream" if isinstance(reaction.body, str) else "application/json"
            return 200, reaction.body, {"content-type": kind}
        if isinstance(reaction, Refuse):
            error = {"message": reaction.message, "code": reaction.code, "param": reaction.param, "type": "error"}
            return reaction.status, {"error": error}, reaction.headers
        shape = _responses if seen.path.endswith("/responses") else chat_reply
        if isinstance(reaction, Torn):
            whole = shape(reaction.reply, seen.body, number)
            text = _events(whole, wants_usage=True) if seen.body.get("stream") else json.dumps(whole)
            half = text[: len(text) // 2]
            kind = {"content-type": "text/event-stream" if seen.body.get("stream") else "application/json"}
            cut = {} if reaction.framed else {"content-length": str(len(text)), "connection": "close"}
            return 200, half, kind | cut
        whole = shape(reaction, seen.body, number)
        if seen.body.get("stream"):
            wants_usage = bool((seen.body.get("stream_options") or {}).get("include_usage"))
            return 200, _events(whole, wants_usage=wants_usage), {"content-type": "text/event-stream"}
        return 200, whole, {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                key = (self.headers.get("authorization") or "").removeprefix("Bearer ") or None
                answer = endpoint.answer(Seen(self.path, key, json.loads(raw), self.headers.get("x-gateway-key"), raw))
                if answer is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, body, headers = answer
                self._send(status, body if isinstance(body, str) else json.dumps(body), headers)

            def do_GET(self) -> None:
                if self.path != "/v1/models":
                    self._send(404, "{}", {})
                    return
                endpoint.lists_read.append((self.headers.get("authorization") or "").removeprefix("Bearer ") or None)
                match endpoint.models:
                    case Hang(seconds):
                        endpoint._closing.wait(seconds)
                        self.close_connection = True
                    case Refuse(status=status, message=message, headers=headers):
                        self._send(status, json.dumps({"error": {"message": message}}), headers)
                    case Page(text):
                        self._send(200, text, {"content-type": "text/html"})
                    case str(text):
                        self._send(200, text, {})
                    case names:
                        entries = [name if isinstance(name, dict) else {"id": name} for name in names]
                        self._send(200, json.dumps({"data": entries}), {})

            def _send(self, status: int, body: str, headers: dict[str, str]) -> None:
                data = body.encode()
                plain = {"content-type": "application/json", "content-length": str(len(data))}
                self.send_response(status)
                for name, value in (plain | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler


def _cache(reply: Say) -> dict[str, int]:
    told = {"cached_tokens": reply.cached, "cache_write_tokens": reply.to_cache}
    return {name: count for name, count in told.items() if count is not None}


def chat_reply(reply: Say, body: dict[str, Any], number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.refusal:
        message["refusal"] = reply.refusal
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": f"call_{number}_{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, (n, a) in enumerate(reply.calls)
        ]
    usage = reply.usage and {
        "prompt_tokens": reply.usage[0],
        "completion_tokens": reply.usage[1],
        "total_tokens": sum(reply.usage),
        "prompt_tokens_details": _cache(reply) or None,
    }
    finish = reply.finish or ("tool_calls" if reply.calls else "stop")
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": reply.model or body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    } | ({"service_tier": reply.tier} if reply.tier else {})


def _events(whole: dict[str, Any], *, wants_usage: bool) -> str:
    """Return a reply as server-sent events: word by word on Chat, item by item on Responses."""
    if whole["object"] == "response":
        started = whole | {"status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": started}]
        events += [
            {"type": "response.output_item.done", "output_index": i, "item": item}
            for i, item in enumerate(whole["output"])
        ]
        events.append({"type": f"response.{whole['status']}", "response": whole})
        return "".join(
            f"event: {e['type']}\ndata: {json.dumps(e | {'sequence_number': i})}\n\n" for i, e in enumerate(events)
        )
    (choice,) = whole["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant"}]
    if message.get("reasoning_content"):
        deltas.append({"reasoning_content": message["reasoning_content"]})
    deltas += [{"content": word} for word in re.findall(r"\S+\s*", message["content"] or "")]
    deltas += [{"tool_calls": [call | {"index": i}]} for i, call in enumerate(message.get("tool_calls", ()))]
    told = ("id", "created", "model", "service_tier")
    head = {k: whole[k] for k in told if k in whole} | {"object": "chat.completion.chunk"}
    chunks = [head | {"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if wants_usage:
        chunks.append(head | {"choices": [], "usage": whole["usage"]})
    return "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"


def _responses(reply: Say, body: dict[str, Any], number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        output.append({"id": f"rs_{number}", "type": "reasoning", "summary": summary})
    if reply.searched:
        action = {"type": "search", "query": reply.searched, "sources": [{"type": "url", "url": "http://example/1"}]}
        output.append({"id": f"ws_{number}", "type": "web_search_call", "status": "completed", "action": action})
    for i, (name, arguments) in enumerate(reply.calls):
        call = {"id": f"fc_{number}_{i}", "call_id": f"call_{number}_{i}", "name": name}
        output.append(call | {"type": "function_call", "arguments": json.dumps(arguments), "status": "completed"})
    output += reply.items
    if reply.text is not None or reply.refusal:
        refusal = {"type": "refusal", "refusal": reply.refusal}
        text = {"type": "output_text", "text": reply.text, "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed"}
        output.append({"id": f"msg_{number}", "content": [refusal if reply.refusal else text]} | message)
    usage = reply.usage and {
        "input_tokens": reply.usage[0],
        "output_tokens": reply.usage[1],
        "total_tokens": sum(reply.usage),
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0} | _cache(reply),
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    reason = {"length": "max_output_tokens"}.get(reply.finish or "", reply.finish)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": reply.model or body["model"],
        "status": "incomplete" if reply.finish else "completed",
        "output": output,
        "usage": usage,
        "temperature": body.get("temperature"),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": reason and {"reason": reason},
        "instructions": None,
        "metadata": {},
        "top_p": 1.0,
    } | ({"service_tier": reply.tier} if reply.tier else {})
