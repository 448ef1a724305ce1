"""An agent with a structured answer, a guardrail and a reward, for a run whose judge breaks ties only."""

from agents import Agent, GuardrailFunctionOutput, RunContextWrapper, output_guardrail
from pydantic import BaseModel

from harness import Query, Rollout

EXAMPLES = ["Which city has a million people?"]


class City(BaseModel):
    """A city."""

    name: str
    people: int


@output_guardrail
def inhabited(context: RunContextWrapper, agent: Agent, city: City) -> GuardrailFunctionOutput:
    """Trip on a city without people."""
    del context, agent
    return GuardrailFunctionOutput(city.people, tripwire_triggered=city.people == 0)


agent = Agent(name="city", instructions="You name a city.", model="m", output_type=City, output_guardrails=[inhabited])


def reward(rollout: Rollout, query: Query) -> float:
    """Give a point to a big city."""
    del query
    return float(City.model_validate_json(str(rollout.trajectory.answer)).people >= 1_000_000)


def redact(text: str) -> str:
    """Take the secret out."""
    return text.replace("hush", "[secret]")
