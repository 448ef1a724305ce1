"""The steps of a trajectory as the text that a judge reads."""

from collections.abc import Mapping, Sequence

from harness.core.records import Step
from harness.transcripts.clean_text import clean
from harness.transcripts.cuts import middle_out

Limits = Mapping[str, int]
"""The most characters that a step's field may keep, by the field's name. Fields without a limit stay whole."""


def path_text(steps: Sequence[Step], limits: Limits) -> str:
    """Return the steps as text. Agents are named only where more than one took part."""
    several_agents = len({s.agent for s in steps if s.agent}) > 1
    blocks = [_step_text(i, _shortened(s, limits), name_agent=several_agents) for i, s in enumerate(steps, 1)]
    return clean("\n\n".join(blocks)) or "(no steps)"


def longest_field(steps: Sequence[Step], names: Sequence[str]) -> int:
    """Return the length of the longest text that the steps, and those inside them, hold under `names`."""
    lengths = [len(getattr(step, name) or "") for step in steps for name in names]
    lengths += [longest_field(step.inner, names) for step in steps]
    return max(lengths, default=0)


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
