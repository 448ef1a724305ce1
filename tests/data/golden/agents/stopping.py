"""An agent for the embedded model that ends its own process at its third search, if it is told to."""

import os
import signal
from itertools import count

from agents import Agent, function_tool

EXAMPLES = ["Why is tea hot?"]
numbers = count(1)


@function_tool
def search(query: str) -> str:
    """Look up notes on a subject."""
    if next(numbers) == 3 and os.environ.get("GOLDEN_STOP"):
        os.kill(os.getpid(), signal.SIGTERM)
    return (
        f"A note on {query}: tea is hot because the water boils first. Tea cools while it stands in a cup. "
        "Green tea takes water of eighty degrees. Black tea takes water that boils. Milk makes tea cooler at once."
    )


agent = Agent(name="stopping", instructions="Search, then answer.", model="m", tools=[search])
