"""Agents as tools: a manager asks a researcher for facts and a critic for objections, and writes the text itself.

python -m harness run --agent manager "How did garbage collection reach everyday languages?"

The run's temperatures hold for both helpers too. Their steps are archived inside the step that called them.
"""

from agents import Agent

from harness import AgentEnv
from harness.offline.tool import search_tool
from harness.rollouts.examples import AGENT_MODEL

EXAMPLES = ["How did garbage collection reach everyday languages?"]

RESEARCHER = """\
You gather facts. Search until you have what the question needs, then list what you found, one fact a line, each with
the title it stands under. Add nothing that you did not find, and say plainly what you looked for in vain.
"""
CRITIC = """\
You read a draft for its author. Name at most three things that would mislead or lose a reader: a claim without
support, a gap, a sentence that says nothing. Quote the words you mean. If the draft is sound, say so in one line.
"""
MANAGER = """\
You answer a question with a short, well-built text. Ask the researcher for facts first, in a request that can be
understood on its own. Draft from those facts alone, show the draft to the critic, and repair what it is right about.
Your last message is the finished text, two or three paragraphs, and nothing besides.
"""


def build(env: AgentEnv) -> Agent:
    """Return the manager."""
    model, settings = env.model or AGENT_MODEL, env.model_settings()
    researcher = Agent(
        name="researcher",
        instructions=RESEARCHER,
        model=model,
        model_settings=settings,
        tools=[search_tool(env.corpus)],
    )
    critic = Agent(name="critic", instructions=CRITIC, model=model, model_settings=settings)
    return Agent(
        name="manager",
        instructions=MANAGER,
        model=model,
        model_settings=settings,
        tools=[
            researcher.as_tool("research", "Ask the researcher for facts."),
            critic.as_tool("criticise", "Show the critic a draft."),
        ],
    )
