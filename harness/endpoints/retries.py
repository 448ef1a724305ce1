"""What an endpoint's errors mean, and when a failed call is made again, after how long.

Agent calls are retried by the SDK's runner and judge calls by stamina; what is worth a retry, and for how long a server
may make a caller wait, is decided here for both.
"""

import asyncio
import logging
import math
import random
import re
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, Literal, Self, cast

import anyio
import httpx2
import openai
import stamina
from agents import ModelRetrySettings, RetryDecision, RetryPolicyContext
from stamina.instrumentation import RetryDetails, RetryHook

from harness.core.errors import OutOfQuota, Refused, option
from harness.core.records import Failure, FailureKind
from harness.core.redaction import Redactor
from harness.core.sync import WithoutFrames
from harness.endpoints.address import secrets_sent
from harness.endpoints.credentials import NO_KEY, RedirectRefused
from harness.endpoints.reply_body import NoReply, as_list, as_object


class TimeLimit:
    """Cancels what runs `within` it after so many seconds; a wait at an endpoint's gate stops the clock."""

    def __init__(self, seconds: float) -> None:
        """Set the limit; the clock begins with `within`."""
        self.seconds = seconds
        self._scope: anyio.CancelScope | None = None
        self._loop: asyncio.AbstractEventLoop
        self._left_s = seconds
        self._stops = 0

    @property
    def passed(self) -> bool:
        """Whether the time was over."""
        return self._scope is not None and self._scope.cancel_called

    @property
    def spent_s(self) -> float:
        """The seconds that count so far."""
        if self._scope is None:
            return 0.0
        return self.seconds - (self._left_s if self._stops else self._scope.deadline - anyio.current_time())

    def within(self) -> AbstractContextManager[None, bool]:
        """Run the block for `seconds` at most; work that is cut off ends without an error."""

        @contextmanager
        def within() -> Generator[None]:
            self._loop = asyncio.get_running_loop()
            self._scope = anyio.CancelScope(deadline=anyio.current_time() + self.seconds)
            with self._scope, WithoutFrames():
                yield

        return cast("AbstractContextManager[None, bool]", within())

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stand still, also for a wait in another thread's loop; of waits that overlap, until the last ends."""
        self._wait(1)
        try:
            yield
        finally:
            self._wait(-1)

    def _wait(self, more: int) -> None:
        """Note `more` waits, or fewer, in the clock's own loop."""
        if self._scope and self._loop is asyncio.get_running_loop():
            self._count(self._scope, more)
        elif self._scope:
            with suppress(RuntimeError):  # the loop has ended, and the work within the limit with it
                self._loop.call_soon_threadsafe(self._count, self._scope, more)

    def _count(self, scope: anyio.CancelScope, more: int) -> None:
        if not self._stops:
            self._left_s = scope.deadline - anyio.current_time()
            scope.deadline = math.inf
        self._stops += more
        if not self._stops:
            scope.deadline = anyio.current_time() + self._left_s


NO_LIMIT = TimeLimit(math.inf)
"""The clock of work that may take as long as it takes."""
LONGEST_WAIT_S = 60.0
"""A server that asks for more is asked again after this long."""
_FIRST_WAIT_S = 0.5
_TRANSIENT = {408, 409}
_OURS = ContextVar("retry_of_a_judge_call", default=False)


def may_succeed_later(status: int | None, *, no_reply: bool) -> bool:
    """Return whether the same call may succeed later: after no reply, HTTP 408, 409 or 5xx; the gate sees to a 429."""
    return no_reply or (status is not None and (status in _TRANSIENT or status >= 500))


def retry_after_s(error: BaseException) -> float | None:
    """Return the seconds to wait by `retry-after-ms` or `Retry-After` (a date: against the reply's `Date`), or None."""
    if not isinstance(error, openai.APIStatusError):
        return None
    headers = error.response.headers
    if (milliseconds := read_number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := read_number(headers.get("retry-after"))) is not None:
        return seconds
    try:
        later = parsedate_to_datetime(headers["retry-after"])
        return max(0.0, (later - parsedate_to_datetime(headers["date"])).total_seconds())
    except (KeyError, TypeError, ValueError):  # no such header, or no date in it
        return None


def agent_retries(
    retries: int, rng: random.Random, has_answered: Callable[[], bool], retried: Callable[[], None]
) -> ModelRetrySettings:
    """Return the SDK's settings for up to `retries` further attempts of a run's agent calls.

    A Retry-After is honoured. Otherwise the wait doubles from half a second and is spread by `rng`, so that rollouts
    that failed together do not come back together. While no model `has_answered`, an address that cannot be reached is
    tried once more only: the address is more likely wrong than its server resting. `retried` is called for each.
    """

    def policy(context: RetryPolicyContext) -> bool | RetryDecision:
        error = context.normalized
        no_reply = error.is_network_error or error.is_timeout
        unreachable = error.is_network_error and not error.is_timeout
        gives_up = unreachable and not has_answered() and context.attempt > 1
        if gives_up or not may_succeed_later(error.status_code, no_reply=no_reply):
            return False
        backoff_s = _FIRST_WAIT_S * 2 ** (context.attempt - 1) * rng.uniform(0.5, 1.5)
        wished_s = retry_after_s(context.error) or error.retry_after  # the latter: advice of a model of the agent's own
        retried()
        return RetryDecision(retry=True, delay=min(wished_s or backoff_s, LONGEST_WAIT_S))

    return ModelRetrySettings(max_retries=retries, policy=policy)


