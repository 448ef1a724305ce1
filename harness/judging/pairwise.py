"""The pairwise judge: one question, at most one repair turn, a verdict or a failure."""

from dataclasses import replace
from functools import partial

from harness.core.records import Failure, canonical_json
from harness.core.verdicts import Judged, Side, SideScores, Unjudged
from harness.judging.flags import Assignment, flags_of
from harness.judging.judge import verdict_key
from harness.judging.judge_model import Exchange, JudgeModel
from harness.judging.prompt import Prompt, Task, make_pair_prompt, prompt_fingerprint
from harness.judging.reply import PairReply, read_reply, winning_side
from harness.judging.rubric import Rubric
from harness.transcripts.transcript import Transcript


class PairwiseJudge:
    """Scores two transcripts by a rubric."""

    def __init__(self, model: JudgeModel, rubric: Rubric) -> None:
        self._model, self._rubric = model, rubric
        self.identity = model.identity
        self.rubric_label = rubric.label
        self._sampling = canonical_json(model.sampling)

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        """Return the verdict's key: of what the judge is shown, so that equal answers are one where only they count."""
        first, second = self._rubric.shown(first), self._rubric.shown(second)
        return verdict_key(
            prompt=prompt_fingerprint(self._rubric),
            identity=self.identity,
            sampling=self._sampling,
            task=task,
            first=first.hash,
            second=second.hash,
        )

    @property
    def given_up(self) -> str | None:
        """Why the judge is asked nothing more; None while it is asked."""
        return self._model.given_up

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Ask, read, ask once more if the reply cannot be used. Raises only what the model raises as Refused.

        The marks are capped after they are read: the judge's claims are held against its own marks, the winner
        follows from those that count.
        """
        first, second = self._rubric.shown(first), self._rubric.shown(second)
        prompt = replace(make_pair_prompt(self._rubric, task, first, second), key=self.key(task, first, second))
        exchange = await self._model.exchange(prompt, partial(read_reply, rubric=self._rubric))
        if isinstance(exchange.result, Failure):
            return self._unjudged(prompt, exchange, exchange.result)
        return self._judged(prompt, exchange, exchange.result)

    def _judged(self, prompt: Prompt, exchange: Exchange[PairReply], reply: PairReply) -> Judged:
        task, first, second = prompt.task, prompt.first, prompt.second
        a, b = self._flagged(task, first, reply.a), self._flagged(task, second, reply.b)
        return Judged(
            key=prompt.key,
            query=task.query_id,
            first=first.hash,
            second=second.hash,
            repeat=task.repeat,
            cut=_cut(first, second),
            rubric=self.rubric_label,
            judge=self.identity,
            form=exchange.form,
            tier=exchange.tier,
            raw_replies=exchange.raw_replies,
            usage=exchange.usage,
            price_usd=exchange.price_usd,
            started_at=exchange.started_at,
            duration_s=exchange.duration_s,
            a=a,
            b=b,
            winner=winning_side(a, b),
            analysis=reply.analysis,
            claims=reply.claims,
            repaired=exchange.repaired,
        )

    def _unjudged(self, prompt: Prompt, exchange: Exchange[PairReply], failure: Failure) -> Unjudged:
        task, first, second = prompt.task, prompt.first, prompt.second
        return Unjudged(
            key=prompt.key,
            query=task.query_id,
            first=first.hash,
            second=second.hash,
            repeat=task.repeat,
            cut=_cut(first, second),
            rubric=self.rubric_label,
            judge=self.identity,
            form=exchange.form,
            tier=exchange.tier,
            raw_replies=exchange.raw_replies,
            usage=exchange.usage,
            price_usd=exchange.price_usd,
            started_at=exchange.started_at,
            duration_s=exchange.duration_s,
            failure=failure,
        )

    def _flagged(self, task: Task, shown: Transcript, scores: SideScores) -> SideScores:
        rubric = self._rubric
        assignment = Assignment(task.query, task.brief or "", rubric.max_words)
        flags = flags_of(assignment, shown, path=bool(rubric.block("path")), answer=bool(rubric.block("answer")))
        return rubric.capped(scores, flags)


def _cut(first: Transcript, second: Transcript) -> tuple[Side, ...]:
    sides: tuple[tuple[Side, Transcript], ...] = (("A", first), ("B", second))
    return tuple(side for side, shown in sides if shown.answer_cut)
