"""arena-harness: run an LLM agent many times, find out which runs were really better, keep the evidence.

    run = await harness.run(agent, ["Why is the sky blue?", "Why is it dark at night?"], judge_model="gpt-5.2")
    best = await harness.best_of(agent, "Why is the sky blue?", n=8)

Importing this imports nothing else: the Agents SDK takes over a second, and comes in when it is first needed.
"""

# Not from typing: `python -m harness` comes here first, and the working folder may hold a typing.py of a stranger's.
TYPE_CHECKING = False

__version__: str

if TYPE_CHECKING:
    from typing import Any

    from harness.api import (
        AnyAgent,
        AnyRun,
        Best,
        RankMessagesSettings,
        RulerSettings,
        Run,
        RunPlan,
        TrajectoryRank,
        TrajectoryScore,
        best_of,
        best_of_sync,
        check_rubric,
        import_run,
        loadable_agents,
        plan,
        plan_sync,
        preload,
        quote,
        quote_sync,
        rank,
        rank_messages,
        rank_messages_sync,
        rank_sync,
        replay,
        replay_sync,
        rescore,
        rescore_sync,
        resume,
        resume_sync,
        rollout,
        rollout_sync,
        ruler,
        ruler_sync,
        run,
        run_sync,
        text_of_rubric,
        validate,
        validate_sync,
    )
    from harness.api import list_of_runs as runs
    from harness.api import open_archive as open  # noqa: A004 - people write harness.open, as they write gzip.open
    from harness.archive import (
        Finding,
        MemoryStore,
        RankingFile,
        RankingHead,
        RunInfo,
        RunReader,
        RunStore,
        Store,
        schemas,
    )
    from harness.comparison import compare_scores
    from harness.core.comparisons import Interval, SideResult
    from harness.core.errors import (
        ArchiveDamaged,
        ArchiveLocked,
        CannotWrite,
        HarnessError,
        JudgeFailed,
        NeedsUpgrade,
        NothingRankable,
        OutOfQuota,
        Refused,
        UsageError,
    )
    from harness.core.progress import Progress, Silent
    from harness.core.rankings import GroupRanking, Match, Ranked
    from harness.core.records import Failure, Group, Query, Rollout, Step, Trajectory, Usage
    from harness.core.settings import Settings
    from harness.core.settings_types import CommonSettings, ResumeSettings, RunSettings
    from harness.core.verdicts import Judged, Unjudged
    from harness.doctor import Check, check_judge, check_judge_sync, check_setup, check_setup_sync
    from harness.endpoints import CostBounds
    from harness.formats import Asked
    from harness.judging import Judge, Task, packaged_rubrics
    from harness.pipeline import Quote, Validation
    from harness.ranking import RankedScores, Sampler, rank_many, rank_scores
    from harness.report import RankingChange
    from harness.rollouts import AgentEnv, Divergence, Replayed
    from harness.transcripts import Transcript

__all__ = [
    "AgentEnv",
    "AnyAgent",
    "AnyRun",
    "ArchiveDamaged",
    "ArchiveLocked",
    "Asked",
    "Best",
    "CannotWrite",
    "Check",
    "CommonSettings",
    "CostBounds",
    "Divergence",
    "Failure",
    "Finding",
    "Group",
    "GroupRanking",
    "HarnessError",
    "Interval",
    "Judge",
    "JudgeFailed",
    "Judged",
    "Match",
    "MemoryStore",
    "NeedsUpgrade",
    "NothingRankable",
    "OutOfQuota",
    "Progress",
    "Query",
    "Quote",
    "RankMessagesSettings",
    "Ranked",
    "RankedScores",
    "RankingChange",
    "RankingFile",
    "RankingHead",
    "Refused",
    "Replayed",
    "ResumeSettings",
    "Rollout",
    "RulerSettings",
    "Run",
    "RunInfo",
    "RunPlan",
    "RunReader",
    "RunSettings",
    "RunStore",
    "Sampler",
    "Settings",
    "SideResult",
    "Silent",
    "Step",
    "Store",
    "Task",
    "Trajectory",
    "TrajectoryRank",
    "TrajectoryScore",
    "Transcript",
    "Unjudged",
    "Usage",
    "UsageError",
    "Validation",
    "__version__",
    "best_of",
    "best_of_sync",
    "check_judge",
    "check_judge_sync",
    "check_rubric",
    "check_setup",
    "check_setup_sync",
    "compare_scores",
    "import_run",
    "loadable_agents",
    "open",
    "packaged_rubrics",
    "plan",
    "plan_sync",
    "preload",
    "quote",
    "quote_sync",
    "rank",
    "rank_many",
    "rank_messages",
    "rank_messages_sync",
    "rank_scores",
    "rank_sync",
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
    "runs",
    "schemas",
    "text_of_rubric",
    "validate",
    "validate_sync",
]

