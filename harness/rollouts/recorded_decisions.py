"""What was decided in a recorded rollout on tool calls that need approval, decided again in its replay."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from agents import ToolApprovalItem

from harness.core.records import Step
from harness.rollouts.approvals import Decision
from harness.rollouts.recording import Recording
from harness.rollouts.request_diff import Divergence


class RecordedDecisions:
    """Decides on each call as the recording says. Tools that it says nothing of keep waiting for approval."""

    def __init__(self, recording: Recording) -> None:
        """Read the steps of the recorded rollout."""
        self._recording = recording
        self._steps = list(_approvals(recording.rollout.trajectory.path))
        self._tools = {step.tool_name for step in self._steps}
        self._asked = Counter[tuple[str | None, str | None]]()

    def covers(self, tool: str) -> bool:
        """Return whether any call of the tool was decided on."""
        return tool in self._tools

    async def decide(self, item: ToolApprovalItem, context: Any) -> Decision:
        """Return the recorded decision on a call. Raises Diverged where there was none."""
        del context
        call = (item.call_id, item.name)
        decisions = [step.tool_output for step in self._steps if (step.call_id, step.tool_name) == call]
        if self._asked[call] >= len(decisions):
            detail = "the call needs approval now, and the recording holds no decision on it"
            raise self._recording.diverge(Divergence(what="ended otherwise", tool=item.name, detail=detail))
        self._asked[call] += 1  # ids of calls may repeat in a rollout
        return Decision.from_words(decisions[self._asked[call] - 1] or "")


def _approvals(path: Sequence[Step]) -> Iterator[Step]:
    for step in path:
        if step.kind == "approval":
            yield step
        yield from _approvals(step.inner)
