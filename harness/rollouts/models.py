"""The models that a rollout runs on, wrapped so that every call's request, settings and reply are recorded."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import openai
from agents import (
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelBehaviorError,
    ModelProvider,
    ModelResponse,
    ModelSettings,
    OpenAIProvider,
    OpenAIResponsesModel,
)
from agents.models import _openai_shared  # pyright: ignore[reportPrivateUsage] - the SDK has no public getter
from agents.models.multi_provider import MultiProvider
from agents.tracing import get_current_span

from harness.core.errors import Refused
from harness.core.records import digest
from harness.endpoints import Endpoint, StreamedReply, openai_client, with_seed
from harness.rollouts.http_capture import Reply, listen, note_response, stop_listening
from harness.rollouts.recorder import Looked, RecordedCall, Recorder


class RecordedModel(Model):
    """Passes every call on to `inner` and writes it down."""

    def __init__(self, inner: Model, recorder: Recorder) -> None:
        """Wrap `inner`."""
        self._inner, self._recorder = inner, recorder
        self.model = getattr(inner, "model", None)

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
        self._look(request := request_of(system_instructions, input, tools, output_schema, handoffs), model_settings)

        async def send(settings: ModelSettings) -> ModelResponse:
            wire, token = listen()
            place = self._begin(settings, request, wire)
            try:
                response = await self._inner.get_response(
                    system_instructions, input, settings, tools, output_schema, handoffs, tracing, **more
                )
            except BaseException as exc:
                self._recorder.end(place, error=exc)
                raise
            finally:
                stop_listening(token)
            self._recorder.end(place, response)
            return response

        try:
            return await self._recorder.state.call(self.model, with_seed(model_settings, self._recorder.seed), send)
        except Refused as exc:
            self._recorder.fatal = exc
            raise

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
        """Stream from the inner model: only an agent's own nested runs do. Asks for the usage, as no one else would."""
        self._look(request := request_of(system_instructions, input, tools, output_schema, handoffs), model_settings)
        wanted = with_seed(model_settings, self._recorder.seed)
        if wanted.include_usage is None:
            wanted = replace(wanted, include_usage=True)

        async def send(settings: ModelSettings) -> tuple[int, AsyncIterator[Any], Any]:
            place = self._begin(settings, request, Reply())  # nothing to listen to: the events tell
            events = self._inner.stream_response(
                system_instructions, input, settings, tools, output_schema, handoffs, tracing, **more
            )
            try:
                return place, events, await anext(events, None)  # what an endpoint refuses, it refuses here
            except BaseException as exc:
                self._recorder.end(place, error=exc)
                raise

        try:
            place, events, event = await self._recorder.state.call(self.model, wanted, send)
        except Refused as exc:
            self._recorder.fatal = exc
            raise
        reply = StreamedReply()
        try:
            while event is not None:
                if not reply.over and reply.add(event):  # noted first: the SDK may close the stream at its end
                    self._name(place, reply)
                    self._recorder.end(place, reply.response, reply.error)
                yield event
                event = await anext(events, None)
            if not reply.over:
                self._recorder.end(place, error=ModelBehaviorError("the stream ended without a reply"))
        except BaseException as exc:
            if not reply.over:
                self._recorder.end(place, error=exc)
            raise
        finally:
            await _closed(events, quietly=reply.over)

    def _look(self, request: dict[str, Any], settings: ModelSettings) -> None:
        """Take the fingerprint, if this is the first call. Raises Looked if that is all that is wanted."""
        if self._recorder.fingerprint is None:
            self._recorder.fingerprint = _fingerprint(request, settings, self.model)
        if self._recorder.only_look:
            raise Looked

    def _begin(self, settings: ModelSettings, request: dict[str, Any], wire: Reply) -> int:
        """Note an attempt that begins, and return its place."""
        span = get_current_span()
        return self._recorder.begin(RecordedCall(span.span_id if span else None, settings, self.model, request, wire))

    def _name(self, place: int, reply: StreamedReply) -> None:
        """Note which model a stream says it is from. On Chat the SDK puts the name there that was asked for."""
        if isinstance(self._inner, OpenAIResponsesModel):
            self._recorder.calls[place].wire.model = reply.model

    def get_retry_advice(self, request: Any) -> Any:
        """Pass on: without it the SDK's retries lose what the provider advises."""
        return self._inner.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._inner._cleanup_on_run_end(owner)  # noqa: SLF001 - the SDK's own hook

    async def close(self) -> None:
        """Pass on."""
        await self._inner.close()


