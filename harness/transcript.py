"""Trajectory to transcript: the Path and Answer texts that a judge reads.

Pure. A transcript holds nothing that tells rollouts apart but what they did: no id, call id, time, duration,
model name or role, so that equal behaviour gives equal text and an equal hash.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

from harness.records import Step, Trajectory

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Transcript:
    """Path and answer as text, and the sha256 of both."""

    path: str
    answer: str

    @cached_property
    def hash(self) -> str:
        """The sha256 (hex) of path and answer, each preceded by its length, so that no text can pose as the other."""
        whole = f"{len(self.path)}\n{self.path}\n{len(self.answer)}\n{self.answer}"
        return hashlib.sha256(whole.encode()).hexdigest()


def valid_unicode(text: str) -> str:
    """Return `text` with U+FFFD for lone surrogates, which no UTF-8 can hold."""
    return _LONE.sub("\ufffd", text)


def clean(text: str) -> str:
    """Return `text` as valid Unicode on plain lines: lone surrogates become U+FFFD, control characters go."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", valid_unicode(text))


def transcribe(trajectory: Trajectory) -> Transcript:
    """Render a trajectory. Agents are named only where more than one took part."""
    named = len({s.agent for s in trajectory.path if s.agent}) > 1
    steps = [_step(i, step, named=named) for i, step in enumerate(trajectory.path, 1)]
    return Transcript(path=clean("\n\n".join(steps)) or "(no steps)", answer=clean(trajectory.answer).strip())


def _step(number: int, step: Step, *, named: bool) -> str:
    agent = f" by {step.agent}" if named and step.agent else ""
    lines = [f"Step {number} ({step.kind}{agent})"]
    if step.reasoning:
        lines.append(f"Reasoning: {step.reasoning.strip()}")
    if step.tool_name:
        kind = {"hosted": " (hosted)", "mcp": f" (MCP server {step.server})"}.get(step.tool_type or "", "")
        lines.append(f"Tool: {step.tool_name}{kind}")
    if step.tool_input is not None:
        lines.append(f"Input: {step.tool_input.strip()}")
    for at, inner in enumerate(step.inner, 1):
        lines += ["  " + line for line in _step(at, inner, named=True).split("\n")]
    if step.tool_output is not None:
        lines.append(f"Output:\n{step.tool_output.strip()}")
    if step.error:
        lines.append(f"Error: {step.error.strip()}")
    return "\n".join(lines)
