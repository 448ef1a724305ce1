"""Functions of an app as the agent: a durable runner, and a web handler called as its server calls it."""

import json

from agents import Agent, Runner, RunState, function_tool
from httpx2 import ASGITransport, AsyncClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Give back what an order cost."""
    return f"{order} is refunded"

clerk = Agent(name="clerk", tools=[refund])
writer = Agent(name="writer", instructions="Tell the customer kindly.")

async def durable(query: str) -> str:
    result = await Runner.run(clerk, query)
    while result.interruptions:
        kept = json.dumps(result.to_state().to_json())  # what is stored until a person decides
        state = await RunState.from_json(clerk, json.loads(kept))
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(clerk, state)
    return (await Runner.run(writer, result.final_output)).final_output

async def handler(request: Request) -> JSONResponse:
    return JSONResponse({"answer": await durable((await request.json())["query"])})

app = Starlette(routes=[Route("/ask", handler, methods=["POST"])])

async def asked(query: str) -> str:
    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://app") as client:
        return (await client.post("/ask", json={"query": query})).json()["answer"]
