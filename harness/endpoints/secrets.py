"""What a command holds that must be neither kept nor shown: keys, and passwords in addresses."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import httpx2

from harness.core.settings import JUDGE_KEY
from harness.endpoints.address import AGENT_KEY
from harness.endpoints.credentials import AGENT_URL, each_address


def secrets_in(environ: Mapping[str, str], *addresses: object) -> tuple[str, ...]:
    """Return the keys in `environ`, whole and one by one, and what `addresses` and its OPENAI_BASE_URL hold before @.

    Each address is a URL, several URLs, or None; what is no URL holds no password. Passwords count as written, unquoted
    and with their user, as does a user without one, which is a token; and the Basic values that HTTP clients make.
    """
    values = [environ.get(name) or "" for name in (AGENT_KEY, JUDGE_KEY)]
    keys = [key.strip() for value in values for key in (value, *value.split(","))]
    credentials = [
        each for url in each_address((*addresses, environ.get(AGENT_URL))) for each in secrets_in_address(url)
    ]
    return tuple(dict.fromkeys(filter(None, (*keys, *credentials))))


def secrets_sent(request: httpx2.Request) -> tuple[str, ...]:
    """Return the secrets that a request carries: its Authorization value, and what its address holds before the @."""
    value = request.headers.get("authorization", "").partition(" ")[2].strip()
    return tuple(filter(None, (value, value.rstrip("="), *secrets_in_address(str(request.url)))))


def secrets_in_address(url: object) -> tuple[str, ...]:
    """Return the password of an address, or its user where there is none, in every form in which others quote it."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return ()
    if parts is None or (not parts.username and not parts.password):
        return ()
    user, password = parts.username or "", parts.password or ""
    secret = password or user
    pair = f"{unquote(user)}:{unquote(password)}".encode("utf-8", "surrogateescape")
    basic = (b64encode(pair).decode("ascii"), urlsafe_b64encode(pair).decode("ascii"))  # what stands behind `Basic`
    return (secret, unquote(secret), f"{user}:{password}@", *basic, *(value.rstrip("=") for value in basic))
