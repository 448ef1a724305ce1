"""RULER on plain chat messages: `await harness.ruler(message_lists, judge_model=...)`, no agent and no archive."""

import json
import random
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, TypedDict, Unpack, cast

from harness.api.door import door
from harness.archive import MemoryStore
from harness.core.clock import now
from harness.core.errors import HarnessError, JudgeFailed, UsageError, did_you_mean, first_error, quoted
from harness.core.records import Record
from harness.core.settings import Settings
from harness.core.settings_sources import environment, load
from harness.core.unicode import visible
from harness.core.verdicts import Unscored
from harness.endpoints import Credentials
from harness.judging import (
    CachedListJudge,
    ListJury,
    ListLedger,
    ListRubric,
    ListTask,
    RulerJudge,
    Task,
    VerdictCache,
    load_list_rubric,
)
from harness.pipeline import Surroundings, open_judge_models, resolve_judge
from harness.tournament import LIST_BUDGET, JuryScores, clipped, scale_notes, score_list
from harness.transcripts import Transcript, plain_text

ChatMessage = Mapping[str, Any]
ChatTrajectory = Sequence[ChatMessage] | Mapping[str, Any]
"""Chat messages; or an object with `messages` and, where there is one, a `reward`."""

_LINE_END = re.compile("[\x85\u2028\u2029]")
"""Ends of lines that JSON leaves as they are in a string."""


class TrajectoryScore(Record):
    """What the judge makes of one trajectory: a score from 0 to 1 and why, beside the reward that came with it."""

    score: float
    explanation: str = ""
    independent_reward: float | None = None


class RulerSettings(TypedDict, total=False):
    """How the judge of `ruler` is asked."""

    base_url: str | Sequence[str] | None
    """Where the judge is; one address for all of a jury, or one for each."""
    api: Literal["responses", "chat"] | None
    jury: Literal["mean", "median"]
    """How the scores of several judges become one."""
    timeout: float
    """Seconds for one call, retries included, as --judge-timeout; 120 unless given."""
    extra_request: Mapping[str, Any] | None
    """Parameters that go into every request's body."""


@door
async def ruler(
    message_lists: Sequence[ChatTrajectory],
    judge_model: str | Sequence[str] | None = None,
    *,
    rubric: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    debug: bool = False,
    swallow_exceptions: bool = False,
    rng: int | random.Random = 0,
    budget: int = LIST_BUDGET,
    **settings: Unpack[RulerSettings],
) -> list[TrajectoryScore] | None:
    """Score trajectories of one task against each other, 0 to 1, in their order; they are not changed.

    `rubric` is a text in plain words (default: our own). Messages that all begin with are shown once, and so are
    `tools`; equal trajectories too, and they share their score. One alone, or all the same, are scored on an absolute
    scale, with a warning. `budget` is in characters; more goes into several calls that share the first trajectory
    (harness.tournament.list_scores says how they come to one scale). `debug` writes the judge's raw replies to stderr.

    Raises UsageError for what cannot be used and JudgeFailed without a verdict; with `swallow_exceptions` it warns and
    returns None instead.
    """
    try:
        judge_settings = _judge_settings(judge_model, settings)
        list_rubric = load_list_rubric(None) if rubric is None else ListRubric("own", rubric.strip())
        trajectories = [_parted(trajectory, number) for number, trajectory in enumerate(message_lists)]
        if not trajectories:
            return []
        material = _material([messages for messages, _ in trajectories], tools or ())
        _warn(_notes_on_equals(material.transcripts))
        judging = _Judging(list_rubric, judge_settings, settings.get("extra_request") or {}, MemoryStore())
        scores = await judging.score(material, rng if isinstance(rng, random.Random) else random.Random(rng), budget)
        _warn(scale_notes(scores))
        if debug:
            sys.stderr.writelines(f"{visible(reply)}\n" for reply in judging.raw_replies())
        rewards = [reward for _, reward in trajectories]
        return [_trajectory_score(scores, *pair) for pair in zip(material.transcripts, rewards, strict=True)]
    except Exception as exc:
        if not swallow_exceptions:
            raise
        warnings.warn(f"ruler gives no scores: {exc}", stacklevel=3)
        return None


def _trajectory_score(scores: JuryScores, transcript: Transcript, reward: float | None) -> TrajectoryScore:
    return TrajectoryScore(
        score=clipped(scores.scores[transcript.hash]),
        explanation=scores.explanations.get(transcript.hash, ""),
        independent_reward=reward,
    )


def _notes_on_equals(transcripts: Sequence[Transcript]) -> tuple[str, ...]:
    if len({transcript.hash for transcript in transcripts}) > 1:
        return ()
    several = f"{len(transcripts)} trajectories, all the same"
    return (f"{several if transcripts[1:] else 'a single trajectory'}: scored once, on an absolute scale",)


@dataclass(frozen=True)
class _Material:
    """What the judge gets: what all trajectories have in common, and what each has of its own."""

    about: ListTask
    transcripts: Sequence[Transcript]


