"""Tools that only the Responses API knows, looked for before anything is spent."""

from typing import Any

from agents import Agent, Model, OpenAIChatCompletionsModel, UserError
from agents.models import _openai_shared  # pyright: ignore[reportPrivateUsage] - the SDK has no public getter
from agents.models.chatcmpl_converter import Converter

from harness.core.errors import UsageError
from harness.core.wording import option
from harness.endpoints.address import Endpoint
from harness.rollouts.graph import in_sight


def check_tools(agent: Agent[Any], endpoint: Endpoint | None, model: str | None) -> None:
    """Raise UsageError where an agent in sight has a tool that Chat Completions, which it is to speak, does not take.

    `model` is the one that is named for every agent of the run.
    """
    for each in in_sight(agent):
        refused = next((tool for tool in each.tools if not _is_taken(tool)), None)
        if refused is None:
            continue
        what = f"agent {each.name!r} has the tool {refused.name!r}, which Chat Completions does not know"
        if model is None and isinstance(each.model, Model):
            if isinstance(each.model, OpenAIChatCompletionsModel):
                raise UsageError(f"{what}: give the agent an OpenAIResponsesModel, or other tools")
        elif _speaks_chat(endpoint):
            raise UsageError(
                f"{what}: call the model with {option('api', 'responses')}, if its server knows that API, or give the "
                "agent other tools (`env.api` in `build(env)` says which API a run calls)"
            )


def _is_taken(tool: Any) -> bool:
    try:
        Converter.tool_to_openai(tool)
    except UserError:
        return False
    return True


def _speaks_chat(endpoint: Endpoint | None) -> bool:
    return endpoint.api == "chat" if endpoint else not _openai_shared.get_use_responses_by_default()
