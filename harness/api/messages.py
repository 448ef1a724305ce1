"""RULER on plain chat messages: `await harness.ruler(message_lists, judge_model=...)`, no agent and no archive."""

import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from harness.api.arguments import door
from harness.api.chats import (
    ChatMessage,
    ChatTrajectory,
    check_comparable,
    common_beginning,
    json_lines,
    parted_each,
    request_in,
    transcript_of,
)
from harness.archive.memory_store import MemoryStore
from harness.core.clock import now
from harness.core.errors import JudgeFailed, Refused, UsageError, did_you_mean, first_error, quoted
from harness.core.records import Record
from harness.core.settings import Settings
from harness.core.settings_sources import environment, load
from harness.core.unicode import visible
from harness.core.verdicts import Unscored
from harness.core.wording import calling
from harness.endpoints.credentials import Credentials
from harness.judging.juror import ListLedger
from harness.judging.jury import ListJury
from harness.judging.list_prompt import ListRubric, ListTask, load_list_rubric
from harness.judging.prompt import Task
from harness.judging.ruler import RulerJudge
from harness.judging.verdict_cache import CachedListJudge, VerdictCache
from harness.pipeline.resolve import resolve_judge
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.stages import open_judge_models
from harness.tournament.listwise import LIST_BUDGET, JuryScores, clipped, scale_notes, score_list
from harness.transcripts.transcript import Transcript


class TrajectoryScore(Record):
    """What the judge makes of one trajectory: a score from 0 to 1 and why, beside the reward that came with it."""

    score: float
    explanation: str = ""
    independent_reward: float | None = None


_ARGUMENTS = {"judge_base_url": "base_url", "judge_api": "api", "judge_timeout": "timeout"}
"""What messages about the judge's settings call them here."""


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
        check_comparable([messages for messages, _ in trajectories])
        material = _material([messages for messages, _ in trajectories], tools or ())
        _warn(_notes_on_equals(material.transcripts))
        judging = _Judging(list_rubric, judge_settings, settings.get("extra_request") or {}, MemoryStore())
        generator = rng if isinstance(rng, random.Random) else random.Random(rng)
        with calling(_ARGUMENTS):
            scores = await judging.score(material, generator, budget)
        _warn(scale_notes(scores))
        if debug:
            sys.stderr.writelines(f"{visible(reply)}\n" for reply in judging.raw_replies())
        rewards = [reward for _, reward in trajectories]
        return [_trajectory_score(scores, *pair) for pair in zip(material.transcripts, rewards, strict=True)]
    except (JudgeFailed, Refused, ExceptionGroup) as exc:
        error = first_error(exc) if isinstance(exc, ExceptionGroup) else exc  # pyright: ignore[reportUnknownArgumentType]
        if not swallow_exceptions or not isinstance(error, JudgeFailed | Refused):
            raise
        warning = UserWarning(f"ruler gives no scores: {type(error).__name__}: {error}")
        warning.__cause__ = error
        warnings.warn(warning, stacklevel=3)
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
    common = common_beginning(chats)
    context = chats[0][:common]
    about = ListTask(Task("ruler", request_in(context)), json_lines(context), json_lines(tools))
    return _Material(about, [transcript_of(messages[common:]) for messages in chats])


def _judge_settings(judge_model: str | Sequence[str] | None, options: RulerSettings) -> Settings:
    for name in options:
        if name not in RulerSettings.__annotations__:
            raise UsageError(f"ruler has no option {quoted(name)}{did_you_mean(name, RulerSettings.__annotations__)}")
    extra: object = options.get("extra_request")
    if extra is not None and not isinstance(extra, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"extra_request={quoted(extra)}: give a mapping of parameters")
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
        run_env, cache, texts = RunEnvironment(environment(), now), VerdictCache(self.store), material.transcripts
        named = self.settings.base_url, self.settings.judge_base_url
        credentials = Credentials.naming(run_env.environ, *named)
        spec = resolve_judge(self.settings, credentials, None, offline=False)
        async with open_judge_models(spec, self.settings, credentials, self.store, run_env, self.extra) as models:
            jurors = [CachedListJudge(RulerJudge(model, self.rubric), cache) for model in models]
            jury, ledger = ListJury(jurors, self.settings.jury), ListLedger()
            scores = await score_list(material.about, texts, texts[0], jury, ledger, rng, budget)
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
