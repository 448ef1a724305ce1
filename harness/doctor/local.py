"""Model servers on this machine, found at the ports where they usually are."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
import openai
from pydantic import BaseModel, ValidationError

from harness.doctor.asked import Asked
from harness.doctor.checks import Check
from harness.errors import UsageError
from harness.settings import Endpoint

USUAL_PORTS = {8000: "vLLM", 8080: "llama.cpp", 11434: "Ollama", 1234: "LM Studio", 4000: "LiteLLM", 30000: "SGLang"}
_PATIENCE_S = 1.0
_LISTED = 8


class _Model(BaseModel):
    id: str


class _Models(BaseModel):
    data: list[_Model]


@dataclass(frozen=True)
class Server:
    """One that answered: the models it serves, or that it wants a key before it tells."""

    port: int
    models: tuple[str, ...]
    wants_key: bool = False

    @property
    def base_url(self) -> str:
        """The address to give to --base-url."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def label(self) -> str:
        """Where it is, and what is usually there."""
        usual = USUAL_PORTS.get(self.port)
        return f"127.0.0.1:{self.port}" + (f" (usually {usual})" if usual else "")

    @property
    def best_model(self) -> str:
        """The first model that is not for embeddings; NAME where none is told."""
        return next((m for m in self.models if "embed" not in m.lower()), "NAME")


def ports_from(text: str | None) -> tuple[int, ...]:
    """Read a list of ports, `8000,11434`; None gives the usual ones. Raises UsageError."""
    if text is None:
        return tuple(USUAL_PORTS)
    words = [w.strip() for w in text.split(",") if w.strip()]
    if not all(w.isascii() and w.isdigit() and 0 < int(w) < 65536 for w in words):
        raise UsageError(f"--ports {text!r}: expected ports from 1 to 65535 with commas between, like 8000,11434")
    return tuple(dict.fromkeys(map(int, words)))


async def find_servers(ports: Sequence[int]) -> list[Server]:
    """Ask each port of 127.0.0.1 for its models, all at once; no key goes along."""
    found: dict[int, Server] = {}

    async def look(port: int) -> None:
        with anyio.move_on_after(_PATIENCE_S):
            if server := await _server(port):
                found[port] = server

    async with anyio.create_task_group() as tasks:
        for port in ports:
            tasks.start_soon(look, port)
    return [found[port] for port in ports if port in found]


async def _server(port: int) -> Server | None:
    try:
        async with openai.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False) as client:  # no proxy
            answer = await client.get(f"http://127.0.0.1:{port}/v1/models", timeout=_PATIENCE_S)
            if answer.status_code in {401, 403}:
                return Server(port, (), wants_key=True)
            served = _Models.model_validate_json(answer.content)
    except (OSError, ValueError, _http_errors()):
        return None
    return Server(port, tuple(m.id for m in served.data if m.id.isprintable()))
