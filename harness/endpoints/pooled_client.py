"""An HTTP client of several pools of connections.

A pool looks at each of its connections whenever a request begins or ends, whether it is free and still alive. With 256
requests in flight on one pool that takes a fifth of the CPU of a call, and more with more. The openai client's own pool
also closes all free connections but 100, so that most calls would begin with a new one.
"""

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
        self._pools: dict[httpx2.AsyncClient, int] = {}

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """Send a request."""
        pool = next((pool for pool, under_way in self._pools.items() if under_way < IN_A_POOL), None)
        pool = pool or openai.DefaultAsyncHttpxClient(**self._options)
        self._pools[pool] = self._pools.get(pool, 0) + 1
        try:
            response = await pool.send(request, **more)
        finally:
            self._pools[pool] -= 1
        for answer in (*response.history, response):
            self.cookies.extract_cookies(answer)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools:
            await pool.aclose()
        await super().aclose()
