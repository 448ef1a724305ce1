"""What a model is asked before the first rollout so that samples differ: what it takes, and paraphrases."""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import openai
from agents import Agent, ModelRetrySettings, ModelSettings, RunConfig, Runner

from harness.archive.paraphrases import keep_paraphrases, kept_paraphrases
from harness.archive.run_info import WayFound
from harness.core.cost import Cost, total_cost
from harness.core.errors import CannotWrite, Refused, UsageError, before_colon, option
from harness.core.recipes import AUTO_EFFORTS, AUTO_PARAPHRASES, BY_TEMPERATURE, Vary
from harness.core.records import Usage
from harness.endpoints.costs import UNKNOWN_ADDRESS, price_list
from harness.endpoints.gate import EndpointState
from harness.endpoints.refused_settings import RefusedSettings
from harness.endpoints.retries import agent_retries, as_refusal
from harness.pipeline.engines import endpoint_gate
from harness.pipeline.plan import Prepared
from harness.pipeline.resolve import env_before, make_redactor
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.varying import TRIES, ZERO_TRIES, own_instructions, with_paraphrases, with_vary
from harness.rollouts.models import RecordedProvider, provider_for, recorded
from harness.rollouts.recorder import Recorder, failure_from
from harness.rollouts.variation import vary_in

_RANDOM = "Write twelve English words, drawn at random, on one line. Write nothing else."
_PARAPHRASE = """\
Write {count} paraphrases of the instructions below, by which an assistant works. Each paraphrase asks for the same in
other words and in another order, and is complete in itself. Take nothing away and add nothing. Keep names, formats and
examples word for word. Reply with the paraphrases alone, and put a line of --- between two.

The instructions:

{own}"""
_FIRST_WORDS = 3
"""A server that answers at temperature 0 need not end two equal answers alike."""


async def with_ways(sides: Sequence[Prepared], run_env: RunEnvironment) -> list[Prepared]:
    """Return runs whose ways to vary are settled, for which the models are asked what they take, and for paraphrases.

    Several runs are to be compared: those that ask for `auto` get the first way that works for all of them. Raises
    Refused where a model gives no reply that helps, UsageError where no way is left, or --max-cost does not allow it.
    """
    asked = [vary_in(side.settings) for side in sides]
    costs = [side.way_cost for side, vary in zip(sides, asked, strict=True) if vary.asks_first]
    most = min((usd for side in sides if (usd := side.settings.max_cost) is not None), default=None)
    least = sum(cost.low for cost in costs if cost)
    if most is not None and least > most:
        first = f"{before_colon('vary')}: the model is asked first, for about ${least:.4f}"
        raise UsageError(f"{first}, and {option('max_cost', most)} does not allow it")
    async with AsyncExitStack() as opened:
        models = {
            at: await opened.enter_async_context(asked_model(side, run_env))
            for at, side in enumerate(sides)
            if asked[at].asks_first
        }
        of_auto = [model for at, model in models.items() if asked[at].auto]
        works, why = await _what_works(of_auto) if of_auto else (BY_TEMPERATURE, ())
        settled = list(sides)
        for at, model in models.items():
            auto = asked[at].auto
            settled[at] = await _settled(model, works if auto else asked[at], why if auto else (), run_env)
    for side, vary in zip(settled, asked, strict=True):  # also of paraphrases that were kept from an earlier run
        count = AUTO_PARAPHRASES if vary.auto else side.paraphrases or 0
        if 0 < (few := len(vary_in(side.settings).variants)) < count:
            run_env.progress.note(f"the model was asked for {count} paraphrases and wrote {few}")
    return settled


async def _settled(model: "AskedModel", found: Vary, why: tuple[str, ...], run_env: RunEnvironment) -> Prepared:
    """Return a run with the way that was found, whose paraphrases the model writes where it comes to that."""
    prepared = model.prepared
    vary, agent = vary_in(prepared.settings), prepared.agent
    redact = make_redactor(agent.loaded, prepared.settings, run_env.environ)
    if found.paraphrases:
        what = f"{before_colon('vary')}: {'; '.join((str(vary), *why))}"
        found = await _paraphrased(model, found, own_instructions(agent, redact, what), run_env)
    if vary.auto:
        kept = replace(found, variants=(), paraphrases=len(found.variants)) if found.variants else found
        run_env.progress.note(f"{option('vary', 'auto')}: {'; '.join((f'samples vary by {kept}', *why))}")
    way = model.way_found(str(vary), why)
    return replace(prepared, settings=with_vary(prepared.settings, found, redact), way_found=way)


async def _what_works(models: Sequence["AskedModel"]) -> tuple[Vary, tuple[str, ...]]:
    """Return the first way that works for all models, and why those before it do not."""
    why = None
    for model in models:
        samples = model.prepared.settings.temperature
        fault = await model.temperature_fault(samples) if samples else None
        if fault or not samples:
            why = f"model {model.prepared.agent.model!r} {fault}" if fault else "the samples' temperature is 0"
            break
    if why is None:
        return BY_TEMPERATURE, ()
    levels = AUTO_EFFORTS
    for model in models:
        answers = {level: await model.say(_RANDOM, effort=level) for level in levels}
        heard = {level: answer for level, answer in answers.items() if answer is not None}
        if len(set(heard.values())) < 2:
            who = "it" if len(models) == 1 else f"model {model.prepared.agent.model!r}"
            return Vary(paraphrases=AUTO_PARAPHRASES), (
                why,
                f"{who} {'refuses' if len(heard) < 2 else 'ignores'} a reasoning effort",
            )
        levels = tuple(heard)
    return Vary(efforts=levels), (why,)