def _material(chats: Sequence[Sequence[ChatMessage]], tools: Sequence[Mapping[str, Any]]) -> _Material:
    common = _common(chats)
    context = chats[0][:common]
    about = ListTask(Task("ruler", _request(context)), _lines(context), _lines(tools))
    return _Material(about, [_transcript(messages[common:]) for messages in chats])


def _judge_settings(judge_model: str | Sequence[str] | None, options: RulerSettings) -> Settings:
    for name in options:
        if name not in RulerSettings.__annotations__:
            raise UsageError(f"ruler has no option {quoted(name)}{did_you_mean(name, RulerSettings.__annotations__)}")
    return load(
        {
            "judge": "ruler",
            "judge_model": judge_model,
            "judge_base_url": options.get("base_url"),
            "judge_api": options.get("api"),
            "jury": options.get("jury", "mean"),
            "judge_timeout": options.get("timeout", 120.0),
        }
    )


@dataclass(frozen=True)
class _Judging:
    """Who judges by which rubric, and the store that keeps the replies."""

    rubric: ListRubric
    settings: Settings
    extra: Mapping[str, Any]
    store: MemoryStore

    async def score(self, material: _Material, rng: random.Random, budget: int) -> JuryScores:
        """Ask the judges. Raises JudgeFailed where none gave a verdict; Refused where the first call is turned down."""
        surroundings, cache, texts = Surroundings(environment(), now), VerdictCache(self.store), material.transcripts
        named = self.settings.base_url, self.settings.judge_base_url
        credentials = Credentials.naming(surroundings.environ, *named)
        spec = resolve_judge(self.settings, credentials, None, offline=False)
        try:
            async with open_judge_models(
                spec, self.settings, credentials, self.store, surroundings, self.extra
            ) as models:
                jurors = [CachedListJudge(RulerJudge(model, self.rubric), cache) for model in models]
                jury, ledger = ListJury(jurors, self.settings.jury), ListLedger()
                scores = await score_list(material.about, texts, texts[0], jury, ledger, rng, budget)
        except* HarnessError as errors:
            raise first_error(errors) from None
        if not scores.scores:
            failed = [v.failure for v in ledger.bought.values() if isinstance(v, Unscored)]
            raise JudgeFailed(f"no verdict: {failed[0].message}" if failed else "no verdict")
        return scores

    def raw_replies(self) -> Iterator[str]:
        """Yield what the judges replied, word for word."""
        return (self.store.blobs[name] for verdict in self.store.verdicts for name in verdict.raw_replies)


def _warn(notes: Iterable[str]) -> None:
    """Warn the caller of `ruler`, which is the caller of this."""
    for note in notes:
        warnings.warn(f"ruler: {note}", stacklevel=4)


def _parted(trajectory: Any, number: int) -> tuple[list[ChatMessage], float | None]:
    """Return a trajectory's messages and the reward that came with it. Raises UsageError for anything else."""
    reward = None
    if isinstance(trajectory, Mapping):
        members = cast("Mapping[str, Any]", trajectory)
        trajectory, reward = members.get("messages"), members.get("reward")
    if not isinstance(trajectory, list | tuple):
        raise UsageError(f"trajectory {number} is no list of messages, nor an object with `messages`")
    messages = [_plain(m) for m in cast("Sequence[Any]", trajectory)]
    if not all(isinstance(m, Mapping) for m in messages):
        raise UsageError(f"trajectory {number} holds something that is no chat message")
    return messages, None if reward is None else float(reward)


def _plain(message: Any) -> Any:
    """Take the client library's own message objects too."""
    return message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message


def _common(chats: Sequence[Sequence[ChatMessage]]) -> int:
    """Return how many messages all begin with, each keeping one of its own; all the same: those before any reply."""
    if all(chat == chats[0] for chat in chats):
        return len(list(takewhile(lambda m: m.get("role") not in {"assistant", "tool"}, chats[0])))
    same = takewhile(lambda at: all(chat[at] == chats[0][at] for chat in chats), range(min(map(len, chats)) - 1))
    return len(list(same))


def _transcript(messages: Sequence[ChatMessage]) -> Transcript:
    """Return the closing text as the answer, and what leads to it as the path, a JSON object a line."""
    answer = ""
    if messages and messages[-1].get("role") == "assistant" and not messages[-1].get("tool_calls"):
        answer = _text(messages[-1])
        messages = messages[:-1] if answer else messages
    return Transcript(path=plain_text(_lines(messages)) or "(no steps)", answer=plain_text(answer))


def _request(context: Sequence[ChatMessage]) -> str:
    """Return what was asked: the last words of the user's that all have in common."""
    return next((_text(m) for m in reversed(context) if m.get("role") == "user"), "")


def _text(message: ChatMessage) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ()
    texts = [str(cast("Mapping[str, Any]", p)["text"]) for p in parts if isinstance(p, Mapping) and "text" in p]
    return "\n".join(texts) if len(texts) == len(parts) else ""


def _lines(objects: Sequence[Mapping[str, Any]]) -> str:
    try:
        return "\n".join(_line(json.dumps(dict(o), ensure_ascii=False)) for o in objects)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"a message or tool is no JSON: {exc}") from None


def _line(text: str) -> str:
    """Return JSON on one line, whatever is in its strings: no text can pose as an object then."""
    return _LINE_END.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
