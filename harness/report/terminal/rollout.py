"""One rollout: its path and its answer."""

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from harness.core.records import Group, Step
from harness.report.summary.notes import own_models
from harness.report.summary.steps import numbered_steps
from harness.report.terminal.layout import visible_text
from harness.report.text import EMPTY_ANSWER, temperature_words


def path_lines(group: Group, index: int) -> RenderableType:
    """Return one rollout's path and answer, as they were captured."""
    rollout = next(r for r in group.rollouts if r.index == index)
    temperature = temperature_words(rollout.requested.temperature)
    head = f"rollout {index} ({rollout.role}, temperature {temperature}), {rollout.status}"
    parts: list[RenderableType] = [visible_text(head, style="bold")]
    parts += [_step(number, step) for number, step in numbered_steps(rollout.trajectory.path)]
    if rollout.failure:
        parts.append(visible_text(f"failed: {rollout.failure.kind}: {rollout.failure.message}", style="red"))
    parts += [visible_text(f"captured in part: {gap}", style="red") for gap in rollout.capture_gaps]
    if rollout.clean_up_error:
        parts.append(visible_text(f"note: {rollout.clean_up_error}"))
    parts += [visible_text(f"note: {exception}") for exception in rollout.effective.exceptions]
    parts += [visible_text(f"note: {line}") for line in own_models(rollout)]
    answer = rollout.trajectory.answer
    if answer.strip() or rollout.status == "ok":
        parts += [visible_text("\nAnswer", style="bold"), visible_text(answer if answer.strip() else EMPTY_ANSWER)]
    return Lines(*parts)


def _step(number: str, step: Step) -> Text:
    head = f"\n{number}. {step.kind}" + (f" {step.tool_name}" if step.tool_name else "")
    labelled = {"": step.reasoning, "input: ": step.tool_input, "output: ": step.tool_output, "error: ": step.error}
    lines = (f"\n{label}{value}".replace("\n", "\n   ") for label, value in labelled.items() if value)
    return visible_text(head, *((line, "not bold") for line in lines), style="bold")
