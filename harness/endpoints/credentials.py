"""The keys of the environment, and the servers that they may be sent to: those that today's user named.

An address may come from an archive, and so from a stranger. `Credentials.key` is the only way from a key to an address.

The client follows redirects by itself. Each request, also one that follows a redirect, is looked at before it is sent.
"""

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import httpx2
import openai
from pydantic import SecretStr

from harness.core.errors import UsageError, joined, switch
from harness.core.unicode import without_credentials


class RedirectRefused(openai.OpenAIError):
    """A model server wanted to send a request on to another origin. Not a connection error: no retry mends it."""

    def __init__(self, origin: str) -> None:
        super().__init__(f"the endpoint redirects to {origin}, an address that was not named; nothing was sent there")
        self.origin = origin


def only_to_origin(url: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Return a hook for requests that raises RedirectRefused for those to another origin than that of `url`."""
    named = httpx2.URL(url).origin

    async def check_origin(request: httpx2.Request) -> None:
        if request.url.origin != named:
            raise RedirectRefused(f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'backslashreplace')}")

    return check_origin


OPENAI_URL = "https://api.openai.com/v1"
AGENT_URL = "OPENAI_BASE_URL"
CUSTOM_HEADERS = "OPENAI_CUSTOM_HEADERS"
"""Headers that the openai client adds to every request: they may hold a gateway's key."""
_ADDRESSES = (AGENT_URL, "HARNESS_BASE_URL", "HARNESS_JUDGE_BASE_URL")
NO_KEY = "none"
"""Sent where no key is set: local servers take any word."""


def origin_of(url: str | None) -> httpx2.Origin:
    """Return the server (scheme, host, port) of an address; None is OpenAI's own. Raises UsageError for no address."""
    try:
        return httpx2.URL(url or OPENAI_URL).origin
    except (httpx2.InvalidURL, ValueError):  # the address is not shown: it may hold a password
        raise UsageError("an address is no http(s) address; expected something like http://localhost:8000/v1") from None


OPENAI_ORIGIN = origin_of(None)


@dataclass(frozen=True)
class Credentials:
    """The environment's keys, and where they may go beside OpenAI's own server and the environment's own addresses."""

    environ: Mapping[str, str] = field(repr=False)
    origins: frozenset[httpx2.Origin] = frozenset()
    """Servers that flags or config of this command named, or that this machine's own record attests."""
    every_origin: bool = False
    """Whether today's user trusts every address of an archive."""
    withheld: bool = False
    """Whether no call will be made: then a server that nobody named is no error, and gets no key."""

    @classmethod
    def naming(cls, environ: Mapping[str, str], *addresses: object) -> Self:
        """Return the credentials of a command whose user named `addresses`: each a URL, several URLs, or None.

        Never pass an address out of an archive. What is no address names no server.
        """
        return cls(environ, frozenset(_origins((*addresses, *map(environ.get, _ADDRESSES)))))

    def also_to(self, urls: Iterable[str], *, every_origin: bool = False) -> Self:
        """Return credentials that may go to the servers of `urls` as well, or to `every_origin`."""
        more = frozenset(_origins(urls))
        return replace(self, origins=self.origins | more, every_origin=self.every_origin or every_origin)

    def without_calls(self) -> Self:
        """Return credentials for what makes no call: they refuse no address."""
        return replace(self, withheld=True)

    def with_variables(self, **variables: str) -> Self:
        """Return credentials with some variables of the environment set otherwise; they name no other servers."""
        return replace(self, environ={**self.environ, **variables})

    def may_go_to(self, url: str | None) -> bool:
        """Return whether keys may go to the server of an address. Raises UsageError for what is no address."""
        origin = origin_of(url)
        return self.every_origin or origin == OPENAI_ORIGIN or origin in self.origins

    def key(self, variable: str | None, url: str | None, flag: str) -> SecretStr:
        """Return the key in `variable` for an address, or `none`. Raises UsageError where no user named its server."""
        key = key_in(self.environ, variable) if variable else None
        if self.may_go_to(url):
            return SecretStr(key or NO_KEY)
        secret = variable if key else CUSTOM_HEADERS if self.environ.get(CUSTOM_HEADERS) else None
        if secret and not self.withheld:
            shown = str(without_credentials(url))
            why = f"{secret} would go to {shown}, which the run's archive names and nobody else"
            either = f"{joined(flag, shlex.quote(shown))}, or {switch('trust_archive')} for all addresses of the run"
            raise UsageError(f"{why}: to send it there, add {either}")
        return SecretStr(NO_KEY)


def key_in(environ: Mapping[str, str], variable: str) -> str | None:
    """Return a key without a copy's line break; None: not set. Raises UsageError if no HTTP header can carry it."""
    key = environ.get(variable, "").strip()
    if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
        raise UsageError(f"{variable} holds a character that no key has (a quotation mark, a space?); set it anew")
    return key or None


def _origins(addresses: Iterable[object]) -> Iterable[httpx2.Origin]:
    for url in each_address(addresses):
        with suppress(UsageError):  # what would go there is refused where the address is used
            if isinstance(url, str) and url:
                yield origin_of(url)


def each_address(addresses: Iterable[object]) -> Iterable[object]:
    """Yield addresses one by one; several may stand in a list or a tuple."""
    for address in addresses:
        yield from cast("Sequence[Any]", address) if isinstance(address, list | tuple) else (address,)
