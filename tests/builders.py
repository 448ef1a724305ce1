"""What tests of many rooms are built from: records, by hand and by hypothesis, and a judge that follows a script."""

import random
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
from hypothesis import strategies as st

from harness.core.rankings import GroupRanking, Judged, Match, Ranked, SideScores, Unjudged, Winner
from harness.core.records import (
    Effective,
    Failure,
    FailureKind,
    Group,
    ModelCall,
    Query,
    Rollout,
    Sampling,
    Step,
    Trajectory,
    Usage,
    digest,
)
from harness.transcripts.transcript import Transcript, transcribe

if TYPE_CHECKING:  # importing the judges imports the SDK, which a process of a test may do without
    from harness.judging.prompt import Task

AT = datetime(2026, 7, 21, 14, 3, 20, tzinfo=UTC)


# ---- Records by hand


def a_failure(kind: FailureKind = "timeout") -> Failure:
    return Failure(kind=kind, type="SomeError", message=f"it was {kind}")


def a_rollout(index: int, answer: str | None = None, *, failed: FailureKind | None = None, **changes: Any) -> Rollout:
    """Rollout `index` of query `q`: the anchor if it is 0. Its answer is its index, unless given."""
    plain: dict[str, Any] = {
        "run": "run-1",
        "query": "q",
        "index": index,
        "role": "sample" if index else "anchor",
        "requested": Sampling(temperature=0.8 if index else 0.0),
        "effective": Effective(uniform=True),
        "status": "failed" if failed else "ok",
        "failure": a_failure(failed) if failed else None,
        "trajectory": Trajectory(query="Why?", answer=str(index) if answer is None else answer),
        "started_at": AT,
        "duration_s": 1.5,
    }
    return Rollout(**plain | changes)


def a_group(rollouts: Iterable[Rollout]) -> Group:
    return Group(query=Query(id="q", text="Why?"), rollouts=tuple(rollouts))


def a_judged(key: str = "k", a: float = 6.0, b: float = 5.0, **changes: Any) -> Judged:
    winner: Winner = "tie" if a == b else "A" if a > b else "B"
    plain: dict[str, Any] = {
        "key": key,
        "query": "q",
        "first": "1st",
        "second": "2nd",
        "rubric": "by-hand@1",
        "judge": "scripted",
        "a": SideScores(dimensions={}, path=None, answer=None, combined=a),
        "b": SideScores(dimensions={}, path=None, answer=None, combined=b),
        "winner": winner,
        "usage": Usage(requests=1),
        "price_usd": 0.0,
        "started_at": AT,
        "duration_s": 0.5,
    }
    return Judged(**plain | changes)


def an_unjudged(key: str = "k", **changes: Any) -> Unjudged:
    plain: dict[str, Any] = {
        "key": key,
        "query": "q",
        "first": "1st",
        "second": "2nd",
        "rubric": "by-hand@1",
        "judge": "scripted",
        "failure": a_failure("api"),
        "started_at": AT,
        "duration_s": 0.5,
    }
    return Unjudged(**plain | changes)


def a_transcript(answer: str, path: tuple[Step, ...] = ()) -> Transcript:
    return transcribe(Trajectory(query="Why?", path=path, answer=answer))


# ---- A judge that follows a script

Script = Callable[[str, str], tuple[float, float] | None]
"""From the two answers in the order shown to the two scores; None for a verdict that fails."""


class ScriptedJudge:
    """A judge at the door. It replies after a number of turns of the event loop drawn from `rng`, and keeps count."""

    identity = "scripted"
    rubric_label = "by-hand@1"

    def __init__(self, script: Script, rng: random.Random | None = None) -> None:
        self._script, self._rng = script, rng
        self.calls: list[tuple[str, str]] = []

    def key(self, task: "Task", first: Transcript, second: Transcript) -> str:
        return digest([task.query, first.hash, second.hash])

    async def __call__(self, task: "Task", first: Transcript, second: Transcript) -> Judged | Unjudged:
        self.calls.append((first.answer, second.answer))
        for _ in range(self._rng.randrange(12) if self._rng else 1):
            await anyio.lowlevel.checkpoint()
        known = {"query": task.query_id, "first": first.hash, "second": second.hash}
        scores = self._script(first.answer, second.answer)
        key = self.key(task, first, second)
        return an_unjudged(key, **known) if scores is None else a_judged(key, *scores, **known)


def by_strength(strength: Mapping[str, float]) -> Script:
    """Each answer scores its own strength, whoever it meets and wherever it stands."""
    return lambda first, second: (strength[first], strength[second])


# ---- Records by hypothesis

texts = st.text(max_size=30)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False)
prices = st.none() | st.floats(0, 100, allow_nan=False)
times = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants naive bounds
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)