async def _closed(events: AsyncIterator[Any], *, quietly: bool) -> None:
    """Close a stream; one that has come to its end is closed quietly, as the SDK does: the reply is there."""
    close = getattr(events, "aclose", None)
    with suppress(*([Exception] if quietly else [])):
        await close() if close else None


class RecordedProvider(ModelProvider):
    """Wraps every model that an agent names."""

    def __init__(self, inner: ModelProvider, recorder: Recorder) -> None:
        """Wrap the models of `inner`."""
        self._inner, self._recorder = inner, recorder

    def get_model(self, model_name: str | None) -> Model:
        """Return the named model, recorded."""
        return RecordedModel(self._inner.get_model(model_name), self._recorder)


def provider_for(endpoint: Endpoint | None) -> tuple[ModelProvider, openai.AsyncOpenAI | None]:
    """Return the provider of an endpoint's models, and the client to close at the end.

    At an address of the user's a name with a slash is the server's own, never a prefix of the SDK's; without an
    endpoint the SDK's defaults serve (`set_default_openai_client`, prefixes with keys of their own).
    """
    if endpoint is None:
        return MultiProvider(), None
    client = openai_client(endpoint, on_response=note_response)
    responses = endpoint.api == "responses"
    if endpoint.base_url:
        return OpenAIProvider(openai_client=client, use_responses=responses), client
    return MultiProvider(openai_client=client, openai_use_responses=responses), client


def has_own_model(agent: Agent[Any]) -> bool:
    """Tell whether an agent can run without an endpoint of ours: a Model object, a prefixed name, a default client."""
    if isinstance(agent.model, Model) or (isinstance(agent.model, str) and "/" in agent.model):
        return True
    return _openai_shared.get_default_openai_client() is not None or _openai_shared.get_default_openai_key() is not None


def recorded(agent: Agent[Any], recorder: Recorder) -> dict[str, Any]:
    """Return the fields in which a rollout's copy of an agent differs: a Model object is recorded.

    Models by name come recorded from the provider.
    """
    return {"model": RecordedModel(agent.model, recorder)} if isinstance(agent.model, Model) else {}


def request_of(
    system: str | None, items: Any, tools: list[Any], output_schema: Any, handoffs: list[Handoff[Any]]
) -> dict[str, Any]:
    """Return what a model call was sent, as it is recorded: `pack` writes it, a replay compares it."""
    return {
        "instructions": system,
        "input": items if isinstance(items, str) else list(items),
        "tools": [_tool(t) for t in tools],
        "handoffs": [{"name": h.tool_name, "schema": h.input_json_schema} for h in handoffs],
        "output_schema": None
        if output_schema is None or output_schema.is_plain_text()
        else output_schema.json_schema(),
    }


def _tool(tool: Any) -> dict[str, Any]:
    if isinstance(tool, FunctionTool):
        return {"name": tool.name, "description": tool.description, "schema": tool.params_json_schema}
    return {"name": tool.name}


def _fingerprint(request: dict[str, Any], settings: ModelSettings, model: str | None) -> str:
    """Hash what makes the agent this agent: all it sends but the query and the sampling."""
    fixed = {k: v for k, v in request.items() if k != "input"}
    told = {k: v for k, v in settings.to_json_dict().items() if k not in {"temperature", "top_p", "extra_body"}}
    try:
        return digest([fixed, told, model])
    except TypeError:  # something that JSON has no form for
        return digest([fixed, json.loads(json.dumps(told, default=str)), model])
