"""A judge's model that is asked by batch: it gives the replies that are there, and leaves the other questions."""

import json
from collections.abc import Mapping
from typing import Any

from harness.core.settings import Api
from harness.endpoints.retries import NO_LIMIT, Stoppable
from harness.judging.batches.desk import TIER, BatchDesk, form_of, training_queries
from harness.judging.judge import IN_BATCH, UNANSWERED, WITH_PROVIDER, AskFailed, ModelReply, Question
from harness.judging.judge_model import SAMPLING
from harness.judging.request_bodies import FORMS, Form, body_of, path_of, reply_of


class BatchAsk:
    """Asks `model` by batch. Nothing is sent here."""

    given_up: str | None = None

    def __init__(self, desk: BatchDesk, judge: str, model: str, api: Api, extra: Mapping[str, Any]) -> None:
        """Ask as `judge`, the identity in verdicts; `extra` are parameters added to every request."""
        self._desk, self._judge, self._model, self._extra = desk, judge, model, extra
        self._api: Api = api
        self._turns = dict[str, int]()
        self._form: Form
        self._form, self._sampling = _learnt(desk, judge)

    async def __call__(self, prompt: Question, clock: Stoppable = NO_LIMIT) -> ModelReply:
        """Return the reply that a batch brought. Raises AskFailed where there is none yet, or will be none."""
        del clock
        desk, key = self._desk, prompt.key
        turn = self._turns.get(key, 0) if prompt.repair else 0
        question = desk.question(key)
        if turn < len(question.replies) and desk.may_ask(key):
            self._turns[key] = turn + 1
            form, body = desk.reply(key, turn)
            answer = reply_of(body, form, tiered=False)
            return ModelReply(answer.text, answer.usage, form, answer.raw, answer.withheld, TIER)
        if question.under_way:
            raise AskFailed(WITH_PROVIDER)
        if not desk.may_ask(key):
            raise AskFailed(UNANSWERED)
        desk.leave(key, self._line(prompt), self._judge, self._form, tuple(self._sampling))
        raise AskFailed(IN_BATCH)

    def _line(self, prompt: Question) -> bytes:
        body = body_of(self._api, self._model, prompt, self._form, {**self._extra, **self._sampling})
        request = {"custom_id": prompt.key, "method": "POST", "url": f"/v1{path_of(self._api)}", "body": body}
        return json.dumps(request).encode() + b"\n"


def _learnt(desk: BatchDesk, judge: str) -> tuple[Form, Mapping[str, float]]:
    """Return the form and the sampling that the judge's endpoint has not refused yet."""
    at, sampling = 0, dict[str, float](SAMPLING)
    for batch in desk.log.batches.values():
        if batch.made.judge != judge or not training_queries(batch):
            continue
        words = str(desk.log.result(next(iter(batch.results.values()))).error).lower()
        if named := next((name for name in sampling if name in words and name in batch.made.sampling), None):
            del sampling[named]
        else:
            at = min(FORMS.index(form_of(batch)) + 1, len(FORMS) - 1)
    return FORMS[at], sampling
