"""A connection on which the head of a request and its body leave together.

httpcore2 sends each by a call of its own, which wakes up both sides twice, and looks a connection's socket up anew
whenever it asks whether the server has closed it. Together that is a sixth of the CPU that a request takes.
"""

# ruff: noqa: ASYNC109 - the parameters have httpcore2's names

import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpcore2
from httpcore2._backends.anyio import AnyIOBackend  # pyright: ignore[reportPrivateUsage]
from httpcore2._utils import is_socket_readable  # pyright: ignore[reportPrivateUsage]

_MOST_HELD_BYTES = 1 << 20


class OneSend(httpcore2.AsyncNetworkStream):
    """Holds what is written until something is read, or it is much."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream, self._held = stream, bytearray()
        self._socket = stream.get_extra_info("socket")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send what is held, and return what comes."""
        if self._held:
            with suppress(httpcore2.WriteError):  # a server may answer, and read no further
                await self._send(timeout)
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Hold bytes. Raises httpcore2.WriteError, WriteTimeout."""
        self._held += buffer
        if len(self._held) > _MOST_HELD_BYTES:
            await self._send(timeout)

    async def _send(self, timeout: float | None) -> None:
        held, self._held = bytes(self._held), bytearray()
        await self._stream.write(held, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Return the connection within TLS."""
        return OneSend(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return what is known of the connection."""
        return is_socket_readable(self._socket) if info == "is_readable" else self._stream.get_extra_info(info)


class OneSendBackend(AnyIOBackend):
    """Opens such connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Open a connection. Raises httpcore2.ConnectError, ConnectTimeout."""
        return OneSend(await super().connect_tcp(host, port, timeout, local_address, socket_options))