def _tuples(inner: st.SearchStrategy[Any], size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(inner, max_size=size).map(tuple)


_kinds: st.SearchStrategy[FailureKind] = st.sampled_from(["timeout", "refusal", "api", "internal"])
failures = st.builds(Failure, kind=_kinds, type=texts, message=texts, turn=st.none() | st.integers(1, 9))
usages = st.builds(
    Usage, requests=st.integers(0, 9), input=st.none() | st.integers(0, 999), output=st.none() | st.integers(0, 999)
)
queries = st.builds(Query, id=names, text=texts, reference=st.none() | texts, metadata=json_objects)
steps = st.builds(
    Step,
    kind=st.sampled_from(["reasoning", "tool", "handoff", "message", "guardrail"]),
    reasoning=st.none() | texts,
    tool_name=st.none() | names,
    tool_input=st.none() | texts,
    tool_output=st.none() | texts,
    tool_type=st.sampled_from([None, "function", "hosted", "mcp", "agent"]),
    agent=st.none() | names,
    call_id=st.none() | names,
    error=st.none() | texts,
    started_at=st.none() | times,
    duration_s=st.none() | st.floats(0, 100),
)
trajectories = st.builds(
    Trajectory, query=texts, path=_tuples(steps), answer=texts, answer_type=st.sampled_from(["text", "json"])
)
rollouts = st.builds(
    Rollout,
    run=names,
    query=names,
    index=st.integers(0, 40),
    role=st.sampled_from(["anchor", "sample"]),
    requested=st.builds(Sampling, temperature=st.floats(0, 2), seed=st.none() | st.integers(0, 99)),
    effective=st.builds(Effective, uniform=st.booleans(), models=_tuples(names)),
    calls=_tuples(st.builds(ModelCall, model=st.none() | names, temperature=st.none() | st.floats(0, 2))),
    status=st.sampled_from(["ok", "failed"]),
    failure=st.none() | failures,
    trajectory=trajectories,
    usage=usages,
    price_usd=prices,
    fingerprint=st.none() | names,
    started_at=times,
    duration_s=st.floats(0, 1000),
    tool_names=_tuples(names),
    instructions=st.none() | texts,
)
_sides = st.builds(
    SideScores,
    dimensions=st.dictionaries(names, st.integers(0, 10), max_size=3),
    path=st.none() | st.integers(0, 10),
    answer=st.none() | st.integers(0, 10),
    combined=st.integers(0, 100).map(lambda tenths: tenths / 10),
)
_verdict_base = {
    "key": names,
    "query": names,
    "first": names,
    "second": names,
    "rubric": texts,
    "judge": texts,
    "form": st.none() | names,
    "raw_replies": _tuples(names),
    "usage": usages,
    "price_usd": prices,
    "started_at": times,
    "duration_s": st.floats(0, 1000),
}
judgeds = st.builds(
    Judged,
    **_verdict_base,
    a=_sides,
    b=_sides,
    winner=st.sampled_from(["A", "B", "tie"]),
    analysis=st.dictionaries(texts, texts, max_size=2),
    claims=json_objects,
    repaired=st.booleans(),
)
unjudgeds = st.builds(Unjudged, **_verdict_base, failure=failures)
verdicts = judgeds | unjudgeds


@st.composite
def _matches(draw: st.DrawFn) -> Match:
    a, b = draw(st.lists(st.integers(0, 40), min_size=2, max_size=2, unique=True))
    marks = st.floats(-10, 10)
    calls = st.tuples(names, st.sampled_from([a, b]), st.tuples(marks, marks))
    verdicts, shown_first, scores = zip(*draw(st.lists(calls, min_size=1, max_size=3)), strict=True)
    return Match(
        round=draw(st.integers(0, 6)),
        a=a,
        b=b,
        verdicts=verdicts,
        shown_first=shown_first,
        score_a=draw(marks),
        score_b=draw(marks),
        winner=draw(st.sampled_from([None, a, b])),
        flipped=draw(st.booleans()),
        inconsistent=draw(st.booleans()),
        repeated=draw(st.booleans()),
        scores=scores,
        features=draw(st.sampled_from([(), ((6.5, 0.25, 0.0), (5.0, 0.0, 1.0))])),
    )


group_rankings = st.builds(
    GroupRanking,
    query=names,
    topology=names,
    estimator=names,
    status=st.sampled_from(["complete", "incomplete"]),
    signal=st.sampled_from(["ok", "weak", "none"]),
    matches=_tuples(_matches()),
    rollouts=_tuples(st.builds(Ranked, index=st.integers(0, 40), score=st.none() | floats, rank=st.none() | floats)),
    failed_verdicts=_tuples(names),
    judged=st.integers(0, 99),
    reused=st.integers(0, 99),
    judge_usage=usages,
    judge_usd=prices,
    notes=_tuples(texts),
)
