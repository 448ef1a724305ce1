"""An HTTP client of several pools of connections.

A pool looks at each of its connections whenever a request begins or ends, whether it is free and still alive. With 256
requests in flight on one pool that takes a fifth of the CPU of a call, and more with more. The openai client's own pool
also closes all free connections but 100, so that most calls would begin with a new one.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai

IN_A_POOL = 16
"""Requests that one pool has under way at a time; a further pool is made once all others have as many."""


class PooledClient(openai.DefaultAsyncHttpxClient):
    """Sends each request through the first pool that has room; all pools share the options and the cookies."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = options
        self._pools: list[_Pool] = []

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """Send a request."""
        with self._pool().in_use() as client:
            response = await client.send(request, **more)
        for answer in (*response.history, response):
            self.cookies.extract_cookies(answer)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools:
            await pool.client.aclose()
        await super().aclose()

    def _pool(self) -> "_Pool":
        with_room = next((pool for pool in self._pools if pool.under_way < IN_A_POOL), None)
        if with_room is None:
            with_room = _Pool(openai.DefaultAsyncHttpxClient(**self._options))
            self._pools.append(with_room)
        return with_room


class _Pool:
    """One pool of connections, and how many requests it has under way."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client, self.under_way = client, 0

    @contextmanager
    def in_use(self) -> Generator[httpx2.AsyncClient]:
        self.under_way += 1
        try:
            yield self.client
        finally:
            self.under_way -= 1
