"""MCP: an assistant that reads and writes a choir's notes, which a local MCP server keeps.

python -m harness run --agent mcp_notes "What is still open before the concert?"

Each rollout starts its own server and stops it at the end, so that no rollout reads what another rollout noted.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from agents import Agent
from agents.mcp import MCPServerStdio

from harness import AgentEnv
from harness.rollouts.examples import AGENT_MODEL

EXAMPLES = ["What is still open before the concert?"]

SERVER = Path(__file__).with_name("_notes_server.py")
INSTRUCTIONS = """\
You keep the notes of a choir that prepares a concert. Search them before you answer, more than once if the first
words find too little. If you are told something new, note it. Answer from the notes alone, and say what they do not
tell.
"""


@asynccontextmanager
async def build(env: AgentEnv) -> AsyncGenerator[Agent]:
    """Yield the agent while its server runs."""
    server = MCPServerStdio(
        # -P: a file in this folder must not hide a module that the server imports.
        {"command": sys.executable, "args": ["-P", str(SERVER)]},
        name="notes",
        client_session_timeout_seconds=60,  # sixteen rollouts start sixteen servers at once
    )
    async with server:
        yield Agent(
            name="mcp_notes",
            instructions=INSTRUCTIONS,
            mcp_servers=[server],
            model=env.model or AGENT_MODEL,
            model_settings=env.model_settings(),
        )
