"""What an OpenAI-compatible endpoint's errors mean: a refusal of the whole run, or one failure to record."""

import re

import openai

from harness.core.errors import OutOfQuota, Refused
from harness.core.records import Failure, FailureKind

_KEYS = re.compile(r"\b(?:Bearer\s+\S+|(?:sk|key|gsk|xai|pk)-[\w*.-]{6,})")
_THIS_REQUEST_ONLY = {"context_length_exceeded", "content_filter", "content_policy_violation"}
"""Codes of a 400 that says nothing of the requests to come."""


def refused(exc: BaseException | None, model: str, host: str, *, judge: bool = False) -> Refused | None:  # noqa: PLR0911
    """Return the one-line error for a call turned down for its key, model or address; None for any other trouble."""
    who, flag = ("the judge's ", "--judge-model") if judge else ("", "--model")
    key = "HARNESS_JUDGE_API_KEY (or OPENAI_API_KEY)" if judge else "OPENAI_API_KEY"
    match exc:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return Refused(f"{host} refused {who}key ({exc.status_code}: {_said(exc)}); set {key} to one it accepts")
        case openai.NotFoundError():
            return Refused(
                f"{host} does not have {who}model {model!r} ({exc.status_code}: {_said(exc)}); "
                f"name one it serves with {flag}, or check the address"
            )
        case openai.RateLimitError() if exc.code == "insufficient_quota":
            return OutOfQuota(f"{host} says that {who}quota is used up ({_said(exc)}); top it up, or use another key")
        case openai.BadRequestError() if exc.code not in _THIS_REQUEST_ONLY and not _too_long(exc):
            return Refused(
                f"{host} refused the first call to {who}model {model!r} (400: {_said(exc)}); "
                f"see what it takes, or name another model with {flag}"
            )
        case openai.APITimeoutError():
            return None
        case openai.APIConnectionError():
            address = "--judge-base-url" if judge else "--base-url or OPENAI_BASE_URL"
            return Refused(f"cannot reach {host} ({_root(exc)}); is the server up? The address comes from {address}")
        case _:
            return None


def failure_of(exc: BaseException) -> Failure:
    """Return the failure record for an error of the openai client."""
    kind: FailureKind = "api"
    if isinstance(exc, openai.APIError) and exc.code == "insufficient_quota":
        kind = "quota"
    elif isinstance(exc, openai.BadRequestError) and _too_long(exc):
        kind = "context_length"
    elif isinstance(exc, openai.APIError) and exc.code in {"content_filter", "content_policy_violation"}:
        kind = "content_filter"
    elif isinstance(exc, openai.APIConnectionError):
        kind = "network"
    return Failure(kind=kind, type=type(exc).__name__, message=_said(exc))


def without_keys(text: str) -> str:
    """Return `text` less anything that looks like a key: endpoints quote them in their refusals."""
    return _KEYS.sub("[key]", text)


def _too_long(exc: openai.BadRequestError) -> bool:
    """OpenAI has a code for it; vLLM and its like say it in the message."""
    return exc.code == "context_length_exceeded" or "maximum context length" in str(exc.message).lower()


def _said(exc: BaseException) -> str:
    body = getattr(exc, "body", None)
    message = body.get("message") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return without_keys(" ".join(str(message or exc).split()))[:300]  # pyright: ignore[reportUnknownArgumentType]


def _root(exc: BaseException) -> str:
    while exc.__cause__:
        exc = exc.__cause__
    return without_keys(" ".join(str(exc).split()))[:200] or type(exc).__name__
