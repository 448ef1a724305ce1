"""A gateway in a thread of this process, before a fake endpoint, and what its run holds."""

import threading
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai

from harness.archive.reader import RunReader
from harness.core.progress import Silent, StopSign
from harness.core.records import Rollout
from harness.core.settings_sources import load
from harness.gateway.app import Gateway
from harness.gateway.serve import listen, open_gateway, resolve_upstream, serve
from harness.pipeline.run_environment import RunEnvironment

KEY = "sk-upstream-0123456789"
CHAT: Mapping[str, Any] = {"model": "m", "temperature": 1.0, "messages": [{"role": "user", "content": "Why?"}]}


class _Notes(Silent):
    def __init__(self) -> None:
        self.notes = list[str]()

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class Served:
    """A gateway that answers at `url`."""

    gateway: Gateway
    url: str
    http: httpx2.Client
    progress: _Notes
    stop: StopSign = field(default_factory=StopSign)

    @property
    def folder(self) -> Path:
        return self.gateway.keeper.store.folder

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        content: dict[str, Any] = {"content": body} if isinstance(body, bytes | str) else {"json": body}
        return self.http.post(f"{self.url}{path}", headers=headers, timeout=30, **content)

    def chat(self, session: str, **changes: Any) -> httpx2.Response:
        return self.post(f"/s/{session}/v1/chat/completions", {**CHAT, **changes})

    def close(self, session: str, answer: Any = "Because.", query: str = "Why?", **more: Any) -> httpx2.Response:
        return self.post(f"/s/{session}/close", {"answer": answer, "query": query, **more})

    def client(self, session: str) -> openai.OpenAI:
        return openai.OpenAI(api_key="any", base_url=f"{self.url}/s/{session}/v1", max_retries=0)


@contextmanager
def gateway(
    upstream: str, runs_dir: Path, *, token: str | None = None, folder: Path | None = None, **settings: Any
) -> Generator[Served]:
    """Serve until the block ends; the sessions that are open then are kept."""
    ready, served, errors = threading.Event(), list[Served](), list[BaseException]()
    stop, progress = StopSign(), _Notes()

    async def work() -> None:
        run_env = RunEnvironment({"OPENAI_API_KEY": KEY}, progress=progress, stop=stop)
        loaded = load({"tokens": "auto", "base_url": (upstream,), "runs_dir": runs_dir, **settings})
        found = await resolve_upstream(None, loaded, run_env)
        with closing(listen("127.0.0.1", 0, token)) as listening:
            async with open_gateway(found, run_env, token, folder) as opened:
                url = f"http://127.0.0.1:{listening.getsockname()[1]}"
                served.append(Served(opened, url, http, progress, stop))
                ready.set()
                await serve(opened, listening, run_env)

    def run() -> None:
        try:
            anyio.run(work)
        except BaseException as exc:  # noqa: BLE001 - raised again where the block ends
            errors.append(exc)
            ready.set()

    with httpx2.Client() as http:
        thread = threading.Thread(target=run)
        thread.start()
        ready.wait()
        try:
            if served:
                yield served[0]
        finally:
            stop.asked = True
            http.close()
            thread.join()
    if errors:
        raise errors[0]


def rollouts_in(folder: Path) -> list[Rollout]:
    """Return all rollouts of a run, query by query."""
    with RunReader(folder) as reader:
        return [rollout for query in reader.queries() for rollout in reader.group(query).rollouts]
