"""A provider's batches over HTTP: a file of requests goes up, a file of replies comes down, within a day or so."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import IO, Any, TypeVar, cast

import openai

from harness.core.errors import HarnessError, Refused, UsageError, option, switch
from harness.endpoints.address import Endpoint
from harness.endpoints.client import openai_client
from harness.endpoints.retries import as_refusal, judge_retries, read_failure

MOST_BATCH_REQUESTS = 50_000
MOST_BATCH_BYTES = 200_000_000
"""What providers take in one file."""
_TRANSFER_S = 600.0
"""Seconds for a file of that size to go up or down."""
_NO_BATCHES = {404, 405, 410, 501}
_Reply = TypeVar("_Reply")
_OVER = {"completed", "failed", "expired", "cancelled", "gone"}


@dataclass(frozen=True)
class BatchStatus:
    """How far a provider is with a batch."""

    word: str
    """The provider's word for the state; `gone` where the provider has no batch of that id."""
    done: int
    """How many requests have ended, well or not."""
    total: int
    files: tuple[str, ...] = ()
    """The files with what came back: replies, then errors."""
    error: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self.word in _OVER


@dataclass(frozen=True)
class BatchLine:
    """One line of what came back."""

    custom_id: str
    status: int | None
    body: Any
    error: str | None


class BatchFiles:
    """The batches of one endpoint. Close it when done."""

    def __init__(self, endpoint: Endpoint, model: str, retries: int) -> None:
        """Send nothing yet; what may be sent twice without harm is tried again up to `retries` times."""
        self._endpoint, self._model, self._retries = endpoint, model, retries
        self._client = openai_client(endpoint, timeout_s=_TRANSFER_S)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def check(self) -> None:
        """Ask one question that costs nothing: are there batches? Raises Refused if not."""
        try:
            await self._again(lambda: self._client.batches.list(limit=1))
        except HarnessError as exc:
            status = getattr(exc.__cause__, "status_code", None)
            if status not in _NO_BATCHES:
                raise
            raise Refused(
                f"{self._endpoint.host} has no batches (GET /batches: HTTP {status}); leave "
                f"{switch('judge_batch')} out, or name a judge elsewhere with {option('judge_base_url')}"
            ) from exc.__cause__

    async def upload(self, file: IO[bytes], name: str) -> str:
        """Hand a file in and return the provider's id of it; that alone buys nothing. Raises HarnessError."""

        async def send() -> Any:
            file.seek(0)
            return await self._client.files.create(file=(name, file), purpose="batch")

        return (await self._again(send)).id

    async def create(self, file: str) -> str:
        """Make a batch of a file; return its id. Raises Refused for a no, HarnessError where nobody knows."""
        place: Any = "/v1/responses" if self._endpoint.api == "responses" else "/v1/chat/completions"
        try:
            asked: Any = {"input_file_id": file, "endpoint": place, "completion_window": "24h"}
            made = await self._client.batches.create(**asked, timeout=60.0)
        except openai.APIStatusError as exc:
            if exc.status_code >= 500:
                raise HarnessError(f"{self._endpoint.host} answered HTTP {exc.status_code} to a new batch") from exc
            raise self._refusal(exc) from exc
        except openai.OpenAIError as exc:
            why = read_failure(exc).message
            raise HarnessError(f"no answer of {self._endpoint.host} to a new batch ({why})") from exc
        return made.id

    async def find_batch(self, file: str) -> str | None:
        """Return the id of the batch that was made of a file, None where the provider lists none."""
        try:
            page = await self._again(lambda: self._client.batches.list(limit=100))
        except HarnessError:
            return None  # not every provider lists them
        return next((batch.id for batch in page.data or () if batch.input_file_id == file), None)

    async def status(self, batch: str) -> BatchStatus:
        """Return how far a batch is. Raises HarnessError."""
        try:
            at = await self._again(lambda: self._client.batches.retrieve(batch))
        except HarnessError as exc:
            if isinstance(exc.__cause__, openai.NotFoundError):
                return BatchStatus("gone", 0, 0, error=read_failure(exc.__cause__).message)
            raise
        counts = at.request_counts
        done, total = (counts.completed + counts.failed, counts.total) if counts else (0, 0)
        files = tuple(file for file in (at.output_file_id, at.error_file_id) if file)
        errors = "; ".join(str(fault.message) for fault in (at.errors and at.errors.data) or () if fault.message)
        return BatchStatus(at.status, done, total, files, errors or None)

    async def lines(self, file: str) -> AsyncGenerator[BatchLine]:
        """Yield the lines of a file that came back, less what is no line of a batch. Raises HarnessError."""
        content = await self._again(lambda: self._client.files.content(file))
        for line in content.content.splitlines():
            if read := _read_line(line):
                yield read

    async def _again(self, call: Callable[[], Awaitable[_Reply]]) -> _Reply:
        """Make a call, again where that may help. Raises HarnessError from the error of the last one."""
        try:
            async for attempt in judge_retries(self._retries, lambda: True):
                with attempt:
                    return await call()
        except openai.OpenAIError as exc:
            raise self._refusal(exc) from exc
        raise AssertionError("stamina either returns or raises")

    def _refusal(self, exc: openai.OpenAIError) -> HarnessError:
        refusal = as_refusal(exc, self._model, self._endpoint.host, judge=True, named_by=self._endpoint.named_by)
        return refusal or UsageError(f"{self._endpoint.host} refused a batch ({read_failure(exc).message})")


def _read_line(line: bytes) -> BatchLine | None:
    try:
        members: Any = json.loads(line)
        response: Any = members.get("response") or {}
        status, body, error = response.get("status_code"), response.get("body"), members.get("error")
        if status != 200 and isinstance(body, dict):
            error = error or cast("dict[str, Any]", body).get("error")
        custom_id = str(members["custom_id"])
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        return None
    known = status if isinstance(status, int) else None
    words = str(error)[:500] if error else None
    if isinstance(error, dict):
        said = cast("dict[str, Any]", error)
        words = ": ".join(str(said[name]) for name in ("code", "param", "message") if said.get(name))[:500]
    return BatchLine(custom_id, known, body if known == 200 else None, words)
