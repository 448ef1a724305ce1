"""One small call to the agent's model, through the parts that a rollout's calls go through."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
from agents import Agent, FunctionTool, ModelSettings, RunConfig, Runner

from harness.core.settings import Settings
from harness.doctor.free_checks import CheckedAgent
from harness.endpoints.gate import Gate
from harness.endpoints.refused_settings import RefusedSettings, refused_setting
from harness.endpoints.state import EndpointState
from harness.rollouts.models import RecordedProvider, provider_for, recorded
from harness.rollouts.recorder import RecordedCall, Recorder

PATIENCE_S = 60.0
_CAPS = ("max_tokens", "max_output_tokens", "max_completion_tokens")


@dataclass(frozen=True)
class ProbeReply:
    """How a call ended."""

    call: RecordedCall | None
    error: BaseException | None
    left_out: tuple[str, ...]
    """What a run would note of settings that were refused."""
    took_s: float

    @property
    def cut(self) -> bool:
        """Whether the reply ended at the limit on its tokens."""
        call = self.call
        return call is not None and (call.wire.finish == "length" or "response.incomplete" in str(call.error))

    @property
    def replied(self) -> bool:
        """Whether the model took the call, which a cut reply shows too."""
        return self.call is not None and (self.call.response is not None or self.cut)

    @property
    def output(self) -> Sequence[Any]:
        """The reply's items."""
        return self.call.response.output if self.call and self.call.response else ()


class ModelProbe:
    """Asks the agent's model as a run would: same endpoint, same settings of the agent, same handling of refusals."""

    def __init__(self, agent: CheckedAgent, settings: Settings) -> None:

        self._agent, self._settings = agent.agent, settings
        self._provider, self._client = provider_for(agent.spec.endpoint, Gate.impatient())
        self._capped = True

    async def ask(
        self,
        prompt: str,
        sampling: ModelSettings,
        *,
        tokens: int,
        tools: Sequence[FunctionTool] = (),
        seed: int | None = None,
    ) -> ProbeReply:
        """Send `prompt` alone; once more without a limit on tokens where the endpoint refuses the limit."""
        notes: list[str] = []
        state = EndpointState(Gate.impatient(), RefusedSettings(notes.append, strict=self._settings.strict_temperature))
        recorder = Recorder(on_reply=lambda: None, state=state, seed=seed)
        bare = Agent[Any](  # with the agent's model and model settings, and nothing else of its own
            self._agent.name,
            instructions="You follow instructions to the letter.",
            tools=list(tools),
            model=self._agent.model,
            model_settings=replace(self._agent.model_settings, tool_choice=None),
            tool_use_behavior="stop_on_first_tool",
        )
        config = RunConfig(
            model=self._settings.model,
            model_provider=RecordedProvider(self._provider, recorder),
            model_settings=replace(sampling, max_tokens=tokens) if self._capped else sampling,
            tracing_disabled=True,
        )
        started, error = anyio.current_time(), None
        try:
            with anyio.fail_after(min(PATIENCE_S, self._settings.timeout)):
                asked = bare.clone(**recorded(bare, recorder))
                await Runner.run(asked, prompt, max_turns=1, run_config=config)
        except Exception as exc:  # noqa: BLE001 - whatever an endpoint does is a failed check
            error = exc
        if self._capped and refused_setting(error, _CAPS) is not None:
            self._capped = False
            return await self.ask(prompt, sampling, tokens=tokens, tools=tools, seed=seed)
        call = recorder.calls[-1] if recorder.calls else None
        took_s = anyio.current_time() - started
        return ProbeReply(call=call, error=error, left_out=tuple(notes), took_s=took_s)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client:
            await self._client.close()
