"""Judging: what a judge is, what it is asked, how its reply is read, and how verdicts are bought once.

A judge sees transcripts, never rollouts: no index, role, temperature or model name reaches it. This room must not
know how its verdicts are turned into ranks.
"""

from harness.judging.ask_with_repair import Pricing
from harness.judging.embedded import EmbeddedAsk
from harness.judging.endpoint import EndpointAsk
from harness.judging.judge import Ask, Judge
from harness.judging.jury import Averaging, Jury, ListJury, average
from harness.judging.list_prompt import ListRubric, ListTask, load_list_rubric
from harness.judging.pairwise import PairwiseJudge
from harness.judging.prompt import Task, fixed_message
from harness.judging.reply import schema
from harness.judging.rubric import Rubric, load_rubric, packaged_rubrics, read_rubric, rubric_source
from harness.judging.ruler import RulerJudge
from harness.judging.verdict_cache import Buyer, ListBuyer, Purse

__all__ = [
    "Ask",
    "Averaging",
    "Buyer",
    "EmbeddedAsk",
    "EndpointAsk",
    "Judge",
    "Jury",
    "ListBuyer",
    "ListJury",
    "ListRubric",
    "ListTask",
    "PairwiseJudge",
    "Pricing",
    "Purse",
    "Rubric",
    "RulerJudge",
    "Task",
    "average",
    "fixed_message",
    "load_list_rubric",
    "load_rubric",
    "packaged_rubrics",
    "read_rubric",
    "rubric_source",
    "schema",
]
