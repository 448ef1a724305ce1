"""The models and nested runs of a rollout, wrapped so that every call's request, settings and reply are recorded."""

import copy
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

import agents
import openai
from agents import Agent, Model, ModelProvider, ModelResponse, ModelSettings, RunConfig, RunState, Tool
from agents.models import _openai_shared  # pyright: ignore[reportPrivateUsage] - the SDK has no public getter
from agents.models.multi_provider import MultiProvider
from agents.tracing import get_current_span

from harness.core.errors import Refused, option
from harness.core.records import BEGUN
from harness.core.sampled_tokens import SampledTokens
from harness.endpoints.address import Endpoint
from harness.endpoints.breaker import EndpointDown
from harness.endpoints.client import openai_client
from harness.endpoints.gate import EndpointState, Gate
from harness.endpoints.refused_settings import with_seed
from harness.endpoints.reply_body import NoReply
from harness.endpoints.reply_tokens import ReplyTokens, asks_for_logprobs, asks_for_tokens
from harness.endpoints.usage import StreamedReply, bill_of, completed
from harness.rollouts.agent_code import AgentRaised
from harness.rollouts.capture import WireReply, collector, note_response, reply_captured
from harness.rollouts.graph import copied, hands_off_unseen, reachable
from harness.rollouts.model_request import build_request, hash_agent
from harness.rollouts.recorder import RecordedCall, Recorder, StoppedBeforeFirstCall
from harness.rollouts.run_options import as_config, is_chosen, is_of_another_class, merged, with_hooks
from harness.rollouts.sandboxes import Workspaces, go_on_beside_others, sandbox_agents, unguarded
from harness.rollouts.sdk_runner import Options, TakenRun
from harness.rollouts.variation import with_effort

_Reply = TypeVar("_Reply")


_ON_SERVER = "previous_response_id", "conversation_id"
"""What a request names that its server keeps."""


