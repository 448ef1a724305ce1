"""arena-harness: run an LLM agent many times, find out which runs were really better, keep the evidence.

    run = await harness.run(agent, ["Why is the sky blue?", "Why is it dark at night?"], judge_model="gpt-6.1-terra")
    best = await harness.best_of(agent, "Why is the sky blue?", n=8)

Importing this imports nothing else: the Agents SDK takes over a second, and comes in when it is first needed.
"""

# Not from typing: `python -m harness` comes here first, and the working folder may hold a typing.py of a stranger's.
TYPE_CHECKING = False

__version__: str

if TYPE_CHECKING:
    from typing import Any

    from harness.api.archived import AnyRun, Run
    from harness.api.archived import list_of_runs as runs
    from harness.api.archived import open_archive as open  # noqa: A004 - people write harness.open, as gzip.open
    from harness.api.best_answer import Best
    from harness.api.comparing import compare, compare_sync, open_comparison
    from harness.api.comparing import list_of_comparisons as comparisons
    from harness.api.forks import fork, fork_sync
    from harness.api.improving import improve, improve_sync
    from harness.api.judge_watch import JudgeWatch
    from harness.api.message_tournament import RankMessagesSettings, TrajectoryRank, rank_messages, rank_messages_sync
    from harness.api.messages import RulerSettings, TrajectoryScore, ruler, ruler_sync
    from harness.api.one_group import best_of, best_of_sync, preload, rank, rank_sync, rollout, rollout_sync
    from harness.api.outside import AnyAgent, check_rubric, loadable_agents, text_of_rubric
    from harness.api.policy_groups import PolicyGroups, rollout_groups
    from harness.api.policy_records import GroupRules, PolicyGroup, PolicyRollout, PolicySequence, PolicyTurn
    from harness.api.runs import (
        RunPlan,
        export_run,
        import_run,
        merge,
        plan,
        plan_sync,
        quote,
        quote_sync,
        replay,
        replay_sync,
        rescore,
        rescore_sync,
        resume,
        resume_sync,
        run,
        run_sync,
        validate,
        validate_sync,
    )
    from harness.archive.reader import RunReader
    from harness.archive.result_files import RankingFile
    from harness.archive.run_info import RunInfo
    from harness.archive.schema import schemas
    from harness.archive.store import MemoryStore, RunStore, Store
    from harness.archive.typed_records import RankingHead
    from harness.archive.validation import Finding
    from harness.comparison.side_results import compare_scores
    from harness.core.comparisons import Comparison, Interval, SideResult
    from harness.core.errors import (
        ArchiveDamaged,
        ArchiveLocked,
        CannotWrite,
        CeilingReached,
        HarnessError,
        JudgeFailed,
        NeedsUpgrade,
        NothingRankable,
        OutOfQuota,
        Refused,
        UsageError,
    )
    from harness.core.fork_rules import ForkRules
    from harness.core.improvements import Improvement, ImproveRules
    from harness.core.judge_profile import JudgeProfile
    from harness.core.progress import Progress, Silent
    from harness.core.rankings import GroupRanking, Judged, Match, Ranked, Unjudged
    from harness.core.records import Failure, Group, Query, Rollout, Step, Trajectory, Usage
    from harness.core.settings import Settings
    from harness.core.settings_types import CommonSettings, CompareSettings, ResumeSettings, RunSettings
    from harness.doctor.checks import Check
    from harness.doctor.from_python import check_judge, check_judge_sync, check_planted, check_setup, check_setup_sync
    from harness.endpoints.costs import CostBounds
    from harness.evidence.check import Claim, check_evidence, evidence_reward
    from harness.formats.queries import Asked
    from harness.formats.training.rules import ExportRules
    from harness.judging.judges import Judge
    from harness.judging.prompt import Task
    from harness.judging.rubric import packaged_rubrics
    from harness.pipeline.exporting.export import ExportResult
    from harness.pipeline.rescoring import Quote
    from harness.pipeline.validation import Validation
    from harness.ranking.score_table import RankedScores, rank_many, rank_scores
    from harness.ranking.topologies import Sampler
    from harness.report.summary.rankings import RankingChange
    from harness.report.summary.why_records import PairExplanation
    from harness.rollouts.app_parts import AppAgent
    from harness.rollouts.loading import AgentEnv
    from harness.rollouts.model_request import Divergence
    from harness.rollouts.replay import Replayed
    from harness.transcripts.transcript import Transcript

