"""What every judge does with a model: ask, read, ask once more if the reply cannot be used."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.core.records import Failure, Usage
from harness.core.unicode import valid_unicode
from harness.endpoints import price_usd
from harness.judging.judge import Ask, AskFailed, Question, Reply
from harness.judging.reply import ReplyError

SAMPLING = {"temperature": 0.0}
"""What a judge is asked for; left out of the request, not of the key, where the endpoint refuses it."""

Read = TypeVar("Read")


@dataclass(frozen=True)
class Pricing:
    """What a judge's tokens are priced by. `free` for the embedded judge."""

    model: str
    base_url: str | None
    free: bool = False

    def of(self, usage: Usage) -> float | None:
        """Return the price in USD, None where it is not known."""
        return 0.0 if self.free else price_usd(usage, self.model, self.base_url)


async def ask_and_read(
    ask: Ask,
    prompt: Question,
    read: Callable[[str], Read],
    keep: Callable[[str], str],
    replies: list[tuple[Reply, str]],
    *,
    settle: Callable[[], None] | None = None,
) -> Read | Failure:
    """Return what `read` makes of the reply, or why there is nothing; one repair turn quotes what ReplyError says.

    Each reply is kept, and added to `replies` with the name that `keep` gave it; `settle`, which waits until it is on
    disk, is called before the repair turn. Raises only what `ask` raises as Refused.
    """
    failure = Failure(kind="internal", type="Unasked", message="the judge was not asked")
    for turn in (1, 2):
        try:
            reply = await ask(prompt)
        except AskFailed as exc:
            return exc.failure
        replies.append((reply, keep(reply.raw)))  # paid for: on disk before it is read
        if reply.withheld:
            return reply.withheld
        try:
            return read(reply.text)
        except ReplyError as exc:
            if settle:
                settle()
            prompt = replace(prompt, repair=(valid_unicode(reply.text), str(exc)))
            failure = Failure(kind="output", type="ReplyError", message=str(exc), turn=turn)
    return failure
