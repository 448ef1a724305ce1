"""The pipeline: what a command does, each stage a room of its own. Read harness.pipeline.runs first.

This room parses no command line and prints nothing.
"""

from harness.pipeline.api import best_of, best_rollout, for_best, rank, rescore, resume, rollout
from harness.pipeline.concurrency import for_each
from harness.pipeline.messages import TrajectoryScore, ruler
from harness.pipeline.plan import Prepared, design, prepare
from harness.pipeline.resolve import AgentSpec, JudgeSpec, make_judge, member_keys, resolve_agent, resolve_judge
from harness.pipeline.runs import (
    Quote,
    RunResult,
    import_trajectories,
    quote_rescoring,
    replay_run,
    rescore_run,
    resume_run,
    run_queries,
    validate_run,
    what_is_kept,
)
from harness.pipeline.surroundings import Surroundings
from harness.pipeline.validation import Validation

__all__ = [
    "AgentSpec",
    "JudgeSpec",
    "Prepared",
    "Quote",
    "RunResult",
    "Surroundings",
    "TrajectoryScore",
    "Validation",
    "best_of",
    "best_rollout",
    "design",
    "for_best",
    "for_each",
    "import_trajectories",
    "make_judge",
    "member_keys",
    "prepare",
    "quote_rescoring",
    "rank",
    "replay_run",
    "rescore",
    "rescore_run",
    "resolve_agent",
    "resolve_judge",
    "resume",
    "resume_run",
    "rollout",
    "ruler",
    "run_queries",
    "validate_run",
    "what_is_kept",
]
