"""Judging: what a judge is, what it is asked, how its reply is read, and how verdicts are bought once.

A judge sees transcripts, never rollouts: no index, role, temperature or model name reaches it. This room must not
know how its verdicts are turned into ranks.
"""

from typing import TYPE_CHECKING

from harness.core.lazy_door import lazy_names

if TYPE_CHECKING:
    from harness.judging.batches.ask import BatchAsk
    from harness.judging.batches.desk import BatchDesk
    from harness.judging.batches.rounds import BatchRounds
    from harness.judging.embedded import EmbeddedAsk
    from harness.judging.endpoint import EndpointAsk
    from harness.judging.judge import Ask, Judge
    from harness.judging.judge_model import JudgeModel, JudgePatience
    from harness.judging.juror import ListLedger, PairJuror, PairLedger
    from harness.judging.jury import Averaging, ListJury, PairJury, all_at_once, average
    from harness.judging.list_prompt import (
        ListRubric,
        ListTask,
        is_packaged_list_rubric,
        load_list_rubric,
        parse_list_rubric,
    )
    from harness.judging.pairwise import PairwiseJudge
    from harness.judging.prompt import Task, fixed_message
    from harness.judging.reply import schema
    from harness.judging.rubric import Rubric
    from harness.judging.rubric_files import load_rubric, packaged_rubrics, parse_rubric, read_rubric, rubric_source
    from harness.judging.ruler import RulerJudge
    from harness.judging.tiers import FLEX_REPLY_S
    from harness.judging.verdict_cache import CachedListJudge, CachedPairJudge, VerdictCache
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "batches.ask": "BatchAsk",
            "batches.desk": "BatchDesk",
            "batches.rounds": "BatchRounds",
            "embedded": "EmbeddedAsk",
            "endpoint": "EndpointAsk",
            "judge": "Ask Judge",
            "judge_model": "JudgeModel JudgePatience",
            "juror": "ListLedger PairJuror PairLedger",
            "jury": "Averaging ListJury PairJury all_at_once average",
            "list_prompt": "ListRubric ListTask is_packaged_list_rubric load_list_rubric parse_list_rubric",
            "pairwise": "PairwiseJudge",
            "prompt": "Task fixed_message",
            "reply": "schema",
            "rubric": "Rubric",
            "rubric_files": "load_rubric packaged_rubrics parse_rubric read_rubric rubric_source",
            "ruler": "RulerJudge",
            "tiers": "FLEX_REPLY_S",
            "verdict_cache": "CachedListJudge CachedPairJudge VerdictCache",
        },
    )

__all__ = [
    "FLEX_REPLY_S",
    "Ask",
    "Averaging",
    "BatchAsk",
    "BatchDesk",
    "BatchRounds",
    "CachedListJudge",
    "CachedPairJudge",
    "EmbeddedAsk",
    "EndpointAsk",
    "Judge",
    "JudgeModel",
    "JudgePatience",
    "ListJury",
    "ListLedger",
    "ListRubric",
    "ListTask",
    "PairJuror",
    "PairJury",
    "PairLedger",
    "PairwiseJudge",
    "Rubric",
    "RulerJudge",
    "Task",
    "VerdictCache",
    "all_at_once",
    "average",
    "fixed_message",
    "is_packaged_list_rubric",
    "load_list_rubric",
    "load_rubric",
    "packaged_rubrics",
    "parse_list_rubric",
    "parse_rubric",
    "read_rubric",
    "rubric_source",
    "schema",
]
