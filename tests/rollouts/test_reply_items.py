"""Hosted tools and reasoning, as the Responses API reports them, become steps in order."""

import base64
from typing import Any

import pytest
from agents import Agent, AsyncComputer, ComputerTool

from harness.rollouts.model_request import split_think
from tests.fake_endpoint import Say, Seen
from tests.rollouts.test_capture import roll_out

pytestmark = pytest.mark.anyio

PICTURE = base64.b64encode(b"x" * 3000).decode()

HOSTED: list[tuple[dict[str, Any], tuple[str, str | None, str | None]]] = [
    (
        {
            "type": "web_search_call",
            "id": "1",
            "status": "completed",
            "action": {"type": "search", "query": "lisp", "sources": [{"type": "url", "url": "http://e/1"}]},
        },
        ("web_search", "lisp", "http://e/1"),
    ),
    (
        {
            "type": "file_search_call",
            "id": "2",
            "status": "completed",
            "queries": ["lisp", "scheme"],
            "results": [{"file_id": "f", "filename": "lisp.txt", "text": "Lisp is old.", "score": 0.9}],
        },
        ("file_search", "scheme", "Lisp is old."),
    ),
    (
        {
            "type": "code_interpreter_call",
            "id": "3",
            "status": "completed",
            "code": "print(6*7)",
            "container_id": "c",
            "outputs": [{"type": "logs", "logs": "42"}],
        },
        ("code_interpreter", "print(6*7)", "42"),
    ),
    (
        {"type": "mcp_call", "id": "4", "name": "add", "server_label": "sums", "arguments": '{"a": 1}', "output": "2"},
        ("add", '{"a": 1}', "2"),
    ),
    (
        {"type": "mcp_call", "id": "5", "name": "add", "server_label": "sums", "arguments": "{}", "error": "no a"},
        ("add", "{}", None),
    ),
    (
        {"type": "image_generation_call", "id": "6", "status": "completed", "result": PICTURE},
        ("image_generation", None, "an image of about 3000 bytes"),
    ),
]


@pytest.mark.parametrize(("item", "expected"), HOSTED, ids=lambda v: v["type"] if isinstance(v, dict) else "")
async def test_a_hosted_call_is_a_step_with_its_input_and_output(
    item: dict[str, Any], expected: tuple[str, str | None, str | None]
):
    (rollout,), _ = await roll_out(Agent(name="a"), lambda _: Say("Done.", items=(item,)), "responses")
    (step,) = rollout.trajectory.path
    name, given, got = expected
    assert (step.kind, step.tool_type, step.tool_name) == ("tool", "hosted", name)
    assert given is None or given in (step.tool_input or "")
    assert got is None or got in (step.tool_output or "")
    assert PICTURE not in (step.tool_output or "")
    assert rollout.trajectory.answer == "Done."


async def test_a_remote_mcp_call_names_its_server_and_its_error():
    item = HOSTED[4][0]
    (rollout,), _ = await roll_out(Agent(name="a"), lambda _: Say("Done.", items=(item,)), "responses")
    (step,) = rollout.trajectory.path
    assert (step.server, step.error) == ("sums", "no a")


class Screen(AsyncComputer):
    """A screen that shows one picture, and breaks when it is clicked."""

    async def screenshot(self) -> str:
        return PICTURE

    async def click(self, x: int, y: int, button: str) -> None:
        raise OSError(f"no screen at {x},{y}")

    async def double_click(self, x: int, y: int) -> None: ...
    async def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None: ...
    async def type(self, text: str) -> None: ...
    async def wait(self) -> None: ...
    async def move(self, x: int, y: int) -> None: ...
    async def keypress(self, keys: list[str]) -> None: ...
    async def drag(self, path: list[tuple[int, int]]) -> None: ...


@pytest.mark.parametrize(
    ("action", "output", "error"),
    [
        ({"type": "screenshot"}, "(image/png of about 3000 bytes)", None),
        ({"type": "click", "x": 7, "y": 9, "button": "left"}, None, "no screen at 7,9"),
    ],
)
async def test_computer_use_is_a_step_with_its_action_and_what_the_screen_did(
    action: dict[str, Any], output: str | None, error: str | None
):
    item = {
        "type": "computer_call",
        "id": "c",
        "call_id": "cc",
        "status": "completed",
        "action": action,
        "pending_safety_checks": [],
    }
    agent = Agent(name="a", tools=[ComputerTool(computer=Screen())])
    (rollout,), _ = await roll_out(
        agent, lambda seen: Say("Done.") if _shown(seen) else Say(items=(item,)), "responses"
    )
    step = rollout.trajectory.path[0]
    assert (step.tool_name, step.tool_output, action["type"] in (step.tool_input or "")) == ("computer", output, True)
    assert (error is None and step.error is None) or (error or "") in (step.error or "")
    assert (rollout.status, rollout.trajectory.answer) == (("failed", "") if error else ("ok", "Done."))


def _shown(seen: Seen) -> bool:
    return any(i.get("type") == "computer_call_output" for i in seen.items)


async def test_reasoning_and_calls_keep_their_order_and_text_before_a_call_is_kept():
    def message(text: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}

    def thought(text: str) -> dict[str, Any]:
        return {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": text}]}

    items = (
        thought("First."),
        message("Let me look."),
        HOSTED[0][0],
        thought("Second."),
        HOSTED[2][0],
        thought("Third."),
    )
    (rollout,), _ = await roll_out(Agent(name="a"), lambda _: Say("Done.", items=items), "responses")
    assert [(s.tool_name, s.reasoning) for s in rollout.trajectory.path] == [
        ("web_search", "First.\nLet me look."),
        ("code_interpreter", "Second."),
        (None, "Third."),
    ]
    assert rollout.trajectory.answer == "Done."


async def test_raw_reasoning_of_open_models_is_read_and_encrypted_reasoning_is_noted():
    raw = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Openly."}]}
    hidden = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAAA"}
    for item, said in ((raw, "Openly."), (hidden, "(reasoning encrypted by the endpoint)")):
        (rollout,), _ = await roll_out(Agent(name="a"), lambda _, i=item: Say("Done.", items=(i,)), "responses")
        assert [s.reasoning for s in rollout.trajectory.path] == [said]


def test_only_a_leading_think_block_is_lifted():
    assert split_think("<think>a</think>b") == ("a", "b")
    assert split_think("\n <think>\na\n</think>\n\nb") == ("a", "b")
    assert split_think("b <think>a</think>") == (None, "b <think>a</think>")
    assert split_think("<think>never closed") == (None, "<think>never closed")
