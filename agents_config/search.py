"""A research assistant: searches, then sums up what it found for someone who will write a report from it.

python -m harness run --agent search "Why did Lisp machines disappear?"
"""

from agents import Agent, Tool, WebSearchTool

from harness import AgentEnv
from harness.offline.tool import search_tool
from harness.rollouts.examples import AGENT_MODEL

EXAMPLES = ["Write an essay on the evolution of programming languages."]

INSTRUCTIONS = """\
You are a research assistant. Search for material on the subject you are given, then sum up what the search results
say. Your reader will synthesise a report from your summary, so give them the main points and leave out the rest.

Write two to three paragraphs, under 300 words in all. State the facts concisely; full sentences are not required
everywhere, but every claim must come from the results. Deliver the summary alone: no heading, no introduction, no
comment on your search or on the summary.
"""


def build(env: AgentEnv) -> Agent:
    """Return the agent, with hosted web search on the Responses API and a local corpus elsewhere."""
    hosted = env.api == "responses" and not env.offline
    tool: Tool = WebSearchTool() if hosted else search_tool(env.corpus)
    return Agent(
        name="search",
        instructions=INSTRUCTIONS,
        tools=[tool],
        model=env.model or AGENT_MODEL,
        model_settings=env.model_settings(),
    )
