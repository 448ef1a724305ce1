"""What a run is begun with, by an app or by nested code, together with what the harness needs of the run."""

import inspect
from typing import Any, cast

from agents import RunConfig, RunHooks
from agents.lifecycle import RunHooksBase
from agents.run_config import ToolErrorFormatter, ToolErrorFormatterArgs

from harness.rollouts.approval_gate import ToolHooks
from harness.rollouts.sdk_runner import Options


def as_config(options: Options) -> RunConfig:
    """Return the configuration that a run was begun with, which may be a mapping or none."""
    config: Any = options.get("run_config")
    return config if isinstance(config, RunConfig) else RunConfig(**cast("dict[str, Any]", config or {}))


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
    usable = isinstance(theirs, RunHooksBase) and not isinstance(theirs, BothHooks)
    return BothHooks(ours, cast("RunHooks[Any]", theirs)) if usable else theirs
