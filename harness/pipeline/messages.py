"""RULER on plain chat messages: `await harness.ruler(message_lists, judge_model=...)`, no agent and no archive."""

import json
import random
import sys
import warnings
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, cast

from harness.archive import MemoryStore
from harness.core.clock import now
from harness.core.errors import JudgeFailed, UsageError
from harness.core.records import Record
from harness.core.settings import Settings
from harness.core.settings_sources import environment, load
from harness.core.verdicts import Scored
from harness.judging import ListBuyer, ListJury, ListRubric, ListTask, Purse, RulerJudge, Task, load_list_rubric
from harness.pipeline.resolve import make_ask, member_keys, resolve_judge
from harness.tournament import LIST_BUDGET, Listed, clipped, scale_notes, score_list
from harness.transcripts import Transcript, clean

Message = Mapping[str, Any]
Trajectory = Sequence[Message] | Mapping[str, Any]
"""Chat messages; or an object with `messages` and, where there is one, a `reward`."""


class TrajectoryScore(Record):
    """What the judge makes of one trajectory: a score from 0 to 1 and why, beside the reward that came with it."""

    score: float
    explanation: str = ""
    independent_reward: float | None = None


async def ruler(
    message_lists: Sequence[Trajectory],
    judge_model: str | Sequence[str] | None = None,
    *,
    base_url: str | Sequence[str] | None = None,
    api: Literal["responses", "chat"] | None = None,
    rubric: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    extra_request: Mapping[str, Any] | None = None,
    jury: Literal["mean", "median"] = "mean",
    debug: bool = False,
    swallow_exceptions: bool = False,
    rng: int | random.Random = 0,
    budget: int = LIST_BUDGET,
    timeout: float = 120.0,  # noqa: ASYNC109 - of one call, retries included, as --judge-timeout
) -> list[TrajectoryScore] | None:
    """Score trajectories of one task against each other, 0 to 1, in their order; they are not changed.

    `rubric` is a text in plain words (default: our own). Messages that all begin with are shown once, and so are
    `tools`; equal trajectories too, and they share their score. One alone, or all the same, are scored on an absolute
    scale, with a warning. `budget` is in characters; more goes into several calls that share the first trajectory
    (harness.tournament.listwise says how they come to one scale). `extra_request` goes into every request's body.
    `debug` writes the judge's raw replies to stderr.

    Raises UsageError for what cannot be used and JudgeFailed without a verdict; with `swallow_exceptions` it warns and
    returns None instead.
    """
    try:
        settings = load(
            {
                "judge": "ruler",
                "judge_model": judge_model,
                "judge_base_url": base_url,
                "judge_api": api,
                "jury": jury,
                "judge_timeout": timeout,
            }
        )
        goes_by = load_list_rubric(None) if rubric is None else ListRubric("own", rubric.strip())
        store, given = MemoryStore(), [_parted(one, number) for number, one in enumerate(message_lists)]
        if not given:
            return []
        draws = rng if isinstance(rng, random.Random) else random.Random(rng)
        chats = [messages for messages, _ in given]
        found, shown = await _judged(chats, goes_by, tools or (), settings, extra_request or {}, store, draws, budget)
        if debug:
            sys.stderr.writelines(f"{store.blobs[name]}\n" for v in store.verdicts for name in v.raw_replies)
        return [
            TrajectoryScore(
                score=clipped(found.scores[transcript.hash]),
                explanation=found.explanations.get(transcript.hash, ""),
                independent_reward=reward,
            )
            for transcript, (_, reward) in zip(shown, given, strict=True)
        ]
    except Exception as exc:
        if not swallow_exceptions:
            raise
        warnings.warn(f"ruler gives no scores: {exc}", stacklevel=2)
        return None


