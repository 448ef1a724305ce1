"""The gateway beside its upstream alone and beside a bare starlette pass-through: throughput, and CPU time a call.

    python benchmarks/gateway.py [ROUNDS] [--latency SECONDS] [--in-flight N] [--calls N] [--busy]

N programs (128) each play ROUNDS sessions (5) of N calls (4) at an upstream that takes a second for each reply of 200
tokens: at the upstream itself, through a pass-through of 20 lines, and through `harness gateway`, which also closes
each session into a rollout on disk. The calls ask for token ids and logprobs themselves, so that all three carry the
same bytes; a last row is of calls that do not, for which the gateway asks and takes the tokens out again. Each server
is a process of its own; its CPU time is what the system counts for it between the first call and the last reply.
Calls a second are those of each program between its first reply and its last, all added up: that all of them begin at
once, and not all end at once, is the benchmark's doing.

The throughput needs a machine without other work: two cores for three processes. `--busy` measures it on any machine,
in one loop whose clock counts the CPU time of the gateway and the waits, and of upstream and programs nothing.
"""

import argparse
import asyncio
import gc
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from in_flight import CpuTimeLoop, FreeEndpoint, Uncounted

from harness.archive import folder_store
from harness.cli.app import OBJECTS_BEFORE_A_LOOK
from harness.core.settings_sources import load as load_settings
from harness.gateway.serve import listen, open_gateway, resolve_upstream, serve
from harness.pipeline.run_environment import RunEnvironment

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_endpoint import Raw, Reaction, Say, Seen, chat_reply

TOKENS = 200
ASKS = {"logprobs": True, "return_token_ids": True}
UPSTREAM = f"""
import asyncio, json, sys
async def app(scope, receive, send):
    raw = b""
    while True:
        message = await receive()
        raw += message.get("body", b"")
        if not message.get("more_body"):
            break
    body, text = json.loads(raw), "word " * {TOKENS}
    await asyncio.sleep(float(sys.argv[2]))
    choice = {{"index": 0, "message": {{"role": "assistant", "content": text}}, "finish_reason": "stop"}}
    whole = {{"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}}
    prompt = len(raw) // 4
    whole["usage"] = dict(prompt_tokens=prompt, completion_tokens={TOKENS}, total_tokens=prompt + {TOKENS})
    if body.get("return_token_ids"):
        whole["prompt_token_ids"], choice["token_ids"] = list(range(prompt)), list(range({TOKENS}))
    if body.get("logprobs"):
        choice["logprobs"] = {{"content": [
            {{"token": "word", "logprob": -0.5, "bytes": None, "top_logprobs": []}} for _ in range({TOKENS})]}}
    data = json.dumps(whole).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({{"type": "http.response.start", "status": 200, "headers": headers}})
    await send({{"type": "http.response.body", "body": data}})
"""
PASS_THROUGH = """
import httpx2, sys
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
client = httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None))
async def forward(request):
    headers = {"content-type": "application/json", "authorization": "Bearer key"}
    answer = await client.post(sys.argv[2] + request.path_params["path"], content=await request.body(), headers=headers)
    return Response(answer.content, answer.status_code, {"content-type": answer.headers["content-type"]})
app = Starlette(routes=[Route("/s/{session}/v1/{path:path}", forward, methods=["POST"])])
"""
SERVE = """
import uvicorn
uvicorn.run(app, port=int(sys.argv[1]), log_level="critical", access_log=False, lifespan="off", timeout_keep_alive=75)
"""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def serving(words: list[str], port: int) -> Generator[int]:
    """Run a server; give its process id once it listens."""
    environ = dict(os.environ) | {"OPENAI_API_KEY": "key"}
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Connection:
    """One kept connection of a program, which takes the machine less time than a client library."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def post(self, path: str, body: Any) -> Any:
        """Send JSON, and return that of the reply. Raises RuntimeError for an error."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length: ")[2].partition("\r\n")[0])
        content = await self._reader.readexactly(length)
        if " 200 " not in answer.partition("\r\n")[0]:
            raise RuntimeError(f"{path}: {content.decode()}")
        return json.loads(content)


async def load(
    port: int, name: str, options: argparse.Namespace, asks: dict[str, Any], *, counted: bool = True
) -> float:
    """Play all sessions, and close them unless their `name` is plain; return the calls a second.

    The clock of `--busy` leaves out what is not `counted`.
    """

    rates = list[float]()

    async def program(number: int) -> None:
        times = list[float]()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        connection = Connection(reader, writer)
        for session in range(options.rounds):
            base = f"/s/{name}-{number}-{session}"
            messages = [{"role": "system", "content": "Be brief. " * 50}, {"role": "user", "content": "Why?"}]
            for _ in range(options.calls):
                body = {"model": "m", "messages": messages, "temperature": 1.0, **asks}
                answer = await connection.post(f"{base}/v1/chat/completions", body)
                times.append(anyio.current_time())
                messages += [answer["choices"][0]["message"], {"role": "user", "content": "Go on."}]
            if name != "plain":
                await connection.post(f"{base}/close", {"answer": "So.", "query": f"Why {session}?"})
        writer.close()
        rates.append((len(times) - 1) / (times[-1] - times[0] or math.inf))

    async def uncounted(number: int) -> None:
        await Uncounted(program(number))

    async with asyncio.TaskGroup() as tasks:
        for number in range(options.in_flight):
            tasks.create_task(program(number) if counted else uncounted(number))
    return sum(rates)


