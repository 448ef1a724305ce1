"""Handoffs: a help desk, where a triage agent passes the customer on to billing or to technical support.

python -m harness run --agent triage "My station shows E07 since this morning. What now?"

The embedded model cannot hand over, so with --offline the triage agent only says that it found nothing.
"""

from agents import Agent, function_tool

from harness import AgentEnv
from harness.rollouts.examples import AGENT_MODEL

EXAMPLES = [
    "My weather station shows E07 since this morning. What now?",
    "Why is invoice 2041 higher than the ones before?",
]

INVOICES = {
    "1987": "March, 9.00 EUR: Kestrel Plus. Paid on 2 March.",
    "2041": "April, 21.50 EUR: Kestrel Plus 9.00, replacement rain gauge 12.50. Due on 30 April.",
}
FAULTS = {
    "E03": "Battery low. Two AA cells, lithium below -10 degrees; the log is kept for five minutes without them.",
    "E07": "The wind vane does not report. Most often its plug is wet: dry it, press until it clicks, restart. If E07 "
    "is back within an hour, the vane is replaced under warranty.",
}

DESK = "You work at the help desk of Kestrel, a weather station for the garden with a monthly plan. "


@function_tool
def find_invoice(number: str) -> str:
    """Look up an invoice.

    Args:
        number: The invoice's number.
    """
    return INVOICES.get(number.strip(), f"There is no invoice {number}.")


@function_tool
def find_fault(code: str) -> str:
    """Look up what a fault code on the station's display means, and what helps.

    Args:
        code: The code as displayed, such as E03.
    """
    return FAULTS.get(code.strip().upper(), f"There is no fault code {code}.")


def build(env: AgentEnv) -> Agent:
    """Return the triage agent. The run's temperature and --model hold for the specialists as well."""
    model, settings = env.model or AGENT_MODEL, env.model_settings()
    billing = Agent(
        name="billing",
        handoff_description="Invoices, prices, plans.",
        model=model,
        model_settings=settings,
        instructions=f"{DESK}You answer questions on invoices. Look every invoice up, and name its items.",
        tools=[find_invoice],
    )
    support = Agent(
        name="support",
        handoff_description="Faults, setup, readings.",
        model=model,
        model_settings=settings,
        instructions=f"{DESK}You solve technical problems. Look fault codes up, and give the steps in order.",
        tools=[find_fault],
    )
    return Agent(
        name="triage",
        model=model,
        model_settings=settings,
        handoffs=[billing, support],
        instructions=f"{DESK}You find out who can help, and hand over to that colleague without answering yourself.",
    )
