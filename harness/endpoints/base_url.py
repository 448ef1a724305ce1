"""Which text is the address of a model server: one that every reader takes for the same host, and that holds no key."""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

import httpx2

from harness.core.errors import UsageError
from harness.core.wording import joined

_LONGEST = 2048
_LONGEST_SHOWN = 200
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?")
_EXAMPLE = "expected something like http://localhost:8000/v1"


def checked_base_url(url: str, flag: str) -> str:
    """Return an address without spaces around it and slashes at its end; `flag` is what named it.

    Raises UsageError, one line. What may hold a password or a key (an address with one of @?#%) is not shown.
    """
    url = url.strip()
    if fault := _fault(url):
        secret = any(character in url for character in "@?#%")
        shown = "" if secret or len(url) > _LONGEST_SHOWN else repr(url)
        raise UsageError(f"{joined(flag, shown)} {fault}")
    return url.rstrip("/")


def _fault(url: str) -> str | None:
    """Return what is wrong with an address, as the rest of a sentence."""
    if len(url) > _LONGEST:
        return f"is not an http(s) address: it has {len(url):,} characters; {_EXAMPLE}"
    if "\\" in url or any(character.isspace() or not character.isprintable() for character in url):
        return f"is not an http(s) address: it holds a space, a backslash or an unseen character; {_EXAMPLE}"
    try:
        parts, called = urlsplit(url), httpx2.URL(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx2.InvalidURL):  # half a bracket, or a port that is no number
        return f"is not an http(s) address; {_EXAMPLE}"
    if not is_address:
        return f"is not an http(s) address; {_EXAMPLE}"
    return _fault_of_host(parts, called) or _fault_of_rest(url, parts)


def _fault_of_host(parts: SplitResult, called: httpx2.URL) -> str | None:
    """Return why it is not plain which host is called. The client must call the host that was checked."""
    host = parts.hostname or ""
    if not (_HOST_NAME.fullmatch(host) or _is_ipv6(host)):
        return "names no plain host: letters, digits, dots and hyphens; write other letters in their xn-- form"
    port = None if parts.port == {"http": 80, "https": 443}[parts.scheme] else parts.port
    if (parts.scheme, host, port) != (called.scheme, called.raw_host.decode("ascii"), called.port):
        return "can be read as another host than the one that would be called"
    if parts.username and parts.password is None and "." in parts.username:
        return f"has what looks like a host before its @, and would call {host}; write the host alone"
    return None


def _fault_of_rest(url: str, parts: SplitResult) -> str | None:
    if "?" in url or "#" in url:
        return (
            "has a query or fragment (after ? or #), which no call to a model can carry; leave that part out, and give "
            f"a key for {parts.hostname} as OPENAI_API_KEY or HARNESS_JUDGE_API_KEY"
        )
    return None


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
