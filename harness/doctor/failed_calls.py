"""The failed checks for calls to a model that brought no reply."""

import openai
from agents.exceptions import UserError

from harness.core.errors import HarnessError
from harness.doctor.checks import Check, failed_check
from harness.endpoints.errors import failure_of, refusal_of


def failed_call(name: str, exc: BaseException | None, model: str, host: str, *, after_s: float) -> Check:
    """Return the failed check for a call to the agent's model that ended in `exc` after `after_s` seconds."""
    match exc:
        case HarnessError():
            return failed_check(name, exc)
        case UserError():
            return Check(name, "fail", str(exc), "name another --model, or its server with --base-url")
        case openai.APITimeoutError() | TimeoutError():
            return late_reply(name, after_s)
        case openai.OpenAIError():
            if refusal := refusal_of(exc, model, host):
                return failed_check(name, refusal)
            code = f" ({exc.status_code})" if isinstance(exc, openai.APIStatusError) else ""
            finding = f"{host} failed{code}: {failure_of(exc).message}"
            return Check(name, "fail", finding, "ask again in a while; a run waits and tries again a few times")
        case _:
            return unreadable_reply(name, exc)


def late_reply(name: str, after_s: float) -> Check:
    """Return the failed check for a reply that did not come within `after_s` seconds."""
    return Check(name, "fail", f"no reply within {after_s:.0f} s", "is the model still loading? Ask again")


def unreadable_reply(name: str, exc: BaseException | None) -> Check:
    """Return the failed check for a reply that is not a model's."""
    message = " ".join(str(exc).split())[:200]
    finding = f"what came back is no model's reply ({type(exc).__name__}: {message})"
    return Check(name, "fail", finding, "is it an OpenAI-compatible address, and is --api right?")
