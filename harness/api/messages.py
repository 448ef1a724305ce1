"""RULER on plain chat messages: `await harness.ruler(message_lists, judge_model=...)`, no agent and no archive."""

import json
import math
import random
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, Literal, TypedDict, Unpack, cast

from harness.api.outside import door, named_credentials
from harness.archive.store import MemoryStore
from harness.core.errors import JudgeFailed, Refused, UsageError, calling, did_you_mean, first_error, on_a_line, quoted
from harness.core.rankings import Unscored
from harness.core.records import Record
from harness.core.settings import Settings
from harness.core.settings_sources import environment, load
from harness.core.sync import in_step
from harness.core.unicode import visible
from harness.formats.chat_turns import checked_messages
from harness.judging.judges import RulerJudge
from harness.judging.prompt import ListTask, Task
from harness.judging.rubric import ListRubric, load_list_rubric
from harness.judging.verdict_cache import CachedListJudge, ListJury, ListLedger, VerdictCache
from harness.pipeline.resolve import resolve_judge
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
from harness.tournament.listwise import LIST_BUDGET, JuryScores, clipped, scale_notes, score_list
from harness.transcripts.transcript import Transcript, plain_text

ChatMessage = Mapping[str, Any]
ChatTrajectory = Sequence[ChatMessage] | Mapping[str, Any]
"""Chat messages; or an object with `messages` and, where there is one, a `reward`."""

_LINE_END = re.compile("[\x85\u2028\u2029]")


def parted_each(message_lists: Any) -> list[tuple[list[ChatMessage], float | None]]:
    """Return the messages and the reward of each trajectory. Raises UsageError for anything else."""
    if not isinstance(message_lists, list | tuple):
        raise UsageError(f"expected a list of trajectories, found a {type(message_lists).__name__}")
    parted = list[tuple[list[ChatMessage], float | None]]()
    for number, trajectory in enumerate(cast("Sequence[Any]", message_lists)):
        given, reward = trajectory, None
        if isinstance(trajectory, Mapping):
            members = cast("Mapping[str, Any]", trajectory)
            given, reward = members.get("messages"), members.get("reward")
        if not isinstance(given, list | tuple):
            raise UsageError(f"trajectory {number} is no list of messages, nor an object with `messages`")
        several = cast("Sequence[Any]", given)
        messages = [m.model_dump(exclude_none=True) if hasattr(m, "model_dump") else m for m in several]
        if not all(isinstance(m, Mapping) for m in messages):
            raise UsageError(f"trajectory {number} holds something that is no chat message")
        parted.append((messages, None if reward is None else _number(reward, number)))
    return parted


def _number(reward: Any, number: int) -> float:
    """Return a reward as a float, whatever library's number it is; text is none, though float() reads some."""
    with suppress(TypeError, ValueError, OverflowError):
        is_number = hasattr(reward, "__float__") and not type(reward).__name__.startswith("bool")  # NumPy has its own
        if is_number and math.isfinite(as_float := float(reward)):
            return as_float
    raise UsageError(f"trajectory {number} has a reward that is no number: {quoted(reward)}")


def check_comparable(chats: Sequence[Sequence[ChatMessage]]) -> None:
    """Raise UsageError for what is no chat with an assistant's message, and for another query than the first's."""
    nothing: ChatMessage = {}
    asked = [next((message for message in chat if message.get("role") == "user"), nothing) for chat in chats]
    for number, (chat, query) in enumerate(zip(chats, asked, strict=True)):
        try:
            checked_messages([dict(message) for message in chat])
        except ValueError as exc:
            raise UsageError(f"trajectory {number}: {on_a_line(exc)}") from None
        if query.get("content") != asked[0].get("content"):
            raise UsageError(f"trajectory {number} is of another query than trajectory 0: {quoted(_text(query))}")


def common_beginning(chats: Sequence[Sequence[ChatMessage]]) -> int:
    """Return how many messages all begin with, each keeping one of its own; all the same: those before any reply."""
    if all(chat == chats[0] for chat in chats):
        return len(list(takewhile(lambda m: m.get("role") not in {"assistant", "tool"}, chats[0])))
    same = takewhile(lambda at: all(chat[at] == chats[0][at] for chat in chats), range(min(map(len, chats)) - 1))
    return len(list(same))


def chat_transcript(messages: Sequence[ChatMessage]) -> Transcript:
    """Return the closing text as the answer, and what leads to it as the path, a JSON object a line."""
    answer = ""
    if messages and messages[-1].get("role") == "assistant" and not messages[-1].get("tool_calls"):
        answer = _text(messages[-1])
        messages = messages[:-1] if answer else messages
    return Transcript(path=plain_text(json_lines(messages)) or "(no steps)", answer=plain_text(answer))


def _text(message: ChatMessage) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ()
    texts = [str(cast("Mapping[str, Any]", p)["text"]) for p in parts if isinstance(p, Mapping) and "text" in p]
    return "\n".join(texts) if len(texts) == len(parts) else ""


