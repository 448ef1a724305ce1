"""One rollout: its path and its answer."""

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.core.records import Group, Step
from harness.report.summary.steps import numbered_steps
from harness.report.text import temperature_words


def path_lines(group: Group, index: int) -> RenderableType:
    """Return one rollout's path and answer, as they were captured."""
    rollout = next(r for r in group.rollouts if r.index == index)
    temperature = temperature_words(rollout.requested.temperature)
    head = f"rollout {index} ({rollout.role}, temperature {temperature}), {rollout.status}"
    parts: list[RenderableType] = [Text(head, style="bold")]
    parts += [_step(number, step) for number, step in numbered_steps(rollout.trajectory.path)]
    if rollout.failure:
        parts.append(Text(f"failed: {rollout.failure.kind}: {rollout.failure.message}", style="red"))
    if rollout.clean_up_error:
        parts.append(Text(f"note: {rollout.clean_up_error}"))
    parts += [Text(f"note: {exception}") for exception in rollout.effective.exceptions]
    if rollout.trajectory.answer:
        parts += [Text("\nAnswer", style="bold"), Text(rollout.trajectory.answer)]
    return Lines(*parts)


def _step(number: str, step: Step) -> Text:
    text = Text(f"\n{number}. {step.kind}" + (f" {step.tool_name}" if step.tool_name else ""), style="bold")
    labelled = {"": step.reasoning, "input: ": step.tool_input, "output: ": step.tool_output, "error: ": step.error}
    for label, value in labelled.items():
        if value:
            text.append(f"\n   {label}{value}".replace("\n", "\n   "), style="not bold")
    return text
