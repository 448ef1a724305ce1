"""The settings of an agent's model call that an endpoint may refuse."""

import dataclasses
from collections.abc import Collection
from typing import Any, cast

from agents import ModelSettings

REFUSABLE = ("temperature", "top_p", "seed", "stream_options")


def names_set(settings: ModelSettings) -> tuple[str, ...]:
    """Return which of the refusable settings a call sends, in a fixed order."""
    return tuple(name for name in REFUSABLE if _value(settings, name) is not None)


def without(settings: ModelSettings, names: Collection[str]) -> ModelSettings:
    """Return settings without the refusable ones among `names`."""
    changes: dict[str, Any] = {name: None for name in ("temperature", "top_p") if name in names}
    if "stream_options" in names:
        changes["include_usage"] = None
    if "seed" in names and seed_of(settings) is not None:
        changes["extra_body"] = {k: v for k, v in _extra_body(settings).items() if k != "seed"} or None
    return dataclasses.replace(settings, **changes) if changes else settings


def seed_of(settings: ModelSettings) -> int | None:
    """Return the seed that settings carry in the request's extra body."""
    return _extra_body(settings).get("seed")


def with_seed(settings: ModelSettings, seed: int | None) -> ModelSettings:
    """Return settings that carry a seed beside whatever else the agent puts into its requests' extra body."""
    return settings if seed is None else with_body(settings, {**_extra_body(settings), "seed": seed})


def with_body(settings: ModelSettings, body: dict[str, Any]) -> ModelSettings:
    """Return settings with another extra body of their requests."""
    # Not dataclasses.replace(), which validates all the settings anew, nor copy(), which goes the way of pickling.
    changed = object.__new__(type(settings))
    changed.__dict__.update(settings.__dict__)
    changed.extra_body = body
    return changed


def _extra_body(settings: ModelSettings) -> dict[str, Any]:
    return cast("dict[str, Any]", settings.extra_body or {})


def _value(settings: ModelSettings, name: str) -> Any:
    if name == "seed":
        return seed_of(settings)
    return getattr(settings, "include_usage" if name == "stream_options" else name)
