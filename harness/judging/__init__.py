"""Judging: what a judge is, what it is asked, how its reply is read, and how verdicts are bought once.

A judge sees transcripts, never rollouts: no index, role, temperature or model name reaches it. This room must not
know how its verdicts are turned into ranks.
"""

from harness.judging.buying import Buyer, Purse
from harness.judging.embedded import EmbeddedAsk
from harness.judging.endpoint import EndpointAsk
from harness.judging.judge import Ask, AskFailed, Judge, Reply
from harness.judging.pairwise import PairwiseJudge, Pricing
from harness.judging.prompt import Prompt, Task
from harness.judging.rubric import Rubric, load_rubric, packaged_rubrics

__all__ = [
    "Ask",
    "AskFailed",
    "Buyer",
    "EmbeddedAsk",
    "EndpointAsk",
    "Judge",
    "PairwiseJudge",
    "Pricing",
    "Prompt",
    "Purse",
    "Reply",
    "Rubric",
    "Task",
    "load_rubric",
    "packaged_rubrics",
]
