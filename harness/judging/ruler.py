"""RULER: a listwise judge that scores several trajectories in one call, each from 0 to 1."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from harness.core.records import Failure, digest
from harness.core.verdicts import Scored, Unscored
from harness.judging.judge_model import Exchange, JudgeModel
from harness.judging.list_prompt import ListRubric, ListTask, list_fingerprint, make_list_prompt
from harness.judging.list_reply import ScoresById, read_scores
from harness.transcripts.transcript import Transcript


class ListJudge(Protocol):
    """Scores transcripts, all different, in the order given. A judge that fails returns Unscored with the cause."""

    @property
    def identity(self) -> str:
        """Who judges, as it stands in every verdict and key."""
        ...

    @property
    def rubric_label(self) -> str:
        """What it judges by, as it stands in every verdict."""
        ...

    def key(self, about: ListTask, transcripts: Sequence[Transcript]) -> str:
        """Return the verdict's key: equal keys mean that the judge would be asked the very same thing."""
        ...

    async def __call__(self, about: ListTask, transcripts: Sequence[Transcript]) -> Scored | Unscored:
        """Judge, and record the cost."""
        ...


class RulerJudge:
    """Scores lists of transcripts by a text rubric; a transcript alone on an absolute scale."""

    def __init__(self, model: JudgeModel, rubric: ListRubric) -> None:
        self._model, self._rubric = model, rubric
        self._fixed = [model.identity, model.sampling]
        self.identity = model.identity
        self.rubric_label = rubric.label

    def key(self, about: ListTask, transcripts: Sequence[Transcript]) -> str:
        """Return the sha256 of all that the verdict depends on, the transcripts' hashes in order among it."""
        task = [about.task.brief, about.task.reference, about.task.query, about.context, about.tools]
        return digest(
            [list_fingerprint(self._rubric), *self._fixed, *map(digest, task), [t.hash for t in transcripts], 0]
        )

    @property
    def given_up(self) -> str | None:
        """Why the judge is asked nothing more; None while it is asked."""
        return self._model.given_up

    async def __call__(self, about: ListTask, transcripts: Sequence[Transcript]) -> Scored | Unscored:
        """Ask, read, ask once more if the reply cannot be used. Raises only what the model raises as Refused."""
        prompt = replace(make_list_prompt(self._rubric, about, transcripts), key=self.key(about, transcripts))
        exchange = await self._model.exchange(prompt, partial(read_scores, ids=prompt.ids))
        if isinstance(exchange.result, Failure):
            return self._unscored(about, transcripts, exchange, exchange.result)
        scores = [exchange.result[id_] for id_ in prompt.ids]
        return Scored(
            key=self.key(about, transcripts),
            query=about.task.query_id,
            transcripts=tuple(t.hash for t in transcripts),
            rubric=self.rubric_label,
            judge=self.identity,
            form=exchange.form,
            tier=exchange.tier,
            raw_replies=exchange.raw_replies,
            usage=exchange.usage,
            price_usd=exchange.price_usd,
            started_at=exchange.started_at,
            duration_s=exchange.duration_s,
            scores=tuple(score for score, _ in scores),
            explanations=tuple(explanation for _, explanation in scores),
            repaired=exchange.repaired,
        )

    def _unscored(
        self, about: ListTask, transcripts: Sequence[Transcript], exchange: Exchange[ScoresById], failure: Failure
    ) -> Unscored:
        return Unscored(
            key=self.key(about, transcripts),
            query=about.task.query_id,
            transcripts=tuple(t.hash for t in transcripts),
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
