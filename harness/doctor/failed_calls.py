"""Calls that came to nothing, as failed checks."""

import openai
from agents.exceptions import UserError

from harness.core.errors import HarnessError
from harness.doctor.checks import Check, from_error
from harness.endpoints import failure_of, refused


def trouble(name: str, exc: BaseException | None, model: str, host: str, *, after_s: float) -> Check:
    """Return the failed check for a call to the agent's model that ended in `exc`."""
    match exc:
        case HarnessError():
            return from_error(name, exc)
        case UserError():
            return Check(name, "fail", str(exc), "name another --model, or its server with --base-url")
        case openai.APITimeoutError() | TimeoutError():
            return late(name, after_s)
        case openai.OpenAIError():
            if refusal := refused(exc, model, host):
                return from_error(name, refusal)
            code = f" ({exc.status_code})" if isinstance(exc, openai.APIStatusError) else ""
            return Check(
                name,
                "fail",
                f"{host} failed{code}: {failure_of(exc).message}",
                "ask again in a while; a run waits and tries again a few times",
            )
        case _:
            return unreadable(name, exc)


def late(name: str, after_s: float) -> Check:
    """Return the failed check for a reply that did not come in time."""
    return Check(name, "fail", f"no reply within {after_s:.0f} s", "is the model still loading? Ask again")


def unreadable(name: str, exc: BaseException | None) -> Check:
    """Return the failed check for something that is no model's reply."""
    said = " ".join(str(exc).split())[:200]
    return Check(
        name,
        "fail",
        f"what came back is no model's reply ({type(exc).__name__}: {said})",
        "is it an OpenAI-compatible address, and is --api right?",
    )
