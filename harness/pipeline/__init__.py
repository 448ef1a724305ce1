"""The pipeline: what a command does, each stage a room of its own. Read harness.pipeline.runs first.

This room parses no command line and prints nothing.
"""

from harness.pipeline.api import best_of, best_rollout, for_best, rank, rescore, resume, rollout
from harness.pipeline.concurrency import for_each
from harness.pipeline.cut_short import what_is_kept
from harness.pipeline.import_run import import_trajectories
from harness.pipeline.messages import TrajectoryScore, ruler
from harness.pipeline.plan import NamedAddresses, Prepared, changed_settings, describe_calls, places_of_begun, prepare
from harness.pipeline.quote import Quote, quote_rescoring
from harness.pipeline.resolve import AgentSpec, JudgeSpec, member_keys, resolve_agent, resolve_judge
from harness.pipeline.runs import RunResult, replay_run, rescore_run, resume_run, run_queries
from harness.pipeline.stages import open_judge
from harness.pipeline.surroundings import Surroundings
from harness.pipeline.trust import agent_of_run
from harness.pipeline.validation import Validation, validate_run

__all__ = [
    "AgentSpec",
    "JudgeSpec",
    "NamedAddresses",
    "Prepared",
    "Quote",
    "RunResult",
    "Surroundings",
    "TrajectoryScore",
    "Validation",
    "agent_of_run",
    "best_of",
    "best_rollout",
    "changed_settings",
    "describe_calls",
    "for_best",
    "for_each",
    "import_trajectories",
    "member_keys",
    "open_judge",
    "places_of_begun",
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
