"""Where the models are: each endpoint with the key that it may have, and what must be neither kept nor shown.

What the environment says of a model server is read here and in harness.endpoints.credentials, from the mapping that
the command hands in.
"""

import ipaddress
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from urllib.parse import SplitResult, unquote, urlsplit

import httpx2
from pydantic import BaseModel, ConfigDict, SecretStr

from harness.core.errors import UsageError, before_colon, joined, option
from harness.core.settings import JUDGE_KEY, OFFLINE_JUDGE, Api, Settings
from harness.core.unicode import without_credentials
from harness.endpoints.credentials import (
    AGENT_URL,
    NO_KEY,
    OPENAI_ORIGIN,
    OPENAI_URL,
    Credentials,
    each_address,
    key_in,
    origin_of,
)

_LONGEST = 2048
_LONGEST_SHOWN = 200
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?")
_EXAMPLE = "expected something like http://localhost:8000/v1"


def checked_base_url(url: str, flag: str) -> str:
    """Return an address without spaces around it and slashes at its end. Raises UsageError, which names `flag`."""
    url = url.strip()
    fault: str | None = f"is not an http(s) address; {_EXAMPLE}"
    if len(url) > _LONGEST:
        fault = f"is not an http(s) address: it has {len(url):,} characters; {_EXAMPLE}"
    elif "\\" in url or any(character.isspace() or not character.isprintable() for character in url):
        fault = f"is not an http(s) address: it holds a space, a backslash or an unseen character; {_EXAMPLE}"
    else:
        with suppress(ValueError, httpx2.InvalidURL):  # half a bracket, or a port that is no number
            parts, called = urlsplit(url), httpx2.URL(url)
            if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
                fault = _fault_of_host(url, parts, parts.hostname, called)
    if fault:
        secret = any(character in url for character in "@?#%")
        shown = "" if secret or len(url) > _LONGEST_SHOWN else repr(url)
        raise UsageError(f"{joined(flag, shown)} {fault}")
    return url.rstrip("/")


def _fault_of_host(url: str, parts: SplitResult, host: str, called: httpx2.URL) -> str | None:
    """Return why it is not plain which host is called. The client must call the host that was checked."""
    try:
        is_ipv6 = ipaddress.ip_address(host).version == 6
    except ValueError:
        is_ipv6 = False
    if not (_HOST_NAME.fullmatch(host) or is_ipv6):
        return "names no plain host: letters, digits, dots and hyphens; write other letters in their xn-- form"
    port = None if parts.port == {"http": 80, "https": 443}[parts.scheme] else parts.port
    if (parts.scheme, host, port) != (called.scheme, called.raw_host.decode("ascii"), called.port):
        return "can be read as another host than the one that would be called"
    if parts.username and parts.password is None and "." in parts.username:
        return f"has what looks like a host before its @, and would call {host}; write the host alone"
    if "?" in url or "#" in url:
        return (
            "has a query or fragment (after ? or #), which no call to a model can carry; leave that part out, and give "
            f"a key for {host} as OPENAI_API_KEY or HARNESS_JUDGE_API_KEY"
        )
    return None


OPENAI_HOST = "api.openai.com"
AGENT_KEY = "OPENAI_API_KEY"


class Certificates(BaseModel):
    """Which authorities vouch for a server: a file or a folder of theirs, else those of the machine."""

    model_config = ConfigDict(frozen=True)

    file: str | None = None
    folder: str | None = None

    @classmethod
    def named_in(cls, environ: Mapping[str, str]) -> "Certificates":
        """Return what SSL_CERT_FILE and SSL_CERT_DIR name."""
        return cls(file=environ.get("SSL_CERT_FILE") or None, folder=environ.get("SSL_CERT_DIR") or None)


class Endpoint(BaseModel):
    """An OpenAI-compatible address. `base_url` None is OpenAI's own. The key never leaves this object by printing."""

    model_config = ConfigDict(frozen=True)

    base_url: str | None
    api: Api
    key: SecretStr
    certificates: Certificates = Certificates()
    named: bool = True
    """Whether today's user named it, or it is OpenAI's own: no other server learns the user's organization."""
    named_by: str | None = None
    """The option, argument or variable that the address comes from; None for OpenAI's own."""

    @property
    def url(self) -> str:
        """The address that requests go to."""
        return self.base_url or OPENAI_URL

    @property
    def has_key(self) -> bool:
        """Whether requests go with a key that the user set."""
        return self.key.get_secret_value() != NO_KEY

    @property
    def host(self) -> str:
        """Host and port, as they stand in a judge's identity."""
        return host_of(self.base_url)


def host_of(base_url: str | None) -> str:
    """Return host and port of an address without user and password, in words if it is none; None is OpenAI's own."""
    try:
        return urlsplit(base_url).netloc.rpartition("@")[2] if base_url else OPENAI_HOST
    except ValueError:  # half a bracket
        return "no address"


def agent_endpoint(settings: Settings, credentials: Credentials) -> Endpoint | None:
    """Return the first of `agent_servers`, which says what is raised; None where there is none."""
    return next(iter(agent_servers(settings, credentials)), None)


