"""HTTP clients for endpoints. Certificates are read once a process: to read them takes longer than a whole rollout."""

import os
import ssl
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import httpx2
import openai

Heard = Callable[[Any], Awaitable[None]]


def http_client(*hooks: Heard) -> openai.DefaultAsyncHttpxClient:
    """Return an HTTP client with the openai client's own defaults; `hooks` get each response."""
    certificates = _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return openai.DefaultAsyncHttpxClient(verify=certificates, event_hooks={"response": list(hooks)})


@cache
def _certificates(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return what the client would load for itself: it reads the two names from the environment again."""
    del file, folder
    return httpx2.create_ssl_context()
