"""Structured output and guardrails: reads an order out of a message, or refuses to.

python -m harness run --agent extractor --model NAME "Please send 12 crates of Boskoop to Ms Aydin by Friday."

The answer is JSON. An input guardrail stops messages without a number before the model is called; an output
guardrail stops orders with items that the message does not name. This agent needs a real model: the embedded model
writes prose only, so its rollouts fail with `output`.
"""

from agents import Agent, GuardrailFunctionOutput, RunContextWrapper, input_guardrail, output_guardrail
from agents.items import TResponseInputItem
from pydantic import BaseModel, Field

from harness import AgentEnv
from harness.rollouts.examples import AGENT_MODEL

EXAMPLES = ["Please send 12 crates of Boskoop and 3 crates of Conference pears to Ms Aydin by Friday. Thanks, Jo"]

INSTRUCTIONS = """\
You read orders out of messages to a fruit wholesaler. Name each item by the words of the message, give amounts as
numbers, and leave null what the message does not say. Do not guess, and do not add items that are only mentioned.
"""


class Item(BaseModel):
    """One thing ordered."""

    name: str = Field(description="As the message calls it, without amount and unit.")
    amount: int
    unit: str | None


class Order(BaseModel):
    """What a message orders."""

    items: list[Item]
    recipient: str | None
    deliver_by: str | None


@input_guardrail(run_in_parallel=False)
def has_an_amount(
    context: RunContextWrapper, agent: Agent, message: str | list[TResponseInputItem]
) -> GuardrailFunctionOutput:
    """Trip on a message without a number."""
    del context, agent
    return GuardrailFunctionOutput(None, tripwire_triggered=not any(c.isdigit() for c in str(message)))


@output_guardrail
def only_what_was_asked_for(context: RunContextWrapper, agent: Agent, order: Order) -> GuardrailFunctionOutput:
    """Trip on an item that the message does not name."""
    del agent
    message = str(context.turn_input).lower()
    invented = [item.name for item in order.items if item.name.lower() not in message]
    return GuardrailFunctionOutput(invented, tripwire_triggered=bool(invented))


def build(env: AgentEnv) -> Agent:
    """Return the agent."""
    return Agent(
        name="extractor",
        instructions=INSTRUCTIONS,
        output_type=Order,
        model=env.model or AGENT_MODEL,
        model_settings=env.model_settings(),
        input_guardrails=[has_an_amount],
        output_guardrails=[only_what_was_asked_for],
    )