_HOMES = {
    "AgentEnv": "harness.rollouts:AgentEnv",
    "AnyAgent": "harness.api:AnyAgent",
    "AnyRun": "harness.api:AnyRun",
    "ArchiveDamaged": "harness.core.errors:ArchiveDamaged",
    "ArchiveLocked": "harness.core.errors:ArchiveLocked",
    "Asked": "harness.formats:Asked",
    "Best": "harness.api:Best",
    "CannotWrite": "harness.core.errors:CannotWrite",
    "Check": "harness.doctor:Check",
    "CommonSettings": "harness.core.settings_types:CommonSettings",
    "CostBounds": "harness.endpoints:CostBounds",
    "Divergence": "harness.rollouts:Divergence",
    "Failure": "harness.core.records:Failure",
    "Finding": "harness.archive:Finding",
    "Group": "harness.core.records:Group",
    "GroupRanking": "harness.core.rankings:GroupRanking",
    "HarnessError": "harness.core.errors:HarnessError",
    "Interval": "harness.core.comparisons:Interval",
    "Judge": "harness.judging:Judge",
    "JudgeFailed": "harness.core.errors:JudgeFailed",
    "Judged": "harness.core.verdicts:Judged",
    "Match": "harness.core.rankings:Match",
    "MemoryStore": "harness.archive:MemoryStore",
    "NeedsUpgrade": "harness.core.errors:NeedsUpgrade",
    "NothingRankable": "harness.core.errors:NothingRankable",
    "OutOfQuota": "harness.core.errors:OutOfQuota",
    "Progress": "harness.core.progress:Progress",
    "Query": "harness.core.records:Query",
    "Quote": "harness.pipeline:Quote",
    "RankMessagesSettings": "harness.api:RankMessagesSettings",
    "Ranked": "harness.core.rankings:Ranked",
    "RankedScores": "harness.ranking:RankedScores",
    "RankingChange": "harness.report:RankingChange",
    "RankingFile": "harness.archive:RankingFile",
    "RankingHead": "harness.archive:RankingHead",
    "Refused": "harness.core.errors:Refused",
    "Replayed": "harness.rollouts:Replayed",
    "ResumeSettings": "harness.core.settings_types:ResumeSettings",
    "Rollout": "harness.core.records:Rollout",
    "Run": "harness.api:Run",
    "RulerSettings": "harness.api:RulerSettings",
    "RunPlan": "harness.api:RunPlan",
    "RunInfo": "harness.archive:RunInfo",
    "RunReader": "harness.archive:RunReader",
    "RunSettings": "harness.core.settings_types:RunSettings",
    "RunStore": "harness.archive:RunStore",
    "Sampler": "harness.ranking:Sampler",
    "Settings": "harness.core.settings:Settings",
    "SideResult": "harness.core.comparisons:SideResult",
    "Silent": "harness.core.progress:Silent",
    "Step": "harness.core.records:Step",
    "Store": "harness.archive:Store",
    "Task": "harness.judging:Task",
    "Trajectory": "harness.core.records:Trajectory",
    "TrajectoryRank": "harness.api:TrajectoryRank",
    "TrajectoryScore": "harness.api:TrajectoryScore",
    "Transcript": "harness.transcripts:Transcript",
    "Unjudged": "harness.core.verdicts:Unjudged",
    "Usage": "harness.core.records:Usage",
    "UsageError": "harness.core.errors:UsageError",
    "Validation": "harness.pipeline:Validation",
    "loadable_agents": "harness.api:loadable_agents",
    "best_of": "harness.api:best_of",
    "best_of_sync": "harness.api:best_of_sync",
    "check_judge": "harness.doctor:check_judge",
    "check_judge_sync": "harness.doctor:check_judge_sync",
    "check_rubric": "harness.api:check_rubric",
    "check_setup": "harness.doctor:check_setup",
    "check_setup_sync": "harness.doctor:check_setup_sync",
    "compare_scores": "harness.comparison:compare_scores",
    "import_run": "harness.api:import_run",
    "open": "harness.api:open_archive",
    "packaged_rubrics": "harness.judging:packaged_rubrics",
    "plan": "harness.api:plan",
    "plan_sync": "harness.api:plan_sync",
    "preload": "harness.api:preload",
    "quote": "harness.api:quote",
    "quote_sync": "harness.api:quote_sync",
    "rank": "harness.api:rank",
    "rank_messages": "harness.api:rank_messages",
    "rank_messages_sync": "harness.api:rank_messages_sync",
    "rank_many": "harness.ranking:rank_many",
    "rank_scores": "harness.ranking:rank_scores",
    "rank_sync": "harness.api:rank_sync",
    "replay": "harness.api:replay",
    "replay_sync": "harness.api:replay_sync",
    "rescore": "harness.api:rescore",
    "rescore_sync": "harness.api:rescore_sync",
    "resume": "harness.api:resume",
    "resume_sync": "harness.api:resume_sync",
    "rollout": "harness.api:rollout",
    "rollout_sync": "harness.api:rollout_sync",
    "ruler": "harness.api:ruler",
    "ruler_sync": "harness.api:ruler_sync",
    "run": "harness.api:run",
    "run_sync": "harness.api:run_sync",
    "runs": "harness.api:list_of_runs",
    "schemas": "harness.archive:schemas",
    "text_of_rubric": "harness.api:text_of_rubric",
    "validate": "harness.api:validate",
    "validate_sync": "harness.api:validate_sync",
}
"""The module that each name is in, and the name that it has there."""


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES and name != "__version__":
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - see above

    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("arena-harness")
    module, _, there = _HOMES[name].partition(":")
    return getattr(importlib.import_module(module), there)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
