"""The judges of pairs and of lists of transcripts, the embedded one too; verdict records are all built here."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Generic, Protocol, TypeVar

from harness.core.rankings import AnyVerdict, Citation, Judged, Scored, Unjudged, Unscored
from harness.core.records import Bill, Failure, Usage, canonical_json, digest
from harness.endpoints.retries import NO_LIMIT, TimeLimit
from harness.judging.citations import citable, opening_words, read_citations, uncited
from harness.judging.flags import Assignment, transcript_flags
from harness.judging.judge_model import Exchange, JudgeModel, ModelReply, Question
from harness.judging.prompt import (
    ListPrompt,
    ListTask,
    Task,
    list_fingerprint,
    make_list_prompt,
    make_pair_prompt,
    prompt_fingerprint,
)
from harness.judging.reply import PairReply, ReplyError, read_reply, read_scores, remark_names, winning_side
from harness.judging.rubric import ListRubric, Rubric
from harness.offline.judge import judge_list, judge_pair
from harness.transcripts.transcript import Transcript

LOOKED_AT = "looked at"
"""Under this name a verdict's analysis says what an agent did before it gave the verdict."""
_NEVER = datetime.fromtimestamp(0, UTC)
_Record = TypeVar("_Record", bound=AnyVerdict)
_RubricT = TypeVar("_RubricT", Rubric, ListRubric)


class NamedJudge(Protocol):
    """Who judges, and by what."""

    @property
    def identity(self) -> str:
        """Who judges, as it stands in every verdict and key."""
        ...

    @property
    def rubric_label(self) -> str:
        """What it judges by, as it stands in every verdict."""
        ...


class Judge(NamedJudge, Protocol):
    """Gives a verdict on two transcripts, `first` shown as A. A judge that fails returns Unjudged with the cause."""

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        """Return the verdict's key: equal keys mean that the judge would be asked the very same thing."""
        ...

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Judge, and record the cost."""
        ...


def verdict_record(
    kind: type[_Record],
    judge: NamedJudge,
    key: str,
    task: Task,
    shown: Sequence[Transcript],
    exchange: Exchange[Any] | None = None,
    **result: Any,
) -> _Record:
    """Return the record of a verdict on transcripts, in the order shown; without an `exchange` nothing was paid."""
    if issubclass(kind, Judged | Unjudged):
        cut = tuple(side for side, transcript in zip("AB", shown, strict=True) if transcript.answer_cut)
        result |= {"first": shown[0].hash, "second": shown[1].hash, "cut": cut}
    else:
        result |= {"transcripts": tuple(transcript.hash for transcript in shown)}
    return kind(
        key=key,
        query=task.query_id,
        repeat=task.repeat,
        rubric=judge.rubric_label,
        judge=judge.identity,
        **(exchange.record if exchange else {"started_at": _NEVER, "duration_s": 0.0}),
        **result,
    )


class _ModelJudge(Generic[_RubricT]):
    """Asks a model by a rubric."""

    def __init__(self, model: JudgeModel, rubric: _RubricT) -> None:
        self._model, self._rubric = model, rubric
        self.identity, self.rubric_label = model.identity, rubric.label
        self._sampling = canonical_json(model.sampling)

    @property
    def given_up(self) -> str | None:
        """Why the judge is asked nothing more; None while it is asked."""
        return self._model.given_up


class PairwiseJudge(_ModelJudge[Rubric]):
    """Scores two transcripts by a rubric."""

    def __init__(self, model: JudgeModel, rubric: Rubric, *, require_citations: bool = False) -> None:
        """Seat a model; with `require_citations` a verdict fails whose remarks do not all cite what stands there."""
        cited = {"require_citations": True} if require_citations else None
        super().__init__(model, rubric.model_copy(update=cited) if cited else rubric)

    def key(self, task: Task, first: Transcript, second: Transcript) -> str:
        """Return the verdict's key: of what the judge is shown, so that equal answers are one where only they count."""
        first, second = self._shown(first), self._shown(second)
        prompt = prompt_fingerprint(self._rubric)
        return verdict_key(prompt, self.identity, self._sampling, task, first.hash, second.hash)

    def _shown(self, transcript: Transcript) -> Transcript:
        shown = self._rubric.shown(transcript)
        return shown if shown.record is None or self._model.reads_records else replace(shown, record=None)

    async def __call__(self, task: Task, first: Transcript, second: Transcript) -> Judged | Unjudged:
        """Ask, read, ask once more if the reply cannot be used. Raises only what the model raises as Refused."""
        key, shown = self.key(task, first, second), (self._shown(first), self._shown(second))
        prompt = replace(make_pair_prompt(self._rubric, task, *shown), key=key)
        exchange = await self._model.exchange(prompt, partial(self._read, shown=shown))
        if isinstance(exchange.result, Failure):
            return verdict_record(Unjudged, self, key, task, shown, exchange, failure=exchange.result)
        reply, citations = exchange.result
        rubric = self._rubric
        assignment = Assignment(task.query, task.brief or "", rubric.max_words, rubric.evidence)
        blocks = {name: bool(rubric.block(name)) for name in ("path", "answer")}
        a, b = (  # capped after they are read: the judge's claims are held against its own marks
            rubric.capped(scores, transcript_flags(assignment, side, **blocks))
            for side, scores in zip(shown, (reply.a, reply.b), strict=True)
        )
        looked_at = exchange.replies[-1].looked_at
        analysis = {**reply.analysis, **({LOOKED_AT: looked_at} if looked_at else {})}
        marks = {"a": a, "b": b, "winner": winning_side(a, b), "analysis": analysis, "claims": reply.claims}
        marks |= {"citations": citations, "repaired": exchange.repaired}
        return verdict_record(Judged, self, key, task, shown, exchange, **marks)

    def _read(self, text: str, shown: tuple[Transcript, Transcript]) -> tuple[PairReply, tuple[Citation, ...]]:
        """Read a reply and what it cites. Raises ReplyError, also where citations are required and not there."""
        reply = read_reply(text, self._rubric)
        citations = read_citations(reply.citations, *shown)
        if self._rubric.require_citations:
            asked = citable(remark_names(self._rubric), *shown)
            if missing := [name for name in asked if name not in reply.analysis]:
                raise ReplyError(f"analysis.{missing[0]} is missing.")
            if bare := uncited({name: reply.analysis[name] or name for name in asked}, citations):
                raise ReplyError(
                    f"no citation of {', '.join(bare)} stands where it points to: copy the words of the step or answer."
                )
        return reply, citations


