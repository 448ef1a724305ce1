"""What a run is begun with, by an app or by nested code, together with what the harness needs of the run."""

import copy
import inspect
from dataclasses import fields
from typing import Any, cast

from agents import Model, ModelProvider, ModelSettings, OpenAIProvider, RunConfig, RunHooks
from agents.lifecycle import RunHooksBase
from agents.models.multi_provider import MultiProvider
from agents.run_config import ToolErrorFormatter, ToolErrorFormatterArgs

from harness.core.errors import UsageError, option
from harness.core.settings import Settings
from harness.core.unicode import without_credentials
from harness.rollouts.approval_gate import ToolHooks


def as_config(given: Any) -> RunConfig:
    """Return the configuration that a run was begun with, which may be a mapping or none."""
    return given if isinstance(given, RunConfig) else RunConfig(**cast("dict[str, Any]", given or {}))


_SDK_PROVIDERS = (MultiProvider, OpenAIProvider)
"""What a RunConfig holds where nobody chose."""


def is_of_another_class(provider: ModelProvider) -> bool:
    """Return whether a provider is of none of the SDK's classes."""
    return type(provider) not in _SDK_PROVIDERS


def is_chosen(provider: ModelProvider) -> bool:
    """Return whether somebody chose a provider: of a class of his own, or with a client, an address or a key."""
    if isinstance(provider, MultiProvider) and not is_of_another_class(provider):
        return bool(provider.provider_map) or is_chosen(provider.openai_provider)
    stored = [value for name, value in vars(provider).items() if name.startswith("_stored_")]  # none with a client
    return is_of_another_class(provider) or not stored or any(value is not None for value in stored)


def brings_models(theirs: RunConfig) -> bool:
    """Return whether a configuration brings a way to its models: a Model object, a prefixed name, a provider."""
    is_prefixed = isinstance(theirs.model, str) and "/" in theirs.model
    return isinstance(theirs.model, Model) or is_prefixed or is_chosen(theirs.model_provider)


def merged(theirs: RunConfig, ours: RunConfig) -> RunConfig:
    """Return a run's own configuration with what the harness needs: its sampling, retries, notes and whole traces."""
    config = copy.copy(theirs)
    config.trace_include_sensitive_data, config.tracing_disabled = True, ours.tracing_disabled
    config.model_settings = (theirs.model_settings or ModelSettings()).resolve(ours.model_settings)
    if ours.tool_error_formatter:
        config.tool_error_formatter = with_note(ours.tool_error_formatter, theirs.tool_error_formatter)
    return config


_TOLD = ("model", "temperature", "top_p")
"""Settings that a record tells by their values: others may hold keys."""


def what_became(theirs: RunConfig, config: RunConfig) -> tuple[str, ...]:
    """Return what an app's RunConfig sets, by name, and what of that gives way to the harness in `config`."""
    usual, changed = RunConfig(), list[tuple[str, Any, Any]]()
    for name in (field.name for field in fields(RunConfig) if field.name not in {"model_settings", "model_provider"}):
        if (value := getattr(theirs, name)) != getattr(usual, name):
            changed.append((name, value, getattr(config, name)))
    if is_chosen(theirs.model_provider):
        changed.append(("model_provider", None, None))
    for field in fields(ModelSettings) if theirs.model_settings else ():
        if (value := getattr(theirs.model_settings, field.name)) is not None:
            changed.append((field.name, value, getattr(config.model_settings, field.name)))
    return tuple(map(_told, changed))


def _told(change: tuple[str, Any, Any]) -> str:
    name, theirs, ours = change
    if isinstance(theirs, Model):
        theirs, ours = type(theirs).__name__, ours if isinstance(ours, str) else type(theirs).__name__
    if not isinstance(theirs, str | int | float):
        return name
    said = f"{name} {theirs}" if name in _TOLD else name
    if theirs == ours:
        return said
    return (
        f"{said} gives way to {ours}" if name in _TOLD and isinstance(ours, str | int | float) else f"{said} gives way"
    )


def refuse_two_servers(theirs: RunConfig, settings: Settings) -> None:
    """Raise UsageError where an app chose a provider of its models, and the user names their server."""
    if settings.base_url and not settings.offline and is_chosen(theirs.model_provider):
        url = settings.base_url if isinstance(settings.base_url, str) else settings.base_url[0]
        raise UsageError(
            f"{option('base_url', without_credentials(url))}: the agent's run_config has a model_provider of its own "
            f"({type(theirs.model_provider).__name__}), and both say which server is asked; leave out one of the two"
        )


def with_note(note: ToolErrorFormatter, theirs: ToolErrorFormatter | None) -> ToolErrorFormatter:
    """Return a formatter that notes an error and lets the user's own, if there is one, say what the model sees."""
    if theirs is None or theirs == note:
        return note

    async def formatted(args: ToolErrorFormatterArgs[Any]) -> str | None:
        note(args)
        text = theirs(args)
        return await text if inspect.isawaitable(text) else text

    return formatted


_OF_TOOLS = "on_tool_start", "on_tool_end"


class BothHooks(RunHooks[Any]):
    """A rollout's hooks and those that a run was begun with."""

    def __init__(self, ours: ToolHooks, theirs: RunHooks[Any]) -> None:
        """Put `ours` around `theirs`: what theirs change shows before a tool call's end is noted."""
        self.ours, self.theirs = ours, theirs
        for name in vars(RunHooksBase):
            if name.startswith("on_") and name not in _OF_TOOLS:
                setattr(self, name, getattr(theirs, name))

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note the call, then call theirs."""
        await self.ours.on_tool_start(context, agent, tool)
        await self.theirs.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Call theirs, then note the end."""
        await self.theirs.on_tool_end(context, agent, tool, result)
        await self.ours.on_tool_end(context, agent, tool, result)


def with_hooks(ours: ToolHooks, theirs: Any) -> Any:
    """Return a rollout's hooks together with those of a run. What the SDK would refuse is left for it to refuse."""
    if theirs is None or theirs is ours:
        return ours
    usable = issubclass(type(theirs), RunHooksBase) and not isinstance(theirs, BothHooks)
    return BothHooks(ours, theirs) if usable else theirs
