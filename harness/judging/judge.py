"""The door that every judge stands behind, and how a verdict is identified."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from harness.core.records import Failure, Usage, canonical_json, digest
from harness.core.verdicts import Judged, Unjudged
from harness.endpoints.retries import NO_LIMIT, Stoppable
from harness.judging.list_prompt import ListPrompt
from harness.judging.prompt import Prompt, Task
from harness.transcripts.transcript import Transcript


class Judge(Protocol):
    """Gives a verdict on two transcripts, `first` shown as A. A judge that fails returns Unjudged with the cause."""

    @property
    def identity(self) -> str:
        """Who judges, as it stands in every verdict and key."""
        ...

    @property
    def rubric_label(self) -> str:
        """What it judges by, as it stands in every verdict."""
        ...

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        """Return the verdict's key: equal keys mean that the judge would be asked the very same thing."""
        ...

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Judge, and record the cost."""
        ...


@dataclass(frozen=True)
class ModelReply:
    """What came back from a model that was asked: text, what it cost, the raw reply."""

    text: str
    usage: Usage
    form: str
    raw: str
    withheld: Failure | None = None
    """Why the reply, though paid for, says nothing: a refusal or a filter."""
    tier: str | None = None
    """The service tier that gave it, where another than the ordinary was asked for and the endpoint says."""


class AskFailed(Exception):
    """No reply could be had; `failure` says why."""

    def __init__(self, failure: Failure, reply: ModelReply | None = None) -> None:
        """Carry `failure`, and what came in place of a model's reply."""
        super().__init__(failure.message)
        self.failure, self.reply = failure, reply


IN_BATCH = Failure(kind="cancelled", type="InBatch", message="not bought yet: it goes into a batch")
WITH_PROVIDER = Failure(kind="cancelled", type="WithProvider", message="not bought yet: a batch has it")
UNANSWERED = Failure(
    kind="cancelled", type="Unanswered", message="not bought: its batches brought no usable reply; --judge-now asks"
)

Question = Prompt | ListPrompt
"""What a model can be asked: it has `messages()`, the reply's `schema()`, the verdict's `key`, and a place for a repair
turn."""


class Ask(Protocol):
    """Sends a prompt to a model.

    Raises AskFailed; Refused if the very first call is turned down for key, model or address.
    """

    @property
    def given_up(self) -> str | None:
        """Why the model is asked nothing more; None while it is asked."""
        ...

    async def __call__(self, prompt: Question, clock: Stoppable = NO_LIMIT) -> ModelReply:
        """Return the model's reply; `clock` stands still while the call waits for its turn."""
        ...


def verdict_key(*, prompt: str, identity: str, sampling: str, task: Task, first: str, second: str) -> str:
    """Return the sha256 of all that a verdict depends on: prompt, judge, options, task, pair in order.

    It is what `digest` makes of a list of them; `sampling` holds the options as canonical JSON.
    """
    head = _key_head(prompt, identity, sampling, task.brief, task.reference, task.query)
    return hashlib.sha256(f'{head},"{first}","{second}",{task.repeat}]'.encode()).hexdigest()


@lru_cache(maxsize=64)  # the same for all pairs of a query
def _key_head(prompt: str, identity: str, sampling: str, *texts: str | None) -> str:
    return f"{canonical_json([prompt, identity])[:-1]},{sampling},{canonical_json([*map(digest, texts)])[1:-1]}"
