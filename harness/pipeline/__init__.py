"""The pipeline: what a command does, each stage a room of its own. Read harness.pipeline.runs first.

This room parses no command line and prints nothing.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.pipeline.batches import describe_batches
    from harness.pipeline.comparing.compare import ComparisonResult
    from harness.pipeline.comparing.gating import GateRules, conclude_comparison, foretell_gate
    from harness.pipeline.comparing.new_sides import compare_sides, quote_sides
    from harness.pipeline.comparing.outcome import comparison_of
    from harness.pipeline.comparing.plan import CompareOptions
    from harness.pipeline.comparing.quote import ComparisonQuote
    from harness.pipeline.comparing.resuming import describe_resuming, resume_comparison
    from harness.pipeline.comparing.roll_out_quote import AnySide, RollOutQuote
    from harness.pipeline.comparing.rolling_out import queries_asked, settings_of_side
    from harness.pipeline.comparing.validation import validate_comparison
    from harness.pipeline.concurrency import for_each
    from harness.pipeline.costs import ceiling_of, check_prices, prices_by_name
    from harness.pipeline.cut_short import what_is_kept
    from harness.pipeline.exporting.export import ExportOptions, ExportResult, export_runs
    from harness.pipeline.import_run import import_trajectories
    from harness.pipeline.label_files import answer_labels
    from harness.pipeline.labelling import BlindPair, blind_pairs
    from harness.pipeline.lent_profile import refuse_profile, with_profile
    from harness.pipeline.meeting import with_meeting
    from harness.pipeline.merging.merge import merge_runs
    from harness.pipeline.plan import (
        JudgingPlan,
        NamedAddresses,
        Prepared,
        RescoreOptions,
        changed_settings,
        describe_calls,
        places_of_begun,
        prepare,
    )
    from harness.pipeline.quote import Quote, quote_rescoring
    from harness.pipeline.rank_groups import rank_alone, rank_part
    from harness.pipeline.replaying import replay_run
    from harness.pipeline.resolve import AgentSpec, JudgeSpec, member_keys, redactor_of, resolve_agent, resolve_judge
    from harness.pipeline.rubrics import rubric_of, rubric_of_run
    from harness.pipeline.runs import RunResult, rescore_run, resume_run, run_queries
    from harness.pipeline.stages import open_engine, open_judge, open_judge_models, open_ranker
    from harness.pipeline.surroundings import Surroundings
    from harness.pipeline.trust import agent_of_run
    from harness.pipeline.validation import Validation, validate_run
    from harness.pipeline.waiting import refuse_idle_wait, refuse_idle_wait_for, stay_until_judged
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "comparing.validation": "validate_comparison",
            "comparing.gating": "GateRules foretell_gate conclude_comparison",
            "comparing.compare": "ComparisonResult",
            "comparing.new_sides": "compare_sides quote_sides",
            "comparing.outcome": "comparison_of",
            "comparing.plan": "CompareOptions",
            "comparing.quote": "ComparisonQuote",
            "comparing.resuming": "describe_resuming resume_comparison",
            "comparing.roll_out_quote": "RollOutQuote AnySide",
            "comparing.rolling_out": "queries_asked settings_of_side",
            "label_files": "answer_labels",
            "labelling": "BlindPair blind_pairs",
            "concurrency": "for_each",
            "costs": "ceiling_of check_prices prices_by_name",
            "cut_short": "what_is_kept",
            "exporting.export": "ExportOptions ExportResult export_runs",
            "import_run": "import_trajectories",
            "lent_profile": "refuse_profile with_profile",
            "meeting": "with_meeting",
            "merging.merge": "merge_runs",
            "plan": "JudgingPlan NamedAddresses Prepared RescoreOptions changed_settings describe_calls "
            "places_of_begun prepare",
            "quote": "Quote quote_rescoring",
            "rank_groups": "rank_alone rank_part",
            "replaying": "replay_run",
            "resolve": "AgentSpec JudgeSpec member_keys redactor_of resolve_agent resolve_judge",
            "rubrics": "rubric_of rubric_of_run",
            "runs": "RunResult rescore_run resume_run run_queries",
            "waiting": "refuse_idle_wait refuse_idle_wait_for stay_until_judged",
            "batches": "describe_batches",
            "stages": "open_engine open_judge open_judge_models open_ranker",
            "surroundings": "Surroundings",
            "trust": "agent_of_run",
            "validation": "Validation validate_run",
        },
    )

__all__ = [
    "AgentSpec",
    "AnySide",
    "BlindPair",
    "CompareOptions",
    "ComparisonQuote",
    "ComparisonResult",
    "ExportOptions",
    "ExportResult",
    "GateRules",
    "JudgeSpec",
    "JudgingPlan",
    "NamedAddresses",
    "Prepared",
    "Quote",
    "RescoreOptions",
    "RollOutQuote",
    "RunResult",
    "Surroundings",
    "Validation",
    "agent_of_run",
    "answer_labels",
    "blind_pairs",
    "ceiling_of",
    "changed_settings",
    "check_prices",
    "compare_sides",
    "comparison_of",
    "conclude_comparison",
    "describe_batches",
    "describe_calls",
    "describe_resuming",
    "export_runs",
    "for_each",
    "foretell_gate",
    "import_trajectories",
    "member_keys",
    "merge_runs",
    "open_engine",
    "open_judge",
    "open_judge_models",
    "open_ranker",
    "places_of_begun",
    "prepare",
    "prices_by_name",
    "queries_asked",
    "quote_rescoring",
    "quote_sides",
    "rank_alone",
    "rank_part",
    "redactor_of",
    "refuse_idle_wait",
    "refuse_idle_wait_for",
    "refuse_profile",
    "replay_run",
    "rescore_run",
    "resolve_agent",
    "resolve_judge",
    "resume_comparison",
    "resume_run",
    "rubric_of",
    "rubric_of_run",
    "run_queries",
    "settings_of_side",
    "stay_until_judged",
    "validate_comparison",
    "validate_run",
    "what_is_kept",
    "with_meeting",
    "with_profile",
]
