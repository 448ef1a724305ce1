"""Everything that a first call would import or build, in one go: for a server, before it takes requests."""

import gc
import importlib
import pkgutil
from pathlib import Path

from agents import Agent
from pydantic import SecretStr

from harness.api.one_group import best_of
from harness.core.records import build_records
from harness.core.settings import OFFLINE_JUDGE
from harness.core.settings_sources import environment
from harness.core.sync import in_step
from harness.endpoints.address import Certificates, Endpoint
from harness.endpoints.client import openai_client
from harness.endpoints.costs import Priced, agent_tokens
from harness.transcripts.tokens import counter_for

_NOT_NEEDED = {"cli", "doctor", "__main__"}
_MODEL = "gpt-5.2"
_WALKS_BEFORE_A_FULL_ONE = 500
"""Ten by default. The walks before it find nearly all that is to be freed: what a call leaves behind is young."""


def preload() -> None:
    """Import everything, and build what a first call would build: no later call then blocks its event loop for that.

    Takes seconds, once: call it before a server takes requests. It asks no model, opens no connection, writes nothing.
    What the process holds by then is left out of the garbage collector's walks (`gc.freeze`), and full walks become
    rarer (`gc.set_threshold`): over all rollouts under way, one would block a loop for longer than any request.
    """
    for room in pkgutil.iter_modules([str(Path(__file__).parents[1])]):
        if room.name not in _NOT_NEEDED:
            door = importlib.import_module(f"harness.{room.name}")
            for module in pkgutil.walk_packages(door.__path__, f"{door.__name__}."):
                importlib.import_module(module.name)
    build_records()
    Priced(_MODEL, None).of(agent_tokens(1)[0].usage())  # the price library loads its data with the first price
    counter_for(_MODEL)
    in_step(_rehearse)()
    gc.collect()
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, max(old, _WALKS_BEFORE_A_FULL_ONE))


async def _rehearse() -> None:
    """Run and judge an agent on the embedded parts: the SDK, the prompts and the numbers do everything once."""
    certificates = Certificates.named_in(environment())
    client = openai_client(Endpoint(base_url=None, api="chat", key=SecretStr("none"), certificates=certificates))
    _ = client.responses, client.chat.completions  # each is imported when it is first asked for
    await client.close()
    await best_of(Agent(name="preload"), "Why is the sky blue?", 3, OFFLINE_JUDGE, offline=True)