def verdict_key(prompt: str, identity: str, sampling: str, task: Task, first: str, second: str) -> str:
    """Return what `digest` makes of all that a verdict depends on; `sampling` holds the options as canonical JSON."""
    head = _key_head(prompt, identity, sampling, task.brief, task.reference, task.query)
    return hashlib.sha256(f'{head},"{first}","{second}",{task.repeat}]'.encode()).hexdigest()


@lru_cache(maxsize=64)  # the same for all pairs of a query
def _key_head(prompt: str, identity: str, sampling: str, *texts: str | None) -> str:
    return f"{canonical_json([prompt, identity])[:-1]},{sampling},{canonical_json([*map(digest, texts)])[1:-1]}"


class RulerJudge(_ModelJudge[ListRubric]):
    """RULER: scores lists of transcripts from 0 to 1 by a text rubric; a transcript alone on an absolute scale."""

    def key(self, about: ListTask, transcripts: Sequence[Transcript]) -> str:
        """Return the sha256 of all that the verdict depends on, the transcripts' hashes in order among it."""
        task = [about.task.brief, about.task.reference, about.task.query, about.context, about.tools]
        asked = [list_fingerprint(self._rubric), self._model.identity, self._model.sampling]
        return digest([*asked, *map(digest, task), [t.hash for t in transcripts], 0])

    async def __call__(self, about: ListTask, transcripts: Sequence[Transcript]) -> Scored | Unscored:
        """Ask, read, ask once more if the reply cannot be used. Raises only what the model raises as Refused."""
        key = self.key(about, transcripts)
        prompt = replace(make_list_prompt(self._rubric, about, transcripts), key=key)
        exchange = await self._model.exchange(prompt, partial(read_scores, ids=prompt.ids))
        if isinstance(exchange.result, Failure):
            return verdict_record(Unscored, self, key, about.task, transcripts, exchange, failure=exchange.result)
        scores, explanations = zip(*(exchange.result[id_] for id_ in prompt.ids), strict=True)
        said = {"scores": scores, "explanations": explanations, "repaired": exchange.repaired}
        return verdict_record(Scored, self, key, about.task, transcripts, exchange, **said)


class EmbeddedAsk:
    """Answers by measured features (harness.offline); calls no one and costs nothing."""

    given_up = None

    async def __call__(self, prompt: Question, clock: TimeLimit = NO_LIMIT) -> ModelReply:
        """Return the reply."""
        del clock  # it never waits
        if isinstance(prompt, ListPrompt):
            task = prompt.about.task
            text = judge_list(task.query, task.brief, prompt.shown)
        else:
            task = prompt.task
            path, answer = ([d.key for d in prompt.rubric.block(name)] for name in ("path", "answer"))
            text = judge_pair(task.query, task.brief, prompt.first, prompt.second, path=path, answer=answer)
            if prompt.rubric.require_citations:
                cited = opening_words(remark_names(prompt.rubric), prompt.first, prompt.second)
                text = json.dumps(json.loads(text) | {"citations": cited})
        return ModelReply(text, Bill(Usage(requests=1)), "text", text)
