"""An HTTP client that gives each request in flight a pool of connections for itself.

A pool looks at each of its connections whenever a request begins or ends, whether it is free and still alive. With 256
requests in flight on one pool that takes a fifth of the CPU of a call, with 16 still a twentieth. The openai client's
own pool also closes all free connections but 100, so that most calls would begin with a new one.
"""

from typing import Any

import httpx2
import openai


class PooledClient(openai.DefaultAsyncHttpxClient):
    """Sends each request through a pool that has none under way; all pools share the options and the cookies."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = options
        self._pools: list[httpx2.AsyncClient] = []
        self._free: list[httpx2.AsyncClient] = []
        """The pool that was used last comes first: its connection is the least likely to be closed by now."""

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """Send a request."""
        if self._free:
            pool = self._free.pop()
        else:
            pool = openai.DefaultAsyncHttpxClient(**self._options)
            self._pools.append(pool)
        try:
            response = await pool.send(request, **more)
        finally:
            self._free.append(pool)
        for answer in (*response.history, response):
            self.cookies.extract_cookies(answer)
        return response

    async def aclose(self) -> None:
        """Close all connections, and let the pools go: the client of a call that was cut off is in a cycle."""
        pools, self._pools, self._free = self._pools, [], []
        for pool in pools:
            await pool.aclose()
        await super().aclose()
