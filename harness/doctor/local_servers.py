"""Model servers on this machine, found at the ports where they usually are."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
import openai

from harness.core.errors import UsageError, quoted
from harness.doctor.checks import Check, DoctorRequest
from harness.endpoints.address import Endpoint
from harness.endpoints.model_list import read_list

USUAL_PORTS = {8000: "vLLM", 8080: "llama.cpp", 11434: "Ollama", 1234: "LM Studio", 4000: "LiteLLM", 30000: "SGLang"}
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_PATIENCE_S = 1.0
_LISTED = 8


@dataclass(frozen=True)
class Server:
    """A model server that answered: the models it serves, or that it wants a key before it lists them."""

    port: int
    models: tuple[str, ...]
    wants_key: bool = False

    @property
    def label(self) -> str:
        """Its address, and the server that usually has its port."""
        usual = USUAL_PORTS.get(self.port)
        return f"127.0.0.1:{self.port}" + (f" (usually {usual})" if usual else "")


def usual_model(models: Sequence[str]) -> str:
    """Return the first of some models that is not for embeddings; NAME where there is none."""
    return next((m for m in models if "embed" not in m.lower()), "NAME")


def parse_ports(text: str | None) -> tuple[int, ...]:
    """Read a list of ports, `8000,11434`; None gives the usual ones. Raises UsageError."""
    if text is None:
        return tuple(USUAL_PORTS)
    words = [w.strip() for w in text.split(",") if w.strip()]
    if not all(w.isascii() and w.isdigit() and len(w) <= 5 and 0 < int(w) < 65536 for w in words):
        raise UsageError(f"--ports {quoted(text)}: expected ports from 1 to 65535 with commas between, like 8000,11434")
    return tuple(dict.fromkeys(map(int, words)))


async def find_servers(ports: Sequence[int]) -> list[Server]:
    """Ask each port of 127.0.0.1 for its models, all at once; no key, no proxy, and no way to another address."""
    servers: dict[int, Server] = {}

    async def ask_port(port: int) -> None:
        # whatever answers otherwise is no model server
        with suppress(Exception), anyio.move_on_after(_PATIENCE_S):
            async with client.stream("GET", f"http://127.0.0.1:{port}/v1/models") as response:
                if response.status_code in {401, 403}:
                    servers[port] = Server(port, (), wants_key=True)
                elif listed := await read_list(response):
                    servers[port] = Server(port, listed.names)

    async with (
        openai.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False) as client,
        anyio.create_task_group() as tasks,
    ):
        for port in ports:
            tasks.start_soon(ask_port, port)
    return [servers[port] for port in ports if port in servers]


async def server_checks(request: DoctorRequest, ports: Sequence[int], endpoint: Endpoint | None = None) -> list[Check]:
    """Return a check for each server found at `ports`, with the command that would use it."""
    servers = await find_servers(ports)
    if not servers:
        places = f"at 127.0.0.1, ports {', '.join(map(str, ports))}" if ports else "looked for, by --ports"
        return [Check("local server", "ok", f"none {places}")]
    used = urlsplit((endpoint and endpoint.base_url) or "")
    checks: list[Check] = []
    for server in servers:
        more = f" and {len(server.models) - _LISTED} more" if len(server.models) > _LISTED else ""
        serves = f"serves {', '.join(server.models[:_LISTED]) or 'none'}{more}"
        if used.hostname in LOOPBACK and used.port == server.port:
            more = "" if server.wants_key else f"; it {serves}"
            checks.append(Check("local server", "ok", f"{server.label} is the endpoint in use{more}"))
            continue
        api = "chat" if request.settings.api == "responses" else None
        address = f"http://127.0.0.1:{server.port}/v1"
        command = request.command("run", base_url=address, model=usual_model(server.models), api=api)
        finding = serves if server.models else "serves no model yet"
        if server.wants_key:
            finding, command = "wants a key before it tells what it serves", f"OPENAI_API_KEY=ITS-KEY {command}"
        checks.append(Check("local server", "ok", f"{server.label} {finding}; it is used only if you say so", command))
    return checks
