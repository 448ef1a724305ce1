"""Every run of the SDK within a rollout, the agent's own nested ones included, on the rollout's models and settings."""

import copy
import inspect
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from agents import Agent, Model, ModelProvider, ModelSettings, OpenAIProvider, RunConfig, RunState
from agents.models.multi_provider import MultiProvider
from agents.run_config import ToolErrorFormatter, ToolErrorFormatterArgs

from harness.endpoints.state import EndpointState
from harness.rollouts.graph import copied, hands_off_unseen, reachable
from harness.rollouts.models import RecordedModel, RecordedProvider, brings_model, recorded
from harness.rollouts.recorder import Recorder
from harness.rollouts.sdk_runner import Options, TakenRun

_SDK_PROVIDERS = (MultiProvider, OpenAIProvider)
"""What a RunConfig holds where nobody chose; a provider of any other class is the agent's own."""


class RolloutOver(Exception):
    """Refuses a run that a thread of a rollout begins after the rollout has ended."""


@dataclass(frozen=True)
class LoopModels:
    """The models of a run for one event loop: connections, and what waits at the endpoint, belong to a loop."""

    provider: ModelProvider
    state: EndpointState
    close: Callable[[], Awaitable[None]] | None
    """Closes the connections."""


@dataclass
class RolloutRuns:
    """Puts a rollout's runs on its models, temperature and recording; what an agent fixed is kept and recorded."""

    config: RunConfig
    """What the rollout's own run is made with."""
    recorder: Recorder
    elsewhere: Callable[[], LoopModels]
    """Makes the rollout's models for another event loop, such as that of a run in a thread."""
    on_agent: Callable[[Agent[Any]], None]
    """Called with each agent that runs, or may be handed over to."""
    brings_models: bool
    """Whether the rollout has no endpoint: all models are the agent's own."""
    through_usual_runner: bool = True
    over: bool = False
    _thread: int = field(default_factory=threading.get_ident)

    def take(self, agent: Any, given_input: Any, options: Options) -> TakenRun:
        """Return a run on the rollout's models. Raises RolloutOver once the rollout has ended."""
        if self.over:
            raise RolloutOver("the rollout has ended: no more agents are run in it")
        for each in _agents(agent):
            self.on_agent(each)
        theirs, close = as_config(options), None
        state = self.recorder.state
        provider = theirs.model_provider
        if isinstance(provider, RecordedProvider) and provider.thread == threading.get_ident():
            config = theirs  # one of ours, made for this thread: nested runs inherit it
        elif threading.get_ident() == self._thread:
            config = self._pinned(theirs, cast("RecordedProvider", self.config.model_provider), state, agent)
        else:
            models = self.elsewhere()
            state, close = models.state, models.close
            config = self._pinned(theirs, RecordedProvider(models.provider, self.recorder, state), state, agent)
        hooks = options.get("hooks") or self.recorder.hooks
        changes = partial(recorded, recorder=self.recorder, state=state)
        if not isinstance(given_input, RunState) and any(changes(a) or hands_off_unseen(a) for a in _agents(agent)):
            agent = copied(agent, changes)
        return TakenRun(agent, options | {"run_config": config, "hooks": hooks}, close)

    def _pinned(self, theirs: RunConfig, ours: RecordedProvider, state: EndpointState, agent: Any) -> RunConfig:
        config = copy.copy(theirs)
        config.trace_include_sensitive_data, config.tracing_disabled = True, False
        config.model_settings = (theirs.model_settings or ModelSettings()).resolve(self.config.model_settings)
        config.tool_error_formatter = _both(self.recorder.hooks.on_tool_error, theirs.tool_error_formatter)
        config.model_provider = ours
        if isinstance(self.config.model, RecordedModel):  # the embedded model: nothing else may be asked
            config.model = self.config.model.elsewhere(state)
        elif isinstance(theirs.model, Model):
            config.model = RecordedModel(theirs.model, self.recorder, state, own=True)
        elif not isinstance(theirs.model_provider, RecordedProvider) and (
            type(theirs.model_provider) not in _SDK_PROVIDERS or self.brings_models
        ):
            config.model_provider = RecordedProvider(theirs.model_provider, self.recorder, state, own=True)
        elif isinstance(self.config.model, str) and any(brings_model(a) for a in _agents(agent)):
            config.model, config.model_provider = None, replace(ours, name=self.config.model)
        else:
            config.model = self.config.model or theirs.model
        return config


def _agents(agent: Any) -> list[Agent[Any]]:
    return reachable(cast("Agent[Any]", agent)) if isinstance(agent, Agent) else []


def as_config(options: Options) -> RunConfig:
    """Return the configuration that a run was begun with, which may be a mapping or none."""
    config: Any = options.get("run_config")
    return config if isinstance(config, RunConfig) else RunConfig(**cast("dict[str, Any]", config or {}))


def _both(note: ToolErrorFormatter, theirs: ToolErrorFormatter | None) -> ToolErrorFormatter:
    """Return a formatter that notes an error and lets the user's own, if there is one, say what the model sees."""
    if theirs is None or theirs == note:
        return note

    async def formatted(args: ToolErrorFormatterArgs[Any]) -> str | None:
        note(args)
        text = theirs(args)
        return await text if inspect.isawaitable(text) else text

    return formatted
