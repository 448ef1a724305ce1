"""A server in the event loop of those who call it, so that both live on virtual time: its waits take none.

What it replies is scripted as for tests/fake_endpoint.py, but a script may wait, and may ask the loop for the time.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio

from tests.fake_endpoint import Cut, Hang, Raw, Reaction, Refuse, Say, Seen, chat_reply

VirtualScript = Callable[[Seen], Awaitable[Reaction]]


@dataclass
class VirtualEndpoint:
    """The server. `requests` is its log, in the order of arrival; `replied` holds those that got a reply."""

    script: VirtualScript
    requests: list[Seen] = field(default_factory=list[Seen])
    replied: list[Seen] = field(default_factory=list[Seen])
    base_url: str = ""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["VirtualEndpoint"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.base_url = f"http://{host}:{port}/v1"
        connections = self._connections = set[asyncio.Task[None]]()
        try:
            yield self
        finally:
            server.close()
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the caller has gone, or the test is over
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection stays open."""
        first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        raw = await reader.readexactly(int(headers["content-length"]))
        body = json.loads(raw)
        seen = Seen(first.split()[1], headers.get("authorization"), body, raw=raw)
        self.requests.append(seen)
        reaction = await self.script(seen)
        if isinstance(reaction, Hang):
            await anyio.sleep(reaction.seconds)
        if isinstance(reaction, Hang | Cut):
            return False
        assert isinstance(reaction, Say | Raw | Refuse)
        if isinstance(reaction, Raw):
            status, reply, more = 200, reaction.body, {}
        elif isinstance(reaction, Refuse):
            error = {"message": reaction.message, "code": reaction.code, "param": reaction.param, "type": "error"}
            status, reply, more = reaction.status, {"error": error}, reaction.headers
        else:
            status, reply, more = 200, chat_reply(reaction, body, len(self.requests)), {}
            self.replied.append(seen)
        data = json.dumps(reply).encode()
        lines = {"content-type": "application/json", "content-length": str(len(data))} | more
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode() + data)
        await writer.drain()
        return True
