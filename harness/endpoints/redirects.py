"""Redirects of a model server. Prompts and keys go to the origin that was named (scheme, host and port), nowhere else.

The client follows redirects by itself. Each request, also one that follows a redirect, is looked at before it is sent.
"""

from collections.abc import Awaitable, Callable

import httpx2
import openai


class RedirectRefused(openai.OpenAIError):
    """A model server wanted to send a request on to another origin. Not a connection error: no retry mends it."""

    def __init__(self, origin: str) -> None:
        """Remember where the request was to go, as an address without user, password and path."""
        super().__init__(f"the endpoint redirects to {origin}, an address that was not named; nothing was sent there")
        self.origin = origin


def only_to_origin_of(url: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Return a hook for requests that raises RedirectRefused for those to another origin than that of `url`."""
    named = httpx2.URL(url).origin

    async def check_origin(request: httpx2.Request) -> None:
        if request.url.origin != named:
            raise RedirectRefused(_written(request.url))

    return check_origin


def _written(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'backslashreplace')}"