class RecordedModel(Model):
    """Passes every call on to `inner` and records it."""

    def __init__(
        self, inner: Model, recorder: Recorder, state: EndpointState | None = None, *, own: bool = False
    ) -> None:
        """Wrap `inner`. `state` is that of the event loop where it is not the run's; `own` one the agent brought."""
        self._inner, self._recorder, self._own = inner, recorder, own
        self._state = state or recorder.state
        self.model = getattr(inner, "model", None)
        self._wants_tokens = self._state.tokens.wanted
        self.close, self.get_retry_advice = inner.close, inner.get_retry_advice  # without which advice would be lost
        self._cleanup_on_run_end = inner._cleanup_on_run_end  # noqa: SLF001 - the SDK's own hook

    def elsewhere(self, state: EndpointState) -> "RecordedModel":
        """Return the same model for another event loop."""
        return RecordedModel(self._inner, self._recorder, state, own=self._own)

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **more: Any,
    ) -> ModelResponse:
        """Call the inner model."""
        request = build_request(system_instructions, input, tools, output_schema, handoffs)
        if kept := await self._note_request(request, model_settings, tools):
            return kept

        async def send(settings: ModelSettings) -> ModelResponse:
            with self._recorded(request, settings, model_settings, more) as call:
                response = await self._inner.get_response(
                    system_instructions, input, settings, tools, output_schema, handoffs, tracing, **more
                )
                self._note_bill(call.wire, response)
                self._take_tokens(call.wire)  # before it counts as a reply, which lets others go
            self._recorder.end(call, response)
            return response

        return await self._call(self._settings_to_send(model_settings), send, streamed=False)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **more: Any,
    ) -> AsyncIterator[Any]:
        """Stream from the inner model, with the usage at the end: only an agent's own nested runs stream."""
        request = build_request(system_instructions, input, tools, output_schema, handoffs)
        if kept := await self._note_request(request, model_settings, tools):
            yield completed(kept)
            return
        to_send = self._settings_to_send(model_settings)
        to_send = replace(to_send, include_usage=True) if to_send.include_usage is None else to_send

        async def send(settings: ModelSettings) -> tuple[RecordedCall, AsyncIterator[Any], Any]:
            with self._recorded(request, settings, model_settings, more, streamed=True) as call:
                events = self._inner.stream_response(
                    system_instructions, input, settings, tools, output_schema, handoffs, tracing, **more
                )
                return call, events, await anext(events, None)  # what an endpoint refuses, it refuses here

        call, events, event = await self._call(to_send, send, streamed=True)
        call.wire.bill, reply = call.wire.bill or BEGUN, StreamedReply()
        try:
            while event is not None:
                if not reply.over and reply.add(event):  # noted first: the SDK may close the stream at its end
                    if isinstance(self._inner, agents.OpenAIResponsesModel):  # on Chat it is the requested model
                        call.wire.model = reply.model
                    self._note_bill(call.wire, reply.response)
                    self._take_tokens(call.wire)
                    self._recorder.end(call, reply.response, reply.error)
                yield event
                event = await anext(events, None)
            if not reply.over:
                self._recorder.end(call, error=agents.ModelBehaviorError("the stream ended without a reply"))
        except BaseException as exc:
            if not reply.over:
                self._recorder.end(call, error=exc)
            raise
        finally:
            close = getattr(events, "aclose", None)
            with suppress(*([Exception] if reply.over else [])):  # as the SDK does, once the reply is in
                await close() if close else None

    async def _call(
        self, settings: ModelSettings, send: Callable[[ModelSettings], Awaitable[_Reply]], *, streamed: bool
    ) -> _Reply:
        stream: bool | None = None
        if self._wants_tokens and not self._own and isinstance(self._inner, agents.OpenAIChatCompletionsModel):
            stream = streamed
        elif self._wants_tokens:
            where = f"Chat Completions of the run's own endpoint tell them ({option('api', 'chat')})"
            self._state.tokens.skip(f"only {where}")
        try:
            recorder = self._recorder
            return await self._state.call(self.model, settings, send, recorder.limit, stream, recorder.goes_elsewhere)
        except (Refused, EndpointDown) as exc:
            if isinstance(exc, Refused) or self._recorder.goes_elsewhere():
                self._recorder.fatal = exc  # else a tool could make it a message to the model
            raise

    @contextmanager
    def _recorded(
        self,
        request: dict[str, Any],
        sent: ModelSettings,
        asked: ModelSettings,
        more: Mapping[str, Any],
        *,
        streamed: bool = False,
    ) -> Generator[RecordedCall]:
        """Record the call that is made within, `sent` in the place of what the agent `asked`."""
        asks = self._wants_tokens and asks_for_tokens(sent)
        tokens = ReplyTokens(keep_logprobs=asks_for_logprobs(asked)) if asks else None
        own_model = type(self._inner).__name__ if self._own else None
        with reply_captured(tokens, streamed=streamed) as wire:
            span = get_current_span()
            call = RecordedCall(span and span.span_id, sent, self.model, request, wire, own_model=own_model)
            call.is_bound = any(more.get(name) for name in _ON_SERVER)
            self._recorder.begin(call)
            try:
                yield call
            except BaseException as exc:
                if isinstance(exc, NoReply):
                    wire.bill = exc.bill
                self._recorder.end(call, error=exc)
                raise

    def _note_bill(self, wire: WireReply, response: ModelResponse | None) -> None:
        """Take the bill from the SDK's reply where none came over the wire, as with a model of the agent's own."""
        if response and wire.bill in (None, BEGUN):
            wire.bill = bill_of(response)
        if wire.bill:
            self._state.gate.check_bill(wire.bill)

    def _take_tokens(self, wire: WireReply) -> None:
        """Take the tokens that a reply came with. Raises Refused where they are required and there are none."""
        if wire.tokens is None:
            return
        tokens, wire.tokens = wire.tokens.tokens(), None
        wire.sampled = tokens if isinstance(tokens, SampledTokens) else None
        try:
            self._state.tokens.check(tokens)
        except Refused as exc:
            self._recorder.fatal = exc
            raise

    def _settings_to_send(self, settings: ModelSettings) -> ModelSettings:
        seeded = with_effort(with_seed(settings, self._recorder.seed), self._recorder.effort)
        return replace(seeded, top_p=None) if self._recorder.greedy and seeded.top_p is not None else seeded

    async def _note_request(
        self, request: dict[str, Any], settings: ModelSettings, tools: list[Tool]
    ) -> ModelResponse | None:
        """Take the first call's fingerprint, and put gates before tools; return a reply that an attempt before had.

        Raises StoppedBeforeFirstCall if asked to, BeginsAnew where the attempt before had asked something else.
        """
        if self._recorder.fingerprint is None:
            self._recorder.fingerprint = hash_agent(request, settings, self.model, self._recorder.at_usual_place)
        if self._recorder.stop_before_first_call:
            raise StoppedBeforeFirstCall
        if self._recorder.fatal:
            raise self._recorder.fatal
        kept = self._recorder.given_again(request, self._settings_to_send(settings), self.model, tools)
        self._recorder.let_decide(tools)
        if (outside := self._recorder.state_outside) and not (kept and self._recorder.calls[-1].is_prefix):
            await outside.before_call(is_live=kept is None)
        return kept


@dataclass(frozen=True, eq=False)
class RecordedProvider(ModelProvider):
    """Wraps every model of `inner` that an agent names, as RecordedModel says."""

    inner: ModelProvider
    recorder: Recorder
    state: EndpointState | None = None
    own: bool = field(default=False, kw_only=True)
    name: str | None = None
    """Stands for whatever an agent names."""
    thread: int = field(default_factory=threading.get_ident)
    """That of the event loop it serves."""

    def get_model(self, model_name: str | None) -> Model:
        """Return the named model, recorded."""
        return RecordedModel(self.inner.get_model(self.name or model_name), self.recorder, self.state, own=self.own)


