"""The recipes of examples/trainers as modules, and what the trainers' sources declare of what the recipes use."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from tests.conftest import ROOT

AGENT = """\
from agents import Agent, function_tool

@function_tool
def look(word: str) -> str:
    "Look."
    return f"about {word}"

agent = Agent(name="looker", instructions="Look.", tools=[look])
"""
RECIPES = {
    name: (ROOT / "examples" / "trainers" / name).read_text("utf-8")
    for name in ("my_loop.py", "my_rollout.py", "app.py", "my_flow.py")
}


def recipe(name: str, folder: Path) -> dict[str, Any]:
    """Return the names that a recipe defines, with an agent of the folder and a judge that has no price."""
    (folder / "agent.py").write_text(AGENT)
    text = RECIPES[name].replace(", max_cost=50", "").replace('"agents/search.py"', f'"{folder}/agent.py"')
    text = text.replace("SIZE = 8", "SIZE = 3")
    made: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), made)
    return made


class Declared(BaseModel):
    """Takes nothing that its source does not declare."""

    model_config = ConfigDict(extra="forbid")


class Input(Declared):
    input: Any
    temperature: float | None = None


class TokenItem(Declared):
    """NeMo Gym's NeMoGymResponseOutputMessageForTraining."""

    id: str
    type: str
    role: str
    status: str
    content: list[dict[str, Any]]
    prompt_token_ids: list[int]
    generation_token_ids: list[int]
    generation_log_probs: list[float]


class Response(Declared):
    id: str
    created_at: float
    model: str
    object: str
    output: list[TokenItem]
    parallel_tool_calls: bool
    tool_choice: str
    tools: list[Any]


class RunRequest(BaseModel):
    responses_create_params: Input


class VerifyResponse(RunRequest):
    response: Response
    reward: float


class Server(BaseModel):
    config: Any


class Output(Declared):
    """verl's AgentLoopOutput."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_logprobs: list[float] | None = None
    reward_score: float | None = None
    num_turns: int = 0
    metrics: Any
    extra_fields: dict[str, Any] = {}


class Status(Enum):
    COMPLETED = "completed"
    TRUNCATED = "truncated"


@dataclass(slots=True)
class Sample:
    """slime's, of which nothing else can be set."""

    Status = Status
    group_index: int | None = None
    prompt: Any = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    reward: Any = None
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    remove_sample: bool = False
    status: Any = None


def _same(**_: Any) -> Callable[[Any], Any]:
    return lambda function: function


PACKAGES: dict[str, dict[str, Any]] = {
    "verl.experimental.agent_loop.agent_loop": {
        "AgentLoopBase": object,
        "AgentLoopMetrics": dict,
        "AgentLoopOutput": Output,
    },
    "slime.rollout.base_types": {
        "RolloutFnTrainOutput": make_dataclass("RolloutFnTrainOutput", ["samples"]),
        "RolloutFnEvalOutput": make_dataclass("RolloutFnEvalOutput", ["data"]),
    },
    "slime.utils.types": {"Sample": Sample},
    "fastapi": {"Body": lambda: None},
    "nemo_gym.base_resources_server": {"BaseRunRequest": RunRequest, "BaseVerifyResponse": VerifyResponse},
    "nemo_gym.base_responses_api_agent": {"BaseResponsesAPIAgentConfig": BaseModel, "SimpleResponsesAPIAgent": Server},
    "nemo_gym.openai_utils": {"NeMoGymResponse": Response},
    "rllm": {"rollout": _same},
    "rllm.types": {"Trajectory": make_dataclass("Trajectory", ["name", "reward"])},
}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put what the sources declare in the place of the packages."""
    for name, names in PACKAGES.items():
        module = ModuleType(name)
        module.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, module)