__all__ = [
    "AgentEnv",
    "AnyAgent",
    "AnyRun",
    "AppAgent",
    "ArchiveDamaged",
    "ArchiveLocked",
    "Asked",
    "Best",
    "CannotWrite",
    "CeilingReached",
    "Check",
    "Claim",
    "CommonSettings",
    "CompareSettings",
    "Comparison",
    "CostBounds",
    "Divergence",
    "ExportResult",
    "ExportRules",
    "Failure",
    "Finding",
    "ForkRules",
    "Group",
    "GroupRanking",
    "GroupRules",
    "HarnessError",
    "ImproveRules",
    "Improvement",
    "Interval",
    "Judge",
    "JudgeFailed",
    "JudgeProfile",
    "JudgeWatch",
    "Judged",
    "Match",
    "MemoryStore",
    "NeedsUpgrade",
    "NothingRankable",
    "OutOfQuota",
    "PairExplanation",
    "PolicyGroup",
    "PolicyGroups",
    "PolicyRollout",
    "PolicySequence",
    "PolicyTurn",
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
    "check_evidence",
    "check_judge",
    "check_judge_sync",
    "check_planted",
    "check_rubric",
    "check_setup",
    "check_setup_sync",
    "compare",
    "compare_scores",
    "compare_sync",
    "comparisons",
    "evidence_reward",
    "export_run",
    "fork",
    "fork_sync",
    "import_run",
    "improve",
    "improve_sync",
    "loadable_agents",
    "merge",
    "open",
    "open_comparison",
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
    "rollout_groups",
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
    "AgentEnv": "harness.rollouts.loading:AgentEnv",
    "AnyAgent": "harness.api.outside:AnyAgent",
    "AnyRun": "harness.api.archived:AnyRun",
    "AppAgent": "harness.rollouts.app_parts:AppAgent",
    "ArchiveDamaged": "harness.core.errors:ArchiveDamaged",
    "ArchiveLocked": "harness.core.errors:ArchiveLocked",
    "Asked": "harness.formats.queries:Asked",
    "Best": "harness.api.best_answer:Best",
    "CannotWrite": "harness.core.errors:CannotWrite",
    "CeilingReached": "harness.core.errors:CeilingReached",
    "Check": "harness.doctor.checks:Check",
    "Claim": "harness.evidence.check:Claim",
    "CommonSettings": "harness.core.settings_types:CommonSettings",
    "CompareSettings": "harness.core.settings_types:CompareSettings",
    "Comparison": "harness.core.comparisons:Comparison",
    "CostBounds": "harness.endpoints.costs:CostBounds",
    "Divergence": "harness.rollouts.model_request:Divergence",
    "ExportResult": "harness.pipeline.exporting.export:ExportResult",
    "ExportRules": "harness.formats.training.rules:ExportRules",
    "Failure": "harness.core.records:Failure",
    "Finding": "harness.archive.validation:Finding",
    "ForkRules": "harness.core.fork_rules:ForkRules",
    "Group": "harness.core.records:Group",
    "GroupRanking": "harness.core.rankings:GroupRanking",
    "GroupRules": "harness.api.policy_records:GroupRules",
    "HarnessError": "harness.core.errors:HarnessError",
    "ImproveRules": "harness.core.improvements:ImproveRules",
    "Improvement": "harness.core.improvements:Improvement",
    "Interval": "harness.core.comparisons:Interval",
    "Judge": "harness.judging.judges:Judge",
    "JudgeFailed": "harness.core.errors:JudgeFailed",
    "JudgeProfile": "harness.core.judge_profile:JudgeProfile",
    "JudgeWatch": "harness.api.judge_watch:JudgeWatch",
    "Judged": "harness.core.rankings:Judged",
    "Match": "harness.core.rankings:Match",
    "MemoryStore": "harness.archive.store:MemoryStore",
    "NeedsUpgrade": "harness.core.errors:NeedsUpgrade",
    "NothingRankable": "harness.core.errors:NothingRankable",
    "OutOfQuota": "harness.core.errors:OutOfQuota",
    "Progress": "harness.core.progress:Progress",
    "Query": "harness.core.records:Query",
    "Quote": "harness.pipeline.rescoring:Quote",
    "RankMessagesSettings": "harness.api.message_tournament:RankMessagesSettings",
    "Ranked": "harness.core.rankings:Ranked",
    "RankedScores": "harness.ranking.score_table:RankedScores",
    "PairExplanation": "harness.report.summary.why_records:PairExplanation",
    "PolicyGroup": "harness.api.policy_records:PolicyGroup",
    "PolicyGroups": "harness.api.policy_groups:PolicyGroups",
    "PolicyRollout": "harness.api.policy_records:PolicyRollout",
    "PolicySequence": "harness.api.policy_records:PolicySequence",
    "PolicyTurn": "harness.api.policy_records:PolicyTurn",
    "RankingChange": "harness.report.summary.rankings:RankingChange",
    "RankingFile": "harness.archive.result_files:RankingFile",
    "RankingHead": "harness.archive.typed_records:RankingHead",
    "Refused": "harness.core.errors:Refused",
    "Replayed": "harness.rollouts.replay:Replayed",
    "ResumeSettings": "harness.core.settings_types:ResumeSettings",
    "Rollout": "harness.core.records:Rollout",
    "Run": "harness.api.archived:Run",
    "RulerSettings": "harness.api.messages:RulerSettings",
    "RunPlan": "harness.api.runs:RunPlan",
    "RunInfo": "harness.archive.run_info:RunInfo",
    "RunReader": "harness.archive.reader:RunReader",
    "RunSettings": "harness.core.settings_types:RunSettings",
    "RunStore": "harness.archive.store:RunStore",
    "Sampler": "harness.ranking.topologies:Sampler",
    "Settings": "harness.core.settings:Settings",
    "SideResult": "harness.core.comparisons:SideResult",
    "Silent": "harness.core.progress:Silent",
    "Step": "harness.core.records:Step",
    "Store": "harness.archive.store:Store",
    "Task": "harness.judging.prompt:Task",
    "Trajectory": "harness.core.records:Trajectory",
    "TrajectoryRank": "harness.api.message_tournament:TrajectoryRank",
    "TrajectoryScore": "harness.api.messages:TrajectoryScore",
    "Transcript": "harness.transcripts.transcript:Transcript",
    "Unjudged": "harness.core.rankings:Unjudged",
    "Usage": "harness.core.records:Usage",
    "UsageError": "harness.core.errors:UsageError",
    "Validation": "harness.pipeline.validation:Validation",
    "loadable_agents": "harness.api.outside:loadable_agents",
    "best_of": "harness.api.one_group:best_of",
    "best_of_sync": "harness.api.one_group:best_of_sync",
    "check_evidence": "harness.evidence.check:check_evidence",
    "check_judge": "harness.doctor.from_python:check_judge",
    "check_judge_sync": "harness.doctor.from_python:check_judge_sync",
    "check_planted": "harness.doctor.from_python:check_planted",
    "check_rubric": "harness.api.outside:check_rubric",
    "check_setup": "harness.doctor.from_python:check_setup",
    "check_setup_sync": "harness.doctor.from_python:check_setup_sync",
    "compare": "harness.api.comparing:compare",
    "compare_scores": "harness.comparison.side_results:compare_scores",
    "compare_sync": "harness.api.comparing:compare_sync",
    "comparisons": "harness.api.comparing:list_of_comparisons",
    "open_comparison": "harness.api.comparing:open_comparison",
    "evidence_reward": "harness.evidence.check:evidence_reward",
    "export_run": "harness.api.runs:export_run",
    "fork": "harness.api.forks:fork",
    "fork_sync": "harness.api.forks:fork_sync",
    "import_run": "harness.api.runs:import_run",
    "improve": "harness.api.improving:improve",
    "improve_sync": "harness.api.improving:improve_sync",
    "merge": "harness.api.runs:merge",
    "open": "harness.api.archived:open_archive",
    "packaged_rubrics": "harness.judging.rubric:packaged_rubrics",
    "plan": "harness.api.runs:plan",
    "plan_sync": "harness.api.runs:plan_sync",
    "preload": "harness.api.one_group:preload",
    "quote": "harness.api.runs:quote",
    "quote_sync": "harness.api.runs:quote_sync",
    "rank": "harness.api.one_group:rank",
    "rank_messages": "harness.api.message_tournament:rank_messages",
    "rank_messages_sync": "harness.api.message_tournament:rank_messages_sync",
    "rank_many": "harness.ranking.score_table:rank_many",
    "rank_scores": "harness.ranking.score_table:rank_scores",
    "rank_sync": "harness.api.one_group:rank_sync",
    "replay": "harness.api.runs:replay",
    "replay_sync": "harness.api.runs:replay_sync",
    "rescore": "harness.api.runs:rescore",
    "rescore_sync": "harness.api.runs:rescore_sync",
    "resume": "harness.api.runs:resume",
    "resume_sync": "harness.api.runs:resume_sync",
    "rollout": "harness.api.one_group:rollout",
    "rollout_groups": "harness.api.policy_groups:rollout_groups",
    "rollout_sync": "harness.api.one_group:rollout_sync",
    "ruler": "harness.api.messages:ruler",
    "ruler_sync": "harness.api.messages:ruler_sync",
    "run": "harness.api.runs:run",
    "run_sync": "harness.api.runs:run_sync",
    "runs": "harness.api.archived:list_of_runs",
    "schemas": "harness.archive.schema:schemas",
    "text_of_rubric": "harness.api.outside:text_of_rubric",
    "validate": "harness.api.runs:validate",
    "validate_sync": "harness.api.runs:validate_sync",
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
