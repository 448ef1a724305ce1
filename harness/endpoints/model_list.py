"""The models that an endpoint lists at `GET /v1/models`, and when those shut down that have a date.

Servers need not have a list, proxies and aliases serve names that no list has, and whatever a list holds is a
stranger's: what cannot be read is left out, and no error of it is anybody's.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta

import anyio
import httpx2
from pydantic_core import from_json

from harness.core.errors import did_you_mean
from harness.endpoints.client import PlainClient
from harness.endpoints.reply_body import as_list, as_object

LIST_PATIENCE_S = 5.0
"""For so long a list is waited for."""
_SOON = timedelta(days=60)
_MOST_BYTES = 4_000_000
_MOST_MODELS = 5_000
_LONGEST_NAME = 200
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class ModelList:
    """The models of an endpoint, in its order, each with the day from which it is served no more, None if not told."""

    shutdowns: Mapping[str, date | None]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(self.shutdowns)

    def has(self, model: str) -> bool:
        """Return whether a model is listed. Ollama serves a model of the tag `latest` without the tag, too."""
        bare = model.removesuffix(":latest")
        return not self.shutdowns.keys().isdisjoint((model, bare, f"{bare}:latest"))

    def unlisted(self, model: str) -> str:
        """Return in words that a model is not listed: proxies and aliases serve it all the same."""
        return f"does not list {model!r}, and may serve it all the same{self.near(model)}"

    def near(self, model: str) -> str:
        """Return `; did you mean 'x'?` for the name that is nearest to `model`, or an empty string."""
        return "" if self.has(model) else did_you_mean(model, self.shutdowns)

    def shutdown_soon(self, model: str, today: date) -> str | None:
        """Return in words when a model shuts down, if that is within 60 days or past; else None."""
        day = self.shutdowns.get(model)
        if day is None or day - today > _SOON:
            return None
        return f"{model} {'shuts' if day >= today else 'shut'} down on {day.isoformat()}"


async def list_models(client: PlainClient) -> ModelList | None:
    """Ask an endpoint for its list, with its key; None where none comes in time, whatever comes instead."""
    with suppress(Exception), anyio.move_on_after(LIST_PATIENCE_S):
        response = await client.open_page("/models")
        try:
            return await read_list(response) if response.is_success else None
        finally:
            await response.aclose()
    return None


async def read_list(response: httpx2.Response) -> ModelList | None:
    """Read a list out of an open response; None for what is no list of models, or above 4 MB."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MOST_BYTES:
            return None
    try:
        listed = as_object(from_json(bytes(body))).get("data")
    except ValueError:
        return None
    models = dict[str, date | None]()
    for entry in map(as_object, as_list(listed)[:_MOST_MODELS]):
        name, day = entry.get("id"), entry.get("shutdown_date")
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable():
            models[name] = None
            with suppress(ValueError):  # no day of the calendar
                models[name] = date.fromisoformat(day) if isinstance(day, str) and _DATE.fullmatch(day) else None
    return ModelList(models) if models or listed == [] else None
