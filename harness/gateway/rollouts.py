"""A session as a rollout of its group."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from harness.archive.store import RunStore, Store
from harness.core.records import GATEWAY, Failure, Query, Rollout, Sampling, Trajectory
from harness.endpoints.refused_settings import seed_in
from harness.endpoints.reply_body import as_object
from harness.endpoints.retries import read_failure
from harness.formats.queries import items_text, query_from
from harness.gateway.calls import OF_UPSTREAM
from harness.gateway.sessions import Closing, Session
from harness.rollouts.approval_gate import ToolHooks
from harness.rollouts.model_calls import PackedCalls, Pricing, total_calls
from harness.rollouts.model_request import input_items, split_think
from harness.rollouts.recorder import not_whole
from harness.rollouts.steps import read_steps, witnessed_calls


@dataclass
class RolloutKeeper:
    """Keeps sessions as rollouts, numbered within their groups."""

    store: RunStore
    pricing: Pricing
    clock: Callable[[], datetime]
    note: Callable[[str], None]
    next_index: dict[str, int] = field(default_factory=dict[str, int])
    """By query: one more than the largest index of a rollout."""

    async def keep(self, session: Session, closing: Closing | None) -> Rollout:
        """Keep a session, on disk when this returns; without `closing` nobody answered. Raises UsageError: the query.

        Sessions with one `group`, else those with one query text, are rollouts of one query.
        """
        if closing:
            query = query_from(closing.query, id=closing.group)
        else:  # what the first call asked: the user's first message, as far as it says anything
            items = input_items(session.calls[0].request)
            asked = next((i for i in items if isinstance(i, str) or as_object(i).get("role") == "user"), "")
            text = asked if isinstance(asked, str) else items_text([asked])
            query = query_from(text if text.strip() else f"(session {session.name} told no query)")
        index = self.next_index.get(query.id, 0)
        rollout = self.make(session, query, index, closing, self.store)
        self.next_index[query.id] = index + 1
        self.store.add_query(query)
        kept = self.store.add_rollout(rollout)
        await self.store.commit()
        return kept

    def make(self, session: Session, query: Query, index: int, closing: Closing | None, texts: Store) -> Rollout:
        """Return the record of a session, whose texts are in `texts` then."""
        replies = witnessed_calls((), session.calls)
        answer = closing.answer if closing else None
        text = answer if isinstance(answer, str) else "" if answer is None else json.dumps(answer, ensure_ascii=False)
        lifted, rest = split_think(text)
        first = session.calls[0]
        sampling = first.settings
        calls = total_calls((), replies, ToolHooks(), sampling.temperature, self.pricing)
        said = [item.text for item in replies[-1].items() if item.text]
        raw_calls, tokens = PackedCalls(texts).keep_all(calls, self.note)
        failure = _failure(session, closing)
        return Rollout(
            run=self.store.reader.info.id,
            query=query.id,
            index=index,
            role="sample",
            origin=GATEWAY,
            origin_id=session.name,
            requested=Sampling(
                temperature=sampling.temperature, top_p=sampling.top_p, seed=seed_in(sampling), model=first.model
            ),
            effective=calls.effective,
            calls=calls.calls,
            raw_calls=raw_calls,
            sampled_tokens=tokens,
            status="failed" if failure else "ok",
            failure=failure,
            capture="partial" if session.gaps else "full",
            capture_gaps=tuple(session.gaps),
            trajectory=Trajectory(
                query=query.text,
                path=read_steps((), replies, ToolHooks(), finished=any(t.strip() == rest.strip() for t in said)),
                answer=rest if lifted else text,
                answer_type="text" if isinstance(answer, str | None) else "json",
            ),
            usage=calls.usage,
            **calls.cost.named("price_usd"),
            retries=calls.retries,
            started_at=session.began,
            duration_s=(self.clock() - session.began).total_seconds(),
            instructions=first.request.get("instructions"),
            tool_names=tuple(tool["name"] for tool in first.request["tools"]),
            given_reward=closing.reward if closing else None,
        )


def _failure(session: Session, closing: Closing | None) -> Failure | None:
    turn, error = sum(call.response is not None for call in session.calls), session.calls[-1].error
    if isinstance(error, OF_UPSTREAM) and (closing is None or closing.answer in (None, "")):
        return read_failure(error).model_copy(update={"turn": turn})
    if closing is None:
        message = "the gateway was ended before the session was closed with an answer"
        return Failure(kind="cancelled", type="NotClosed", message=message, turn=turn)
    if closing.answer is None:
        return Failure(kind="output", type="NoAnswer", message="the session was closed without an answer", turn=turn)
    cut = not_whole(session.calls)
    return cut and cut.model_copy(update={"turn": turn})
