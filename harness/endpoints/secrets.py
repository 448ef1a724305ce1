"""What a command holds that must be neither kept nor shown: keys, and passwords in addresses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from harness.core.settings import JUDGE_KEY
from harness.endpoints.address import AGENT_KEY, AGENT_URL


def secrets_in(environ: Mapping[str, str], *addresses: object) -> tuple[str, ...]:
    """Return the keys in `environ`, and the passwords in `addresses` and in its OPENAI_BASE_URL.

    Each address is a URL, several URLs, or None; what is no URL holds no password. Keys with commas between them
    count whole and one by one; passwords count as written and unquoted.
    """
    values = [environ.get(name) or "" for name in (AGENT_KEY, JUDGE_KEY)]
    keys = [key.strip() for value in values for key in (value, *value.split(","))]
    passwords = [_password(url) for url in _urls((*addresses, environ.get(AGENT_URL)))]
    return tuple(filter(None, (*keys, *passwords, *map(unquote, passwords))))


def _urls(addresses: Iterable[object]) -> Iterable[object]:
    for address in addresses:
        yield from cast("Sequence[Any]", address) if isinstance(address, list | tuple) else (address,)


def _password(url: object) -> str:
    try:
        return (urlsplit(url).password or "") if isinstance(url, str) else ""
    except ValueError:
        return ""