def agent_servers(settings: Settings, credentials: Credentials) -> tuple[Endpoint, ...]:
    """Return the servers of the agent's models, none with neither a key nor an address.

    Raises UsageError for what is no http URL or is named twice, for servers of several APIs, and as `Credentials.key`.
    """
    urls, flag = _agent_urls(settings, credentials), _agent_flag(settings)
    if not urls and not key_in(credentials.environ, AGENT_KEY):
        return ()
    servers = tuple(_endpoint(url, settings.api, credentials, AGENT_KEY, flag, flag) for url in urls or (None,))
    if twice := next((e for i, e in enumerate(servers) if e.url in {before.url for before in servers[:i]}), None):
        raise UsageError(f"{option('base_url')} names {twice.host} twice: name each server once")
    if len({server.api for server in servers}) > 1:
        apis = f"{servers[0].host} and another server are usually asked by different APIs"
        raise UsageError(f"{before_colon('base_url')}: {apis}; choose one with {option('api')}")
    return servers


def judge_endpoint(settings: Settings, credentials: Credentials) -> Endpoint | None:
    """Return where the judge is: its own address, else the agent's; None with neither a key nor an address.

    The agent's key goes along only to the agent's own server or to OpenAI's. Raises as `agent_servers`.
    """
    agent_urls, flag = _agent_urls(settings, credentials), option("judge_base_url")
    agent_url = next(iter(agent_urls), None)
    has_agent = bool(key_in(credentials.environ, AGENT_KEY) or agent_url)
    named_url = _only(settings.judge_base_url, flag)
    judge_url = None if named_url is None else checked_base_url(named_url, flag)
    has_judge_key = bool(key_in(credentials.environ, JUDGE_KEY))
    if not (has_agent or judge_url or has_judge_key):
        return None
    base_url = judge_url or agent_url
    lends_key = has_agent and origin_of(base_url) in {*map(origin_of, agent_urls or (None,)), OPENAI_ORIGIN}
    variable = JUDGE_KEY if has_judge_key else AGENT_KEY if lends_key else None
    api = settings.judge_api or (settings.api if has_agent and base_url == agent_url else None)
    at_agent = bool(agent_url) and without_credentials(base_url) == without_credentials(agent_url)
    return _endpoint(base_url, api, credentials, variable, flag, _agent_flag(settings) if at_agent else flag)


def _agent_urls(settings: Settings, credentials: Credentials) -> tuple[str, ...]:
    named = settings.base_url or credentials.environ.get(AGENT_URL) or ()
    urls = (named,) if isinstance(named, str) else named
    return tuple(checked_base_url(url, _agent_flag(settings)) for url in urls)


def _agent_flag(settings: Settings) -> str:
    return option("base_url") if settings.base_url else AGENT_URL


def _endpoint(
    base_url: str | None, api: Api | None, credentials: Credentials, variable: str | None, flag: str, named_by: str
) -> Endpoint:
    """Return an endpoint: `flag` would name its address today, `named_by` did."""
    usual: Api = "responses" if base_url is None or urlsplit(base_url).hostname == OPENAI_HOST else "chat"
    return Endpoint(
        base_url=base_url,
        api=api or usual,
        key=credentials.key(variable, base_url, flag),
        certificates=Certificates.named_in(credentials.environ),
        named=credentials.may_go_to(base_url),
        named_by=named_by if base_url else None,
    )


def jurors(settings: Settings, credentials: Credentials) -> list[tuple[Settings, Credentials]]:
    """Return, for each judge, settings with a single model and address, and the credentials with its key alone.

    HARNESS_JUDGE_API_KEY may hold several keys with commas between, matched by position. A single key goes only to
    the first judge's server: never to another's. Raises UsageError where the numbers do not fit.
    """
    named = settings.judge_model, settings.judge_base_url
    models, urls = ([*each] if isinstance(each, tuple) else [each] for each in named)
    if len(models) < 2:
        url = _only(settings.judge_base_url, option("judge_base_url"))
        return [(replace(settings, judge_base_url=url or None), credentials)]
    if len(urls) not in {1, len(models)}:
        numbers = f"{len(models)} {option('judge_model')} but {len(urls)} {option('judge_base_url')}"
        raise UsageError(f"{numbers}: give one for all, or one for each")
    addresses = urls * len(models) if len(urls) == 1 else urls
    keys = [key.strip() for key in credentials.environ.get(JUDGE_KEY, "").split(",")]
    if len(keys) not in {1, len(models)}:
        raise UsageError(f"{len(models)} {option('judge_model')} but {len(keys)} keys in HARNESS_JUDGE_API_KEY")
    servers = [origin_of(checked_base_url(url, option("judge_base_url"))) if url else "" for url in addresses]
    if len(keys) == 1:
        first = next((server for server, model in zip(servers, models, strict=True) if model != OFFLINE_JUDGE), None)
        keys = [keys[0] if server == first else "" for server in servers]
    return [
        (replace(settings, judge_model=m, judge_base_url=u or None), credentials.with_variables(**{JUDGE_KEY: k}))
        for m, u, k in zip(models, addresses, keys, strict=True)
    ]


def _only(value: str | tuple[str, ...] | None, flag: str) -> str | None:
    """Return the only value of a setting that a jury has several of. Raises UsageError for several."""
    if isinstance(value, tuple):
        raise UsageError(f"{len(value)} {flag} for one judge; name as many with {option('judge_model')}")
    return value


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
