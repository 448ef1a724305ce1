"""The names of a run's models against the lists that their endpoints give: read beside the first calls, not before.

A list is asked for with the key, and at the address, of the calls themselves. No run waits for one.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from harness.core.errors import Refused, UsageError, before_colon, first_error
from harness.core.settings import Settings
from harness.endpoints.address import OPENAI_HOST, Endpoint
from harness.endpoints.client import openai_client
from harness.endpoints.credentials import Credentials
from harness.endpoints.model_list import ModelList, list_models
from harness.pipeline.resolve import AgentSpec, JudgeSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import judge_endpoints
from harness.rollouts.variation import vary_in

AddressAndKey = tuple[str, str]


@dataclass(frozen=True)
class NamedModel:
    """A model that a run asks, the endpoint where, and what names another."""

    name: str
    endpoint: Endpoint
    named_by: str

    @property
    def place(self) -> AddressAndKey:
        """Where, and by which key, its list is asked for."""
        return self.endpoint.url, self.endpoint.key.get_secret_value()


def models_of_agent(agent: AgentSpec, settings: Settings) -> list[NamedModel]:
    """Return the models that an agent's rollouts name at each of its servers; none of those that the agent brings."""
    servers = () if agent.offline or agent.own_model else agent.servers or filter(None, (agent.endpoint,))
    named = [(agent.model, before_colon("model"))] if agent.model else []
    named += [(name, before_colon("vary")) for name, _ in vary_in(settings).models]
    return [NamedModel(name, server, by) for server in servers for name, by in named]


def models_of_judge(judge: JudgeSpec, settings: Settings, credentials: Credentials) -> list[NamedModel]:
    """Return the models of a judge that are asked somewhere; none where no key may go to one of them."""
    if credentials.withheld:
        return []
    try:
        places = judge_endpoints(judge, settings, credentials)
    except UsageError:
        return []
    return [NamedModel(member.asked, at, before_colon("judge_model")) for member, at in places if at]


async def read_lists(models: Iterable[NamedModel]) -> Mapping[AddressAndKey, ModelList | None]:
    """Ask for the lists of all places at once; None: none came. OpenAI's own wants a key, and is not asked without."""
    lists = dict[AddressAndKey, ModelList | None]()

    async def ask(model: NamedModel) -> None:
        async with openai_client(model.endpoint) as client:
            lists[model.place] = await list_models(client)

    async with anyio.create_task_group() as tasks:
        for model in {model.place: model for model in models}.values():
            if model.endpoint.host != OPENAI_HOST or model.endpoint.has_key:
                tasks.start_soon(ask, model)
    return lists


@asynccontextmanager
async def models_looked_up(
    models: Sequence[NamedModel], run_env: RunEnvironment, *, on_refusal: bool = False
) -> AsyncGenerator[None]:
    """Note meanwhile what the lists say of models; `on_refusal` reads them only then.

    Where an endpoint refuses a model, the error goes on with the name that is nearest in the list.
    """

    async def note() -> None:
        lists, today = await read_lists(models), run_env.clock().date()
        for (host, name), model in {(model.endpoint.host, model.name): model for model in models}.items():
            if not (listed := lists.get(model.place)) or not listed.names:
                continue
            if ends := listed.shutdown_soon(name, today):
                run_env.progress.note(f"{host} says that {ends}; name another with {model.named_by}")
            elif not listed.has(name):
                run_env.progress.note(f"{host} {listed.unlisted(name)}")

    try:
        if on_refusal:
            yield
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(note)
                yield
                tasks.cancel_scope.cancel()
    except* Refused as group:
        error = first_error(group)
        refused = [model for model in models if f"model {model.name!r}" in str(error)]
        lists: Mapping[AddressAndKey, ModelList | None] = {}
        with anyio.CancelScope(deadline=run_env.deadline.at):
            lists = await read_lists(refused)
        near = [listed.near(model.name) for model in refused if (listed := lists.get(model.place))]
        raise type(error)(f"{error}{next(filter(None, near), '')}") from error
