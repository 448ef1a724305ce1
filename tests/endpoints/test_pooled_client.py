"""A pool for each request in flight: all connections are kept, none is looked at for another, cookies are shared."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2

from harness.endpoints.client import PooledClient

AT_A_TIME = 128
"""More than the 100 free connections that the openai client would keep."""


@dataclass
class Server:
    """Replies once as many requests have come as there are to be at a time; notes connections and cookies."""

    address: str = ""
    connections: int = 0
    handlers: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    cookies: list[bytes] = field(default_factory=list[bytes])
    waiting: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.handlers += filter(None, [asyncio.current_task()])
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.cookies += [line for line in head.split(b"\r\n") if line.lower().startswith(b"cookie")]
                await self._until_all_are_here()
                writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: route=3\r\nContent-Length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _until_all_are_here(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        if len(self.waiting) == AT_A_TIME:
            for other in self.waiting:
                other.set_result(None)
            self.waiting.clear()
        await turn


@asynccontextmanager
async def serving() -> AsyncGenerator[Server]:
    server = Server()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=2 * AT_A_TIME) as listening:
        server.address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        yield server
        await asyncio.wait(server.handlers)  # they end once the client has closed all connections


def test_as_many_connections_are_made_as_requests_are_in_flight_and_all_of_them_serve_again() -> None:
    async def work() -> None:
        async with serving() as server:
            client = PooledClient(trust_env=False, verify=False)
            for _ in range(3):
                replies = await asyncio.gather(*[client.get(server.address) for _ in range(AT_A_TIME)])
                assert {reply.text for reply in replies} == {"ok"}
            assert server.connections == AT_A_TIME
            assert server.cookies == [b"Cookie: route=3"] * 2 * AT_A_TIME
            await client.aclose()

    asyncio.run(work())


def test_no_pool_is_shared_by_requests_in_flight_and_closing_closes_all() -> None:
    async def work() -> None:
        async with serving() as server:
            client = PooledClient(trust_env=False, verify=False)
            requests = [asyncio.create_task(client.get(server.address)) for _ in range(AT_A_TIME - 1)]
            await asyncio.sleep(0.1)
            pools, free = client._pools, client._free  # pyright: ignore[reportPrivateUsage] - what the test is about
            assert (len(pools), len(free)) == (AT_A_TIME - 1, 0)
            await asyncio.gather(client.get(server.address), *requests)
            assert set(free) == set(pools)
            assert len(free) == AT_A_TIME
            await client.aclose()
            assert client.is_closed
            assert all(pool.is_closed for pool in pools)

    asyncio.run(work())


def test_a_cookie_that_came_with_a_redirect_goes_with_the_next_request() -> None:
    requests: list[httpx2.Request] = []

    def server(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        if "cookie" in request.headers:
            return httpx2.Response(200)
        return httpx2.Response(307, headers={"location": "/", "set-cookie": "route=3"})

    async def work() -> None:
        async with PooledClient(transport=httpx2.MockTransport(server)) as client:
            for _ in range(3):
                assert (await client.get("http://here/")).status_code == 200

    asyncio.run(work())
    assert len(requests) == 4