def judge_retries(retries: int, has_answered: Callable[[], bool]) -> AsyncIterator[stamina.Attempt]:
    """Return the first and up to `retries` further attempts of one judge call, for `async for`.

    As for agent calls, but with stamina's own backoff with jitter. Retries go to the log `arena-harness`.
    """
    failures = count(1)

    def wait(error: Exception) -> bool | float:
        no_reply = isinstance(error, openai.APIConnectionError)
        unreachable = no_reply and not isinstance(error, openai.APITimeoutError)
        if next(failures) > 1 and unreachable and not has_answered():
            return False
        if isinstance(error, openai.APIStatusError) and may_succeed_later(error.status_code, no_reply=False):
            return min(retry_after_s(error) or 0.0, LONGEST_WAIT_S) or True
        return no_reply

    hooks = stamina.instrumentation.get_on_retry_hooks()
    if _log_retry not in hooks:  # not yet, or the user has set others since
        stamina.instrumentation.set_on_retry_hooks([*map(_of_others, hooks), _log_retry])
    return _LoggedByUs(aiter(stamina.retry_context(on=wait, attempts=retries + 1, timeout=None)))


@dataclass(frozen=True)
class _LoggedByUs:
    """Attempts whose retries are logged here, and not by what logs the user's own retries with stamina."""

    attempts: AsyncIterator[stamina.Attempt]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> stamina.Attempt:
        token = _OURS.set(True)
        try:
            return await anext(self.attempts)
        finally:
            _OURS.reset(token)


def _log_retry(details: RetryDetails) -> None:
    if _OURS.get():
        message = "a judge call is tried again in %.1f s: %s"
        logging.getLogger("arena-harness").info(message, details.wait_for, details.caused_by)


def _of_others(hook: RetryHook) -> RetryHook:
    return lambda details: None if _OURS.get() else hook(details)


def read_number(text: str | None) -> float | None:
    """Return a header's number; None for what is no number from 0."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if number >= 0 else None


_NO_MONEY_STATUSES = {400, 402, 403, 429}
_NO_MONEY = re.compile(
    r"insufficient[ _](user[ _])?(quota|balance|credits?|funds)|(credit|account) balance is (too low|insufficient)"
    r"|billing[ _](hard[ _]limit|not[ _]active)|quota (is )?(exhausted|used up|not enough)|out of call volume quota"
    r"|(not enough|run out of|out of) (credits?|quota)|payment required|额度不足",
    re.IGNORECASE,
)
"""How OpenAI, Anthropic, Azure, DeepSeek, OpenRouter and resellers say that an account is empty."""
_OVER_QUOTA = re.compile(r"exceeded your current quota|quota exceeded", re.IGNORECASE)
_ASK_LATER = re.compile(r"resource_exhausted|per (minute|second)|(retry|again) (in|after)", re.IGNORECASE)
"""Where it stands beside the words of an empty account, a limit on the rate is meant, as by Gemini."""
_OF_CONTENT = re.compile(
    r"moderation|flagged|(content|usage|safety)[ _]+(policy|policies|filter|management)", re.IGNORECASE
)
"""How a 403 is worded that is about the texts of one request."""
_CONTEXT_LENGTH = "context_length_exceeded"
_CONTENT_FILTER = {"content_filter", "content_policy_violation"}
_KEYS = re.compile(r"\b(?:Bearer\s+\S+|(?:sk|key|gsk|xai|pk)-[\w*.-]{6,})")
"""What looks like a key: endpoints quote keys in their refusals."""


def as_refusal(  # noqa: PLR0911
    exc: BaseException | None, model: str, host: str, *, judge: bool = False, named_by: str | None = None
) -> Refused | None:
    """Return the error for a refused key, model or address, which `named_by` named; None for other trouble."""
    who, flag, api = ("the judge's", "judge_model", "judge_api") if judge else ("the", "model", "api")
    key = "HARNESS_JUDGE_API_KEY (or OPENAI_API_KEY)" if judge else "OPENAI_API_KEY"
    match exc:
        case openai.APIStatusError() if is_quota(exc):
            why = f"{host} says that {who} quota is used up ({_message(exc)})"
            return OutOfQuota(f"{why}; top it up, or use another key")
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            unset = exc.request.headers.get("authorization") == f"Bearer {NO_KEY}"
            advice = f"set {key} to one it accepts{' (none was sent; a .env file is not read)' if unset else ''}"
            refuses = f"{host} {'asks for' if unset else 'refused'} {who} key"
            return Refused(f"{refuses} ({exc.status_code}: {_message(exc)}); {advice}")
        case openai.APIStatusError(status_code=404):
            missing = f"{host} does not have {who} model {model!r} ({exc.status_code}: {_message(exc)})"
            path = exc.request.url.path
            address = f"{host}{path} was asked{'' if '/v1' in path else ', and most addresses end in /v1'}"
            or_else = "" if model in _message(exc) else f", or check the address: {address}"
            return Refused(f"{missing}; name one it serves with {option(flag)}{or_else}")
        case openai.APIStatusError(status_code=400 | 422) if not (is_too_long(exc) or exc.code in _CONTENT_FILTER):
            refused = f"{host} refused the first call to {who} model {model!r} ({exc.status_code}: {_message(exc)})"
            advice = f"leave out the setting that it names, try the other {option(api)}, or name another {option(flag)}"
            return Refused(f"{refused}; {advice}")
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
    up = "up, and does it speak https" if exc.request.url.scheme == "https" else "up"
    return f"cannot reach {host}{who} ({_root(exc)}); is the server {up}?{advice} The address comes from {source}"


def read_failure(exc: BaseException) -> Failure:
    """Return the failure record for an error of the openai client, or of the connection."""
    kind: FailureKind = "api"
    if is_quota(exc):
        kind = "quota"
    elif isinstance(exc, openai.BadRequestError) and is_too_long(exc):
        kind = "context_length"
    elif isinstance(exc, openai.APIError) and _is_about_content(exc):
        kind = "content_filter"
    elif isinstance(exc, openai.APIConnectionError | httpx2.RequestError) and not isinstance(exc, NoReply):
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


def describe_briefly(exc: openai.APIError) -> str:
    """Return in few words why a call got no model's reply."""
    if isinstance(exc, openai.APIStatusError):
        return f"HTTP {exc.status_code}"
    if isinstance(exc, NoReply):
        return "no model's reply"
    return "no reply in time" if isinstance(exc, openai.APITimeoutError) else type(exc).__name__


