"""An agent with a function tool, an agent as a tool and a handoff, for the archives made against a fake server."""

from agents import Agent, function_tool

EXAMPLES = ["Why do libraries sort books?"]


@function_tool
def search(query: str) -> str:
    """Look up notes on a subject."""
    return f"Two notes on {query}. One says that order saves time. One says that order costs time."


critic = Agent(name="critic", instructions="You name one weakness of a draft.", model="m")
writer = Agent(name="writer", instructions="You write the answer.", handoff_description="Writes well.", model="m")
agent = Agent(
    name="librarian",
    instructions="Search, show the critic a draft, then answer or hand over to the writer.",
    model="m",
    tools=[search, critic.as_tool("criticise", "Show the critic a draft.")],
    handoffs=[writer],
)
