"""What an OpenAI-compatible endpoint's errors mean: a refusal of the whole run, or one failure to record."""

import re

import httpx2
import openai

from harness.core.errors import OutOfQuota, Refused
from harness.core.records import Failure, FailureKind
from harness.core.redaction import Redactor
from harness.core.wording import option
from harness.endpoints.credentials import RedirectRefused
from harness.endpoints.reply_body import NoReply
from harness.endpoints.secrets import secrets_sent

QUOTA = "insufficient_quota"
"""The code of a 429 that no waiting mends: the account is empty."""
_CONTEXT_LENGTH = "context_length_exceeded"
_CONTENT_FILTER = {"content_filter", "content_policy_violation"}
_KEYS = re.compile(r"\b(?:Bearer\s+\S+|(?:sk|key|gsk|xai|pk)-[\w*.-]{6,})")
"""What looks like a key: endpoints quote keys in their refusals."""


def as_refusal(  # noqa: PLR0911
    exc: BaseException | None, model: str, host: str, *, judge: bool = False, named_by: str | None = None
) -> Refused | None:
    """Return the error for a refused key, model or address, which `named_by` named; None for other trouble."""
    who, flag = ("the judge's", option("judge_model")) if judge else ("the", option("model"))
    key = "HARNESS_JUDGE_API_KEY (or OPENAI_API_KEY)" if judge else "OPENAI_API_KEY"
    match exc:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            advice = f"set {key} to one it accepts"
            return Refused(f"{host} refused {who} key ({exc.status_code}: {_message(exc)}); {advice}")
        case openai.NotFoundError():
            missing = f"{host} does not have {who} model {model!r} ({exc.status_code}: {_message(exc)})"
            return Refused(f"{missing}; name one it serves with {flag}, or check the address")
        case openai.RateLimitError() if is_quota(exc):
            why = f"{host} says that {who} quota is used up ({_message(exc)})"
            return OutOfQuota(f"{why}; top it up, or use another key")
        case openai.BadRequestError() if not (is_too_long(exc) or exc.code in _CONTENT_FILTER):
            refused = f"{host} refused the first call to {who} model {model!r} (400: {_message(exc)})"
            return Refused(f"{refused}; see what it takes, or name another model with {flag}")
        case openai.APITimeoutError():
            return None
        case RedirectRefused():
            flag = option("judge_base_url" if judge else "base_url")
            return Refused(f"{host} redirects to {exc.origin}; if you trust it, name that address with {flag}")
        case NoReply():  # a server that gives web pages: its address may be another one's than the API's
            source = named_by or f"{option('judge_base_url' if judge else 'base_url')} or OPENAI_BASE_URL"
            advice = f"is {source} the address of an API? Most end in /v1"
            return Refused(f"{host} gives no model's replies ({_message(exc)}); {advice}") if exc.is_page else None
        case openai.APIConnectionError():
            return Refused(_unreachable(exc, host, judge=judge, named_by=named_by))
        case _:
            return None


def _unreachable(exc: openai.APIConnectionError, host: str, *, judge: bool, named_by: str | None) -> str:
    """Say that a server cannot be reached; of a judge, also how to name it a server of its own where it has none."""
    address, advice = option("base_url"), ""
    if judge:
        address = f"{option('judge_base_url')}, {address}"
        if named_by and named_by.rstrip("=") != option("judge_base_url").rstrip("="):
            advice = f" The judge is asked there: {option('judge_base_url', 'URL')} names another server for it."
    source = named_by or f"{address} or OPENAI_BASE_URL"
    who = " for the judge" if advice else ""
    return f"cannot reach {host}{who} ({_root(exc)}); is the server up?{advice} The address comes from {source}"


def read_failure(exc: BaseException) -> Failure:
    """Return the failure record for an error of the openai client."""
    kind: FailureKind = "api"
    if is_quota(exc):
        kind = "quota"
    elif isinstance(exc, openai.BadRequestError) and is_too_long(exc):
        kind = "context_length"
    elif isinstance(exc, openai.APIError) and exc.code in _CONTENT_FILTER:
        kind = "content_filter"
    elif isinstance(exc, openai.APIConnectionError) and not isinstance(exc, NoReply):
        kind = "network"
    return Failure(kind=kind, type=type(exc).__name__, message=_message(exc))


def describe_trouble(exc: openai.APIError, host: str) -> str:
    """Return in words what became of a call to `host` that got no reply, or an error of the server's."""
    if isinstance(exc, openai.APIStatusError):
        return f"{host} answered HTTP {exc.status_code}"
    if isinstance(exc, openai.APITimeoutError):
        return f"{host} gave no reply in time"
    if isinstance(exc, NoReply):
        return f"{host} gave no model's reply ({_message(exc)})"
    return f"cannot reach {host} ({_root(exc)})"


def is_quota(exc: BaseException | None) -> bool:
    """Return whether an error says that the account is empty."""
    return isinstance(exc, openai.APIError) and exc.code == QUOTA


def is_too_long(exc: openai.APIError) -> bool:
    """Return whether a request was too long for the model. OpenAI has a code for it; vLLM says it in the message."""
    return exc.code == _CONTEXT_LENGTH or "maximum context length" in str(exc.message).lower()


def _message(exc: BaseException) -> str:
    body = getattr(exc, "body", None)
    message = body.get("message") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return _without_secrets(exc, str(message or exc))[:300]  # pyright: ignore[reportUnknownArgumentType]


def _root(exc: BaseException) -> str:
    root = exc
    while root.__cause__:
        root = root.__cause__
    return _without_secrets(exc, str(root))[:200] or type(root).__name__


def _without_secrets(exc: BaseException, text: str) -> str:
    """Return a text on one line, without what the failed request carried: endpoints and proxies quote it."""
    request = getattr(exc, "request", None)
    carried = secrets_sent(request) if isinstance(request, httpx2.Request) else ()
    return Redactor(carried).secret(_KEYS.sub("[key]", " ".join(text.split())))
