"""The agent that the benchmarks of rollouts run: it has one tool, which costs next to nothing."""

from agents import Agent, function_tool


@function_tool
async def look_up(word: str) -> str:
    """Look a word up.

    Args:
        word: The word.
    """
    return f"{word}: " + "a passage of some length about it. " * 20


AGENT = Agent(name="bench", instructions="Look things up, then answer.", tools=[look_up], model="m")
