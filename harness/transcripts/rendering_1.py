"""How a path was written up to version 0.1.0, kept so that old rankings can be shown, checked and completed.

A text of several lines stands at the margin here, so a tool's output can pose as a step.
"""

from collections.abc import Sequence

from harness.core.records import Step
from harness.transcripts.clean_text import clean
from harness.transcripts.cuts import middle_out
from harness.transcripts.path_text import Limits


def clean_answer(answer: str) -> str:
    """Return the answer as it stood in a transcript."""
    return clean(answer).strip()


def bare_path(steps: Sequence[Step], limits: Limits) -> str:
    """Return the steps as text. Agents are named only where more than one took part."""
    several_agents = len({s.agent for s in steps if s.agent}) > 1
    blocks = [_step_text(i, _shortened(s, limits), name_agent=several_agents) for i, s in enumerate(steps, 1)]
    return clean("\n\n".join(blocks)) or "(no steps)"


def _shortened(step: Step, limits: Limits) -> Step:
    if not limits:
        return step
    texts = {name: getattr(step, name) for name in limits}
    shorter = {name: middle_out(clean(text), limits[name]) for name, text in texts.items() if text}
    inner = tuple(_shortened(s, limits) for s in step.inner)
    return step.model_copy(update={**shorter, "inner": inner})


def _step_text(number: int, step: Step, *, name_agent: bool) -> str:
    agent = f" by {step.agent}" if name_agent and step.agent else ""
    lines = [f"Step {number} ({step.kind}{agent})"]
    if step.reasoning:
        lines.append(f"Reasoning: {step.reasoning.strip()}")
    if step.tool_name:
        kind = {"hosted": " (hosted)", "mcp": f" (MCP server {step.server})"}.get(step.tool_type or "", "")
        lines.append(f"Tool: {step.tool_name}{kind}")
    if step.tool_input is not None:
        lines.append(f"Input: {step.tool_input.strip()}")
    for at, inner in enumerate(step.inner, 1):
        lines += ["  " + line for line in _step_text(at, inner, name_agent=True).split("\n")]
    if step.tool_output is not None:
        lines.append(f"Output:\n{step.tool_output.strip()}")
    if step.error:
        lines.append(f"Error: {step.error.strip()}")
    return "\n".join(lines)