def json_lines(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return each object as JSON on a line of its own. Raises UsageError for what is no JSON."""
    try:
        return "\n".join(
            _LINE_END.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(dict(o), ensure_ascii=False))
            for o in objects
        )
    except (TypeError, ValueError) as exc:
        raise UsageError(f"a message or tool is no JSON: {exc}") from None


class TrajectoryScore(Record):
    """What the judge makes of one trajectory: a score from 0 to 1 and why, beside the reward that came with it."""

    score: float
    explanation: str = ""
    independent_reward: float | None = None


_ARGUMENTS = {"judge_base_url": "base_url", "judge_api": "api", "judge_timeout": "timeout"}


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

    Each has a message of the assistant's, and the first of the user's, where there is one, is the same in all.
    `rubric` is a text in plain words (default: our own). Messages that all begin with are shown once, and so are
    `tools`; equal trajectories too, and they share their score. One alone, or all the same, are scored on an absolute
    scale, with a warning. `budget` is in characters; more goes into several calls that share the first trajectory
    (harness.tournament.listwise says how they come to one scale). `debug` writes the judge's raw replies to stderr.
    Raises UsageError for settings, arguments and trajectories that cannot be used, Refused (out of quota: OutOfQuota)
    where the judge's endpoint turns the first call down, and JudgeFailed without a verdict. With `swallow_exceptions`
    the last two give a warning and None instead; the warning's `__cause__` is the error.
    """
    try:
        with calling(_ARGUMENTS):
            judge_settings = _judge_settings(judge_model, settings)
        list_rubric = load_list_rubric(None) if rubric is None else ListRubric("own", rubric.strip())
        trajectories = parted_each(message_lists)
        if not trajectories:
            return []
        chats = [messages for messages, _ in trajectories]
        check_comparable(chats)
        common = common_beginning(chats)
        context = chats[0][:common]
        request = next((_text(message) for message in reversed(context) if message.get("role") == "user"), "")
        about = ListTask(Task("ruler", request), json_lines(context), json_lines(tools or ()))
        transcripts, store = [chat_transcript(messages[common:]) for messages in chats], MemoryStore()
        hashes = [transcript.hash for transcript in transcripts]
        if len({*hashes}) == 1:
            equal = f"{len(hashes)} trajectories, all the same" if len(hashes) > 1 else "a single trajectory"
            warnings.warn(f"ruler: {equal}: scored once, on an absolute scale", stacklevel=3)
        generator = rng if isinstance(rng, random.Random) else random.Random(rng)
        judging = judge_settings, list_rubric, settings.get("extra_request") or {}
        with calling(_ARGUMENTS):
            scores = await _score(about, transcripts, *judging, store, generator, budget)
        for note in scale_notes(scores):
            warnings.warn(f"ruler: {note}", stacklevel=3)
        if debug:
            replies = (store.blobs[name] for verdict in store.verdicts for name in verdict.raw_replies)
            sys.stderr.writelines(f"{visible(reply)}\n" for reply in replies)
        marks = [(clipped(scores.scores[name]), scores.explanations.get(name, "")) for name in hashes]
        return [
            TrajectoryScore(score=score, explanation=explanation, independent_reward=reward)
            for (score, explanation), (_, reward) in zip(marks, trajectories, strict=True)
        ]
    except (JudgeFailed, Refused, ExceptionGroup) as exc:
        error = first_error(exc) if isinstance(exc, ExceptionGroup) else exc  # pyright: ignore[reportUnknownArgumentType]
        if not swallow_exceptions or not isinstance(error, JudgeFailed | Refused):
            raise
        warning = UserWarning(f"ruler gives no scores: {type(error).__name__}: {error}")
        warning.__cause__ = error
        warnings.warn(warning, stacklevel=3)
        return None


ruler_sync = in_step(ruler)


def _judge_settings(judge_model: str | Sequence[str] | None, options: RulerSettings) -> Settings:
    for name in options:
        if name not in RulerSettings.__annotations__:
            raise UsageError(f"ruler has no option {quoted(name)}{did_you_mean(name, RulerSettings.__annotations__)}")
    extra: object = options.get("extra_request")
    if extra is not None and not isinstance(extra, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"extra_request={quoted(extra)}: give a mapping of parameters")
    at = {"judge_base_url": options.get("base_url"), "judge_api": options.get("api")}
    asking = {"jury": options.get("jury", "mean"), "judge_timeout": options.get("timeout", 120.0)}
    return load({"judge": "ruler", "judge_model": judge_model, **at, **asking})


async def _score(
    about: ListTask,
    transcripts: Sequence[Transcript],
    settings: Settings,
    rubric: ListRubric,
    extra: Mapping[str, Any],
    store: MemoryStore,
    rng: random.Random,
    budget: int,
) -> JuryScores:
    """Ask the judges. Raises JudgeFailed where none gave a verdict; Refused where the first call is turned down."""
    run_env, cache, ledger = RunEnvironment(environment()), VerdictCache(store), ListLedger()
    credentials = named_credentials(settings, run_env)
    spec = resolve_judge(settings, credentials, None, offline=False)
    async with open_judge_models(spec, settings, credentials, store, run_env, extra) as models:
        jury = ListJury([CachedListJudge(RulerJudge(model, rubric), cache) for model in models], settings.jury)
        scores = await score_list(about, transcripts, transcripts[0], jury, ledger, rng, budget)
    if not scores.scores:
        failed = [v.failure for v in ledger.bought.values() if isinstance(v, Unscored)]
        raise JudgeFailed(f"no verdict: {failed[0].message}" if failed else "no verdict")
    return scores
