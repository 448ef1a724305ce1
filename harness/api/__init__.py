"""The Python API: what `import harness` gives, over the same pipeline as the commands.

This room parses no command line and prints nothing; what runs are made of is for harness.pipeline to know.
"""

from harness.api.archived import AnyRun, Run, list_of_runs, open_archive
from harness.api.best import best_of, for_best
from harness.api.best_answer import Best, best_from
from harness.api.comparing import compare, list_of_comparisons, open_comparison
from harness.api.export import export_run
from harness.api.groups import rank, rollout
from harness.api.merging import merge
from harness.api.message_tournament import (
    RankMessagesSettings,
    TrajectoryRank,
    rank_messages,
    ranked_messages,
)
from harness.api.messages import RulerSettings, TrajectoryScore, ruler
from harness.api.outside import AnyAgent
from harness.api.preloading import preload
from harness.api.runs import RunPlan, import_run, plan, quote, replay, rescore, resume, run, validate
from harness.api.shared_judging import SharedJudging, share_judging
from harness.api.starting_points import check_rubric, loadable_agents, text_of_rubric
from harness.api.twins import (
    best_of_sync,
    compare_sync,
    plan_sync,
    quote_sync,
    rank_messages_sync,
    rank_sync,
    replay_sync,
    rescore_sync,
    resume_sync,
    rollout_sync,
    ruler_sync,
    run_sync,
    validate_sync,
)

__all__ = [
    "AnyAgent",
    "AnyRun",
    "Best",
    "RankMessagesSettings",
    "RulerSettings",
    "Run",
    "RunPlan",
    "SharedJudging",
    "TrajectoryRank",
    "TrajectoryScore",
    "best_from",
    "best_of",
    "best_of_sync",
    "check_rubric",
    "compare",
    "compare_sync",
    "export_run",
    "for_best",
    "import_run",
    "list_of_comparisons",
    "list_of_runs",
    "loadable_agents",
    "merge",
    "open_archive",
    "open_comparison",
    "plan",
    "plan_sync",
    "preload",
    "quote",
    "quote_sync",
    "rank",
    "rank_messages",
    "rank_messages_sync",
    "rank_sync",
    "ranked_messages",
    "replay",
    "replay_sync",
    "rescore",
    "rescore_sync",
    "resume",
    "resume_sync",
    "rollout",
    "rollout_sync",
    "ruler",
    "ruler_sync",
    "run",
    "run_sync",
    "share_judging",
    "text_of_rubric",
    "validate",
    "validate_sync",
]