def provider_for(
    endpoint: Endpoint | None, gate: Gate, *, tokens: bool = False
) -> tuple[ModelProvider, openai.AsyncOpenAI | None]:
    """Return the provider of an endpoint's models, and the client to close at the end.

    `gate` goes by what the replies' headers say. With `tokens` calls may ask for token ids.

    At an address of the user's, a model name with a slash is the server's, never a prefix of the SDK's. Without an
    endpoint the SDK's defaults serve (`set_default_openai_client`, prefixes with keys of their own).
    """
    if endpoint is None:
        return MultiProvider(), None

    async def on_response(response: Any) -> None:
        gate.note_headers(response.headers)
        await note_response(response)

    timeout_s, collects = gate.patience.request_s, collector if tokens else None
    client = openai_client(endpoint, timeout_s=timeout_s, on_response=on_response, collector=collects)
    responses = endpoint.api == "responses"
    if endpoint.base_url:
        return agents.OpenAIProvider(openai_client=client, use_responses=responses), client
    return MultiProvider(openai_client=client, openai_use_responses=responses), client


def has_own_model(agent: Agent[Any]) -> bool:
    """Return whether an agent brings a way to its model: a Model object, a prefixed name, a default client or key."""
    defaults = _openai_shared.get_default_openai_client(), _openai_shared.get_default_openai_key()
    is_prefixed = isinstance(agent.model, str) and "/" in agent.model
    return isinstance(agent.model, Model) or is_prefixed or defaults != (None, None)


def brings_model(agent: Agent[Any]) -> bool:
    """Return whether an agent's model is an object of its own that is not recorded yet."""
    return isinstance(agent.model, Model) and not isinstance(agent.model, RecordedModel)


def recorded(agent: Agent[Any], recorder: Recorder, state: EndpointState | None = None) -> dict[str, Any]:
    """Return in what a rollout's copy of an agent differs: its Model object and timeouts are recorded."""
    changes = unguarded(agent)
    if isinstance(agent.model, Model) and brings_model(agent):
        changes["model"] = RecordedModel(agent.model, recorder, state, own=True)
    tools = [recorder.hooks.with_timeouts_noted(tool) for tool in agent.tools]
    if any(tool is not before for tool, before in zip(tools, agent.tools, strict=True)):
        changes["tools"] = tools
    return changes


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
    workspaces: Workspaces
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
        theirs, close = as_config(options.get("run_config")), None
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
        if config.sandbox or sandbox_agents(agent):
            config = self.workspaces.given_to(config)
            go_on_beside_others(agent if isinstance(given_input, RunState) else None)
        hooks = with_hooks(self.recorder.hooks, options.get("hooks"))
        changes = partial(recorded, recorder=self.recorder, state=state)
        if not isinstance(given_input, RunState) and any(changes(a) or hands_off_unseen(a) for a in _agents(agent)):
            agent = copied(agent, changes)
        return TakenRun(agent, options | {"run_config": config, "hooks": hooks}, close)

    def on_raised(self, raised: AgentRaised) -> None:
        """Let it end the rollout."""
        self.recorder.fatal = self.recorder.fatal or raised

    def outermost(self, given: RunConfig | None) -> RunConfig:
        """Return the configuration of the rollout's own run with what an app gave for it, if anything.

        The model that the user named, and the embedded one, go before the app's; a provider that the app chose is
        asked for all others.
        """
        if given is None:
            return self.config
        theirs = copy.copy(given)
        if isinstance(self.config.model, str):
            theirs.model = self.config.model
        ours = cast("RecordedProvider", self.config.model_provider)
        return self._merged(theirs, ours, self.recorder.state, None, own=is_chosen(theirs.model_provider))

    def _pinned(self, theirs: RunConfig, ours: RecordedProvider, state: EndpointState, agent: Any) -> RunConfig:
        provider = theirs.model_provider
        own = not isinstance(provider, RecordedProvider) and (is_of_another_class(provider) or self.brings_models)
        return self._merged(theirs, ours, state, agent, own=own)

    def _merged(
        self, theirs: RunConfig, ours: RecordedProvider, state: EndpointState, agent: Any, *, own: bool
    ) -> RunConfig:
        """Return a run's configuration on the rollout's models, or on its `own` provider's."""
        config = merged(theirs, self.config)
        config.model_provider = ours
        if isinstance(self.config.model, RecordedModel):  # the embedded model: nothing else may be asked
            config.model = self.config.model.elsewhere(state)
        elif isinstance(theirs.model, Model):
            config.model = RecordedModel(theirs.model, self.recorder, state, own=True)
        elif own:
            config.model_provider = RecordedProvider(theirs.model_provider, self.recorder, state, own=True)
        elif isinstance(self.config.model, str) and any(brings_model(a) for a in _agents(agent)):
            config.model, config.model_provider = None, replace(ours, name=self.config.model)
        else:
            config.model = self.config.model or theirs.model
        return config


def _agents(agent: Any) -> list[Agent[Any]]:
    return reachable(cast("Agent[Any]", agent)) if isinstance(agent, Agent) else []
