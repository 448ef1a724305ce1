"""The line between a run and the process of a rollout: messages, each with its length before it."""

import pickle  # noqa: TID251 - between processes of one run; nothing of it is kept
import selectors
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

_LENGTH = struct.Struct("!Q")
_READY_TURNS = 8


def packed(message: object) -> bytes:
    """Return a message as it goes over a socket."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Unpacker:
    """Puts messages together from what a socket gives."""

    def __init__(self) -> None:
        """Begin without any."""
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the messages that are whole."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                return
            message = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            yield pickle.loads(message)  # noqa: S301 - from a process of ours, which runs the user's own agent


class Outbox(selectors.DefaultSelector):
    """The selector of a process's event loop, which sends what waits before the loop does. Any thread may add to it.

    A loop that serves one rollout turns some 45 times a model call: while it has work at hand it seldom asks the
    system for more.
    """

    def __init__(self, line: socket.socket) -> None:
        """Send over `line`."""
        super().__init__()
        self._line, self._lock, self._waiting, self._turns = line, threading.Lock(), bytearray(), 0

    def add(self, message: object) -> None:
        """Have a message wait."""
        with self._lock:
            self._waiting += packed(message)

    def flush(self) -> None:
        """Send what waits, as one piece: each wakes the run."""
        with self._lock:
            if self._waiting:
                self._line.sendall(self._waiting)
                self._waiting.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, as every selector."""
        self._turns += 1
        if timeout is None or timeout > 0:
            self.flush()
        elif self._turns % _READY_TURNS:
            return []
        return super().select(timeout)
