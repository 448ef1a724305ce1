"""An airline's desk, in the style of examples/customer_service/main.py of openai-agents 0.24.0, as a company runs it.

It knows nothing of rollouts: `answer` is what its web handler calls, `python airline.py` what its people try.
"""

import asyncio
import sys
import uuid
from dataclasses import dataclass, field
from typing import Any

from agents import (
    Agent,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    SQLiteSession,
    Tool,
    function_tool,
    handoff,
    trace,
)
from agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX
from agents.run_config import CallModelData, ModelInputData

### CONTEXT


@dataclass
class Passenger:
    name: str
    flight_number: str | None = None
    seat: str | None = None
    log: list[str] = field(default_factory=list)


context = Passenger("whoever tries the desk")

### TOOLS


@function_tool(name_override="faq_lookup_tool", description_override="Look up frequently asked questions.")
async def faq_lookup_tool(question: str) -> str:
    if "bag" in question.lower():
        return "One bag, under 50 pounds and 22 × 14 × 9 inches."
    return "I'm sorry, I don't know the answer to that question."


@function_tool
async def update_seat(context: RunContextWrapper[Passenger], confirmation_number: str, new_seat: str) -> str:
    """Update the seat for a given confirmation number.

    Args:
        confirmation_number: The confirmation number for the flight.
        new_seat: The new seat to update to.
    """
    assert context.context.flight_number is not None, "Flight number is required"
    context.context.seat = new_seat
    return f"{context.context.name} sits at {new_seat} of {context.context.flight_number} ({confirmation_number})"


### HOOKS


class Log(RunHooks[Passenger]):
    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        context.context.log.append(f"{agent.name}: {tool.name}")

    async def on_handoff(self, context: RunContextWrapper[Passenger], from_agent: Any, to_agent: Any) -> None:
        context.context.log.append(f"{from_agent.name} to {to_agent.name}")


hooks = Log()


async def on_seat_booking(context: RunContextWrapper[Passenger]) -> None:
    context.context.flight_number = "FLT-417"


def last_items(data: CallModelData[Passenger]) -> ModelInputData:
    items, passenger = data.model_data.input, data.context.name if data.context else "nobody"
    said = f"{data.model_data.instructions}\nThe customer is {passenger}."
    return ModelInputData(input=items[-6:], instructions=said)


run_config = RunConfig(
    workflow_name="Airline desk",
    call_model_input_filter=last_items,
    model_settings=ModelSettings(max_tokens=300, metadata={"desk": "web"}),
    tracing_disabled=True,
)

### AGENTS


def seat_instructions(context: RunContextWrapper[Passenger], agent: Agent[Passenger]) -> str:
    flight = context.context.flight_number
    return f"{RECOMMENDED_PROMPT_PREFIX}\nYou are the {agent.name} of flight {flight}. Use the update seat tool."


seat_agent = Agent[Passenger](
    name="Seat Agent",
    handoff_description="Updates a seat on a flight.",
    instructions=seat_instructions,
    tools=[update_seat],
    model="gpt-4.1-mini",
    model_settings=ModelSettings(temperature=0.3, top_p=0.9, parallel_tool_calls=False),
)
triage_agent = Agent[Passenger](
    name="Triage Agent",
    instructions=f"{RECOMMENDED_PROMPT_PREFIX} You are a helpful triaging agent; hand over what others know better.",
    tools=[faq_lookup_tool],
    handoffs=[handoff(agent=seat_agent, on_handoff=on_seat_booking, tool_name_override="transfer_to_seats")],
)

### RUN


async def answer(query: str) -> str:
    passenger, session = Passenger("Ada Lovelace"), SQLiteSession(uuid.uuid4().hex)
    with trace("Customer service", group_id=session.session_id):
        given: Any = {"context": passenger, "session": session, "hooks": hooks, "run_config": run_config}
        asked = await Runner.run(triage_agent, query, max_turns=6, **given)
        confirmed = await Runner.run(asked.last_agent, "Please say that once more, for the file.", **given)
    session.close()
    return f"{confirmed.final_output} [{'; '.join(passenger.log)}; seat {passenger.seat}]"


if __name__ == "__main__":
    print(asyncio.run(answer(sys.argv[1])))  # noqa: T201
