"""Where a rollout was taken up from another one: the record of a branch."""

from operator import not_
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(frozen=True, extra="ignore", defer_build=True)


def _is_none(value: Any) -> bool:
    return value is None


class Edit(BaseModel):
    """What a person changed of a rollout's step before the rollout was taken up again: one of the two texts."""

    model_config = _CONFIG

    output: str | None = Field(default=None, exclude_if=_is_none)
    """In place of what a tool gave."""
    call_id: str | None = Field(default=None, exclude_if=_is_none)
    """The tool call whose output that is."""
    message: str | None = Field(default=None, exclude_if=_is_none)
    """In place of what the model said."""


class BranchPoint(BaseModel):
    """Where a rollout was taken up again: its first calls are those of another rollout, and were not bought."""

    model_config = _CONFIG

    run: str
    rollout: int
    """The index of that rollout: its record is in the branch's own run, too."""
    call: int = Field(ge=0)
    """How many of that rollout's model calls were given again; 0: a fresh rollout."""
    prefix: str
    """Hash of these calls, their requests and replies."""
    live_tools: bool = Field(default=False, exclude_if=not_)
    """Whether the tools of these calls ran again; else they gave what they had given."""
    restored: bool = Field(default=False, exclude_if=not_)
    """Whether the agent's file put the state outside back (`restore`) from what it had kept of it (`snapshot`)."""
    sandboxes: bool = Field(default=False, exclude_if=not_)
    """Whether its sandboxes began with the files that the rollout's held there."""
    edit: Edit | None = Field(default=None, exclude_if=_is_none)
    """What a person changed of the last of these calls."""

    @property
    def role(self) -> str:
        """What stands for a role in tables."""
        return f"branch of {self.rollout}{', edited' if self.edit else ''}"

    @property
    def words(self) -> str:
        """What people read of it."""
        edited = f", with another {'message' if self.edit.output is None else 'output'} there" if self.edit else ""
        return f"a branch of rollout {self.rollout} after model call {self.call}{edited}"
