"""The pipeline: what a command does, each stage a room of its own. Read harness.pipeline.runs first.

This room parses no command line and prints nothing.
"""

from harness.pipeline.api import best_of, for_best, rank, rollout, winner_of
from harness.pipeline.concurrency import for_each
from harness.pipeline.messages import TrajectoryScore, ruler
from harness.pipeline.plan import Prepared, design, prepare
from harness.pipeline.resolve import AgentSpec, JudgeSpec, make_judge, member_keys, resolve_agent, resolve_judge
from harness.pipeline.runs import (
    Quote,
    Ran,
    import_trajectories,
    quote,
    replay,
    rescore,
    resume,
    run,
    validate,
    what_is_kept,
)
from harness.pipeline.validation import Checked

__all__ = [
    "AgentSpec",
    "Checked",
    "JudgeSpec",
    "Prepared",
    "Quote",
    "Ran",
    "TrajectoryScore",
    "best_of",
    "design",
    "for_best",
    "for_each",
    "import_trajectories",
    "make_judge",
    "member_keys",
    "prepare",
    "quote",
    "rank",
    "replay",
    "rescore",
    "resolve_agent",
    "resolve_judge",
    "resume",
    "rollout",
    "ruler",
    "run",
    "validate",
    "what_is_kept",
    "winner_of",
]