async def _judged(
    chats: Sequence[Sequence[Message]],
    rubric: ListRubric,
    tools: Sequence[Mapping[str, Any]],
    settings: Settings,
    extra: Mapping[str, Any],
    store: MemoryStore,
    rng: random.Random,
    budget: int,
) -> tuple[Listed, list[Transcript]]:
    common = _common(chats)
    shown = [_transcript(messages[common:]) for messages in chats]
    if len({t.hash for t in shown}) == 1:
        alone = "a single trajectory" if len(shown) == 1 else f"{len(shown)} trajectories, all the same"
        warnings.warn(f"ruler: {alone}: scored once, on an absolute scale", stacklevel=3)
    context = chats[0][:common]
    about = ListTask(Task("ruler", _request(context)), _lines(context), _lines(tools))
    environ = environment()
    spec = resolve_judge(settings, environ, None, offline=False)
    members: list[ListBuyer] = []
    closes: list[Any] = []
    try:
        for member, keys in member_keys(spec, settings, environ):
            ask, pricing, close = make_ask(member, settings, keys, extra)
            closes.append(close)
            judge = RulerJudge(
                ask, rubric, identity=member.identity, pricing=pricing, keep=store.put_blob, clock=now, extra=extra
            )
            members.append(ListBuyer(judge, store))
        found = await score_list(about, shown, shown[0], ListJury(members, settings.jury), Purse(), rng, budget)
    finally:
        for close in closes:
            await close()
    if not found.scores:
        failed = [v.failure for v in store.verdicts if not isinstance(v, Scored) and v.status == "failed"]
        raise JudgeFailed(f"no verdict: {failed[0].message}" if failed else "no verdict")
    for note in scale_notes(found):
        warnings.warn(f"ruler: {note}", stacklevel=3)
    return found, shown


def _parted(given: Any, number: int) -> tuple[list[Message], float | None]:
    """Return a trajectory's messages and the reward that came with it. Raises UsageError for anything else."""
    reward = None
    if isinstance(given, Mapping):
        members = cast("Mapping[str, Any]", given)
        given, reward = members.get("messages"), members.get("reward")
    if not isinstance(given, list | tuple):
        raise UsageError(f"trajectory {number} is no list of messages, nor an object with `messages`")
    messages = [_plain(m) for m in cast("Sequence[Any]", given)]
    if not all(isinstance(m, Mapping) for m in messages):
        raise UsageError(f"trajectory {number} holds something that is no chat message")
    return messages, None if reward is None else float(reward)


def _plain(message: Any) -> Any:
    """Take the client library's own message objects too."""
    return message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message


def _common(chats: Sequence[Sequence[Message]]) -> int:
    """Return how many messages all begin with, each keeping one of its own; all the same: those before any reply."""
    if all(chat == chats[0] for chat in chats):
        return len(list(takewhile(lambda m: m.get("role") not in {"assistant", "tool"}, chats[0])))
    same = takewhile(lambda at: all(chat[at] == chats[0][at] for chat in chats), range(min(map(len, chats)) - 1))
    return len(list(same))


def _transcript(messages: Sequence[Message]) -> Transcript:
    """Return the closing text as the answer, and what leads to it as the path, a JSON object a line."""
    answer = ""
    if messages and messages[-1].get("role") == "assistant" and not messages[-1].get("tool_calls"):
        answer = _text(messages[-1])
        messages = messages[:-1] if answer else messages
    return Transcript(path=clean(_lines(messages)) or "(no steps)", answer=clean(answer).strip())


def _request(context: Sequence[Message]) -> str:
    """Return what was asked: the last words of the user's that all have in common."""
    return next((_text(m) for m in reversed(context) if m.get("role") == "user"), "")


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ()
    told = [str(cast("Mapping[str, Any]", p)["text"]) for p in parts if isinstance(p, Mapping) and "text" in p]
    return "\n".join(told) if len(told) == len(parts) else ""


def _lines(objects: Sequence[Mapping[str, Any]]) -> str:
    try:
        return "\n".join(json.dumps(dict(o), ensure_ascii=False) for o in objects)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"a message or tool is no JSON: {exc}") from None