async def _paraphrased(model: "AskedModel", vary: Vary, own: str, run_env: RunEnvironment) -> Vary:
    """Return a way to vary with paraphrases, which are kept before anything else is done."""
    count, agent = vary.paraphrases or 0, model.prepared.agent
    if kept := kept_paraphrases(own, count, agent.place, run_env.environ):
        return with_paraphrases(vary, kept, own)
    reply = await model.say(_PARAPHRASE.format(count=count, own=own)) or ""
    written = with_paraphrases(vary, reply, own)
    try:
        keep_paraphrases(reply, own, count, agent.place, run_env.environ)
    except CannotWrite as exc:
        run_env.progress.note(f"{exc}: a run that ends before it begins pays for paraphrases again")
    return written


@dataclass
class AskedModel:
    """The starting agent's model, asked by itself."""

    prepared: Prepared
    own: Agent[Any]
    recorder: Recorder
    config: RunConfig
    retries: ModelRetrySettings

    def paid(self) -> tuple[Usage, Cost]:
        """Return what all calls to it took, and what they cost."""
        agent, prices = self.prepared.agent, price_list(self.prepared.settings)
        url = agent.endpoint.base_url if agent.endpoint else UNKNOWN_ADDRESS
        paid = [(bill, (call.wire.model, call.model)) for call in self.recorder.calls if (bill := call.wire.bill)]
        usage = sum((bill.usage for bill, _ in paid), Usage())
        return usage, total_cost(prices.cost(bill, models, url) for bill, models in paid)

    async def say(self, prompt: str, temperature: float | None = None, effort: str | None = None) -> str | None:
        """Return its reply; None where it refuses the request for its effort. Raises Refused where there is none."""
        model = recorded(self.own, self.recorder).get("model", self.own.model)
        mine = self.own.model_settings  # as they are where they may be: the SDK tells its defaults by being equal
        if mine.tool_choice is not None or mine.parallel_tool_calls is not None:
            mine = replace(mine, tool_choice=None, parallel_tool_calls=None)
        self.recorder.effort = effort
        settings = ModelSettings(temperature=temperature, retry=self.retries)
        try:
            asker = Agent(name=self.own.name, model=model, model_settings=mine)
            config = replace(self.config, model_settings=settings)
            return str((await Runner.run(asker, prompt, run_config=config)).final_output).strip()
        except Refused:
            raise
        except Exception as exc:
            if effort is not None and isinstance(exc, openai.BadRequestError | openai.UnprocessableEntityError):
                return None
            endpoint, named = self.prepared.agent.endpoint, self.prepared.agent.model or "the default"
            host = endpoint.host if endpoint else "the agent's endpoint"
            asked = f"{before_colon('vary')}: {host} gave no reply to what is asked before the first rollout"
            why = failure_from(exc, self.recorder).message
            raise as_refusal(exc, named, host) or Refused(f"{asked}: {why}") from exc

    async def temperature_fault(self, samples: float) -> str | None:
        """Return why samples do not differ by a temperature; None where they do."""
        cold = [await self.say(_RANDOM, 0.0) for _ in range(ZERO_TRIES)]
        beginnings = {tuple((answer or "").split()[:_FIRST_WORDS]) for answer in cold}
        takes_it = len(beginnings) == 1 and not self._refuses_temperature()
        warm = [await self.say(_RANDOM, samples) for _ in range(TRIES)] if takes_it else []
        last = self.recorder.calls[-1]
        if self._refuses_temperature():
            return "refuses the setting temperature"
        if not warm:
            return "ignores a temperature of 0"
        echoed, sent = last.wire.temperature, last.settings.temperature
        if len(set(warm)) == 1 or (echoed is not None and echoed != sent):
            return f"ignores a temperature of {samples:g}"
        return None

    def _refuses_temperature(self) -> bool:
        """Return whether the model that was asked last has refused a temperature."""
        return "temperature" in self.recorder.state.refused.of(self.recorder.calls[-1].model)

    def way_found(self, asked: str, why: tuple[str, ...]) -> WayFound:
        """Return what was found, and what that cost."""
        usage, cost = self.paid()
        return WayFound(asked=asked, found=why, usage=usage, **cost.named("price_usd"))


@asynccontextmanager
async def asked_model(prepared: Prepared, run_env: RunEnvironment) -> AsyncGenerator[AskedModel]:
    """Open the starting agent's model, to be asked something beside the rollouts."""
    settings, agent = prepared.settings, prepared.agent
    gate = endpoint_gate(agent.endpoint, settings, run_env.gates)
    provider, client = provider_for(agent.endpoint, gate)
    refused = RefusedSettings(strict=settings.strict_temperature)
    state = EndpointState(gate, refused, alone_s=run_env.deadline.alone_s)
    recorder = Recorder(state)
    rng = random.Random(f"{settings.seed}/retries")
    retries = agent_retries(settings.retries, rng, state.has_answered, run_env.progress.retried)
    models = RecordedProvider(provider, recorder)
    config = RunConfig(model=settings.model, model_provider=models, tracing_disabled=True)
    try:
        async with agent.loaded.open(env_before(settings, agent.endpoint, offline=agent.offline)) as own:
            yield AskedModel(prepared, own, recorder, config, retries)
    finally:
        if client:
            await client.close()
