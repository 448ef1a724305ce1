"""Where the models are: the agent's endpoint, the judge's, and each juror's, with the key that each may have.

Everything that the environment says of a model server is read here, from the mapping that the command hands in.
"""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from harness.core.errors import UsageError
from harness.core.settings import JUDGE_KEY, OFFLINE_JUDGE, Api, Settings
from harness.endpoints.base_url import checked_base_url

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HOST = "api.openai.com"
AGENT_KEY = "OPENAI_API_KEY"
AGENT_URL = "OPENAI_BASE_URL"
_NO_KEY = "none"
"""Sent where no key is set: local servers take any word."""


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

    @property
    def url(self) -> str:
        """The address that requests go to."""
        return self.base_url or OPENAI_URL

    @property
    def host(self) -> str:
        """Host and port, as they stand in a judge's identity."""
        return host_of(self.base_url)


def host_of(base_url: str | None) -> str:
    """Return host and port of an address, without user and password; None is OpenAI's own address."""
    return urlsplit(base_url).netloc.rpartition("@")[2] if base_url else OPENAI_HOST


def agent_endpoint(settings: Settings, environ: Mapping[str, str]) -> Endpoint | None:
    """Return where the agent's models are, or None with neither a key nor an address.

    Raises UsageError for an address that is no http URL.
    """
    flag = "--base-url" if settings.base_url else AGENT_URL
    base_url = _checked(settings.base_url or environ.get(AGENT_URL) or None, flag)
    key = _key(environ, AGENT_KEY)
    if not base_url and not key:
        return None
    return Endpoint(
        base_url=base_url,
        api=settings.api or _usual_api(base_url),
        key=SecretStr(key or _NO_KEY),
        certificates=Certificates.named_in(environ),
    )


def judge_endpoint(settings: Settings, environ: Mapping[str, str]) -> Endpoint | None:
    """Return where the judge is: its own address, else the agent's; None with neither a key nor an address.

    The agent's key goes along only to the agent's own host or to OpenAI's: never to a third party's.
    """
    agent = agent_endpoint(settings, environ)
    judge_url = _checked(_only(settings.judge_base_url, "--judge-base-url"), "--judge-base-url")
    judge_key = _key(environ, JUDGE_KEY)
    base_url = judge_url or (agent.base_url if agent else None)
    if agent is None and not judge_url and not judge_key:
        return None
    same_address = agent is not None and agent.base_url == base_url
    lends_key = agent is not None and host_of(base_url) in {agent.host, OPENAI_HOST}
    key = SecretStr(judge_key or _NO_KEY)
    return Endpoint(
        base_url=base_url,
        api=settings.judge_api or (agent.api if agent and same_address else _usual_api(base_url)),
        key=agent.key if agent and lends_key and not judge_key else key,
        certificates=Certificates.named_in(environ),
    )


def jurors(settings: Settings, environ: Mapping[str, str]) -> list[tuple[Settings, Mapping[str, str]]]:
    """Return, for each judge, settings with a single model and address, and the environment with its key alone.

    HARNESS_JUDGE_API_KEY may hold several keys with commas between, matched by position. A single key goes only to
    the first judge's host: never to another's. Raises UsageError where the numbers do not fit.
    """
    models = _several(settings.judge_model)
    urls = _several(settings.judge_base_url)
    if len(models) < 2:
        url = _only(settings.judge_base_url, "--judge-base-url")
        return [(replace(settings, judge_base_url=url), environ)]
    if len(urls) not in {1, len(models)}:
        raise UsageError(
            f"{len(models)} --judge-model but {len(urls)} --judge-base-url: give one for all, or one for each"
        )
    addresses = urls * len(models) if len(urls) == 1 else urls
    keys = [key.strip() for key in environ.get(JUDGE_KEY, "").split(",")]
    if len(keys) not in {1, len(models)}:
        raise UsageError(f"{len(models)} --judge-model but {len(keys)} keys in HARNESS_JUDGE_API_KEY")
    hosts = [host_of(checked_base_url(url, "--judge-base-url")) if url else "" for url in addresses]
    if len(keys) == 1:
        first_host = next((host for host, model in zip(hosts, models, strict=True) if model != OFFLINE_JUDGE), None)
        keys = [keys[0] if host == first_host else "" for host in hosts]
    return [
        (
            replace(settings, judge_model=m, judge_base_url=u or None),
            {**environ, JUDGE_KEY: k},
        )
        for m, u, k in zip(models, addresses, keys, strict=True)
    ]


def _several(value: str | tuple[str, ...] | None) -> list[str | None]:
    return list(value) if isinstance(value, tuple) else [value]


def _only(value: str | tuple[str, ...] | None, flag: str) -> str | None:
    """Return the only value of a setting that a jury has several of. Raises UsageError for several."""
    if isinstance(value, tuple):
        raise UsageError(f"{len(value)} {flag} for one judge; name as many with --judge-model")
    return value


def _key(environ: Mapping[str, str], name: str) -> str | None:
    """Return a key without the line break that copying it brought along, None where none is set.

    Raises UsageError, which does not show the key, for a character that no HTTP header can carry.
    """
    key = environ.get(name, "").strip()
    if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
        raise UsageError(f"{name} holds a character that no key has (a quotation mark, a space?); set it anew")
    return key or None


def _usual_api(base_url: str | None) -> Api:
    return "responses" if base_url is None or urlsplit(base_url).hostname == OPENAI_HOST else "chat"


def _checked(url: str | None, flag: str) -> str | None:
    return None if url is None else checked_base_url(url, flag)