def is_quota(exc: BaseException | None) -> bool:
    """Return whether an error says that the account is empty, in any provider's words: no waiting mends it."""
    if not isinstance(exc, openai.APIStatusError) or exc.status_code not in _NO_MONEY_STATUSES:
        return False
    if exc.status_code == 402:
        return True
    said = f"{exc.code} {exc.type} {error_text(exc)}"
    if _NO_MONEY.search(said):
        return True
    asks_later = _ASK_LATER.search(said) or retry_after_s(exc) is not None
    return _OVER_QUOTA.search(said) is not None and not asks_later


def shuts_out(exc: BaseException) -> Literal["account", "model"] | None:
    """Return what a refusal is about that every later call meets too; None where only this call is refused.

    A refused key (401) and an empty account hold for the whole account. A 404 is about the call's model, and so is a
    403 (a key often may use some models only) that does not speak of the request's content.
    """
    if is_quota(exc) or isinstance(exc, openai.AuthenticationError):
        return "account"
    if isinstance(exc, openai.NotFoundError):
        return "model"
    return "model" if isinstance(exc, openai.PermissionDeniedError) and not _is_about_content(exc) else None


def _is_about_content(exc: openai.APIError) -> bool:
    forbidden = isinstance(exc, openai.PermissionDeniedError)
    return exc.code in _CONTENT_FILTER or (forbidden and _OF_CONTENT.search(error_text(exc)) is not None)


def is_too_long(exc: openai.APIError) -> bool:
    """Return whether a request was too long for the model. OpenAI has a code for it; vLLM says it in the message."""
    return exc.code == _CONTEXT_LENGTH or "maximum context length" in error_text(exc).lower()


def error_text(error: openai.APIError) -> str:
    """Return what an error says, on one line, without what its request carried.

    The client leaves out a body of another form than OpenAI's; here it is quoted. Of FastAPI's `detail` the place and
    the reason of each fault are quoted, not the request.
    """
    body: Any = error.body
    faults = [as_object(fault) for fault in as_list(as_object(body).get("detail"))]
    said = "; ".join(f"{fault.get('loc')}: {fault.get('msg')}" for fault in faults) or str(body)
    is_told = not body or as_object(body).get("message") or said in error.message
    return _without_secrets(error, error.message if is_told else f"{error.message}: {said}")


def _message(exc: BaseException) -> str:
    if isinstance(exc, openai.APIError):
        message = as_object(exc.body).get("message")
        return (_without_secrets(exc, str(message)) if message else error_text(exc))[:300]
    return _without_secrets(exc, str(exc))[:300]


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
