"""A model at the judge's door that follows a script, and a pairwise judge that asks it."""

from datetime import timedelta
from itertools import count
from typing import Any

import anyio

from harness.archive.store import MemoryStore
from harness.core.rankings import Judged, Unjudged
from harness.core.records import Bill, Usage
from harness.endpoints.costs import Priced
from harness.endpoints.retries import NO_LIMIT, TimeLimit
from harness.judging.judge_model import JudgeModel, ModelReply, Question
from harness.judging.judges import Judge, PairwiseJudge
from harness.judging.prompt import Prompt, Task
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import Averaging, CachedPairJudge, PairJury, VerdictCache
from harness.transcripts.transcript import Transcript
from tests.builders import AT, a_transcript
from tests.judging.replies import WRITING

TASK = Task("q7", "Why is the sky blue?")
ONE, TWO = a_transcript("Because of scattering."), a_transcript("It just is.")


class ScriptedAsk:
    """A model at the door that says its lines, in order."""

    def __init__(self, *lines: str | ModelReply | Exception) -> None:
        self._lines = list(lines)
        self.prompts: list[Prompt] = []

    given_up = None

    async def __call__(self, prompt: Question, clock: TimeLimit = NO_LIMIT) -> ModelReply:
        del clock
        assert isinstance(prompt, Prompt)
        self.prompts.append(prompt)
        line = self._lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return (
            ModelReply(line, Bill(Usage(requests=1, input=100, output=10)), "json_schema", f"raw:{line}")
            if isinstance(line, str)
            else line
        )


def judge(
    ask: Any,
    rubric: Rubric = WRITING,
    pricing: Priced | None = None,
    pair: tuple[Transcript, Transcript] = (ONE, TWO),
    *,
    require_citations: bool = False,
) -> tuple[Judged | Unjudged, MemoryStore]:
    """Ask for one verdict on `pair`; return it with the store that kept the raw replies."""
    store, ticks = MemoryStore(), count()
    model = JudgeModel(
        ask,
        identity="m@host",
        pricing=pricing or Priced("m", None, free=True),
        keep=store.put_blob,
        clock=lambda: AT + timedelta(seconds=next(ticks)),
    )
    pairwise = PairwiseJudge(model, rubric, require_citations=require_citations)
    verdict = anyio.run(pairwise, TASK, *pair)
    assert verdict.key == pairwise.key(TASK, *pair)
    return verdict, store


def a_jury(*judges: Judge, store: MemoryStore | None = None, averaging: Averaging = "mean") -> PairJury:
    """Seat judges who keep their verdicts in one store."""
    cache = VerdictCache(store or MemoryStore())
    return PairJury([CachedPairJudge(judge, cache) for judge in judges], averaging)