def warm_up(options: argparse.Namespace) -> argparse.Namespace:
    """Return the options of a first call by each program, which is not measured."""
    return argparse.Namespace(rounds=1, in_flight=options.in_flight, calls=1)


def measure(
    what: str, at: tuple[int, int], name: str, options: argparse.Namespace, asks: dict[str, Any]
) -> tuple[float, float]:
    """Print and return the calls a second and the CPU milliseconds a call of the server `at` a port and process id."""
    port, pid = at
    asyncio.run(load(port, name if name == "plain" else f"warm-{name}", warm_up(options), asks))
    before, calls = cpu_s(pid), options.rounds * options.in_flight * options.calls
    rate = asyncio.run(load(port, name, options, asks))
    cost_ms = (cpu_s(pid) - before) / calls * 1000
    print(f"{what:44} {rate:7.1f} calls a second   CPU {cost_ms:5.2f} ms a call", flush=True)
    return rate, cost_ms


async def on_a_clock_of_its_own(options: argparse.Namespace, runs: Path) -> tuple[float, float]:
    """Return the calls a second of the upstream alone and of the gateway, as if nothing else ran on the machine."""
    text = "word " * TOKENS

    async def script(seen: Seen) -> Reaction:
        await anyio.sleep(options.latency)
        whole = chat_reply(Say(text, usage=(len(seen.raw) // 4, TOKENS)), seen.body, 1)
        (choice,) = whole["choices"]
        entry: dict[str, Any] = {"token": "word", "logprob": -0.5, "bytes": None, "top_logprobs": []}
        whole["prompt_token_ids"] = [*range(whole["usage"]["prompt_tokens"])]
        choice |= {"token_ids": [*range(TOKENS)], "logprobs": {"content": [entry] * TOKENS}}
        return Raw(whole)

    ours = 0.0
    async with FreeEndpoint(script).serving() as endpoint:
        run_env = RunEnvironment({"OPENAI_API_KEY": "key"})
        settings = load_settings({"base_url": (endpoint.base_url,), "tokens": "auto", "runs_dir": runs})
        upstream = await resolve_upstream(None, settings, run_env)
        port = int(endpoint.base_url.rpartition(":")[2].partition("/")[0])
        await load(port, "plain", warm_up(options), ASKS, counted=False)
        alone = await load(port, "plain", options, ASKS, counted=False)
        with listen("127.0.0.1", 0, None) as listening:
            async with open_gateway(upstream, run_env) as gateway, anyio.create_task_group() as tasks:
                tasks.start_soon(serve, gateway, listening, run_env)
                await anyio.sleep(1)
                await load(listening.getsockname()[1], "warm", warm_up(options), ASKS, counted=False)
                ours = await load(listening.getsockname()[1], "a", options, ASKS, counted=False)
                run_env.stop.asked = True
    return alone, ours


def main() -> None:
    """Print each server's figures, and the gateway's beside the others'."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--in-flight", type=int, default=128)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    if options.busy:
        gc.set_threshold(OBJECTS_BEFORE_A_LOOK, *gc.get_threshold()[1:])  # as in the command
        folder_store.SLOW_S = math.inf  # nobody can wait for a thread: its time does not count
        with tempfile.TemporaryDirectory() as runs:
            loop = {"loop_factory": CpuTimeLoop}
            alone, rate = anyio.run(on_a_clock_of_its_own, options, Path(runs), backend_options=loop)
        print(f"{options.in_flight} in flight, {options.latency:g} s a reply, as if nothing else ran:")
        print(
            f"the upstream alone {alone:.1f}, the gateway {rate:.1f} calls a second: {rate / alone:.3f} (0.95 or more)"
        )
        return
    ports = [free_port() for _ in range(3)]
    upstream = f"http://127.0.0.1:{ports[0]}/v1"
    code = [sys.executable, "-c"]
    with (
        tempfile.TemporaryDirectory() as runs,
        serving([*code, UPSTREAM + SERVE, str(ports[0]), str(options.latency)], ports[0]) as at_upstream,
        serving([*code, PASS_THROUGH + SERVE, str(ports[1]), f"{upstream}/"], ports[1]) as at_bare,
        serving(
            [*code[:1], *f"-m harness gateway --port {ports[2]} --upstream {upstream} --runs-dir {runs}".split()],
            ports[2],
        ) as at_ours,
    ):
        print(f"{options.in_flight} in flight, {options.latency:g} s a reply, sessions of {options.calls} calls:")
        alone, _ = measure("the upstream alone", (ports[0], at_upstream), "plain", options, ASKS)
        _, plain = measure("a bare starlette pass-through", (ports[1], at_bare), "plain", options, ASKS)
        rate, cost = measure("the gateway", (ports[2], at_ours), "a", options, ASKS)
        asking = measure("the gateway, which asks for the tokens", (ports[2], at_ours), "b", options, {})
        print(f"throughput beside the upstream alone: {rate / alone:.3f}, {asking[0] / alone:.3f} (0.95 or more)")
        print(f"CPU beside the pass-through: {cost / plain:.2f}, {asking[1] / plain:.2f} (1.5 or less)")
        print(json.dumps({"throughput": rate / alone, "cpu": cost / plain}))


if __name__ == "__main__":
    main()
