"""Archives by hand: small runs, ranked by a real topology with verdicts that a sketch prescribes."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.run_info import RunInfo
from harness.archive.store import RunStore
from harness.archive.typed_records import RankingHead
from harness.core.rankings import GroupRanking, Judged, Match, Ranked, SideScores, Signal, Unjudged
from harness.core.records import (
    Effective,
    Failure,
    FailureKind,
    ModelCall,
    Query,
    Rollout,
    Sampling,
    Step,
    Trajectory,
    Usage,
)
from harness.ranking.estimators import tiers
from harness.ranking.knockout import Arena, Single
from harness.ranking.rewards import place
from harness.ranking.topology import Pairing, Played
from harness.transcripts.transcript import RENDERING, transcribe

START = datetime(2026, 7, 21, 14, 3, 20, tzinfo=UTC)
RUN = "20260721T140320-search-1a2b3c"
RUBRIC = "writing@1 0f1e2d3c4b5a"
PATH_MARKS = ("understanding", "logic", "richness")
ANSWER_MARKS = ("relevance", "content_quality", "language_style", "clarity")
SCRIPT = "</script><img src=x onerror=\"window.pwned='img'\">"
HOSTILE = (
    SCRIPT,
    '"><svg onload="window.pwned=\'svg\'">',
    "'><a href=\"javascript:window.pwned='a'\">click</a></details></style><style>*{display:none}</style>",
    "{{ 7*7 }}{% raw %} &lt;b&gt; ]]> <!-- \x00\x07\x1b[31m\x7f red \u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd",
    "W" * 900,
)
EVIL = " ".join(HOSTILE)


@dataclass
class RolloutSketch:
    """What one rollout of the example does. `marks` are its seven marks before a match shifts them."""

    answer: str = "A short answer."
    path: tuple[Step, ...] = (
        Step(
            kind="tool",
            reasoning="Look it up.",
            tool_name="search",
            tool_input="{}",
            tool_output="Found.",
            tool_type="function",
        ),
    )
    marks: tuple[int, ...] = (6, 6, 6, 6, 6, 6, 6)
    failure: FailureKind | None = None
    message: str = "it did not work out"


@dataclass
class QuerySketch:
    """A query of the example and its rollouts; rollout 0 is the anchor."""

    rollouts: Sequence[RolloutSketch]
    query: str = "Why is the sky blue?"
    refuse: Callable[[int, int], bool] = lambda first, second: False
    """Whether the verdict that shows `first` first fails."""
    shift: Callable[[int, int, bool], int] = lambda entrant, opponent, first: 0
    """Added to all marks of `entrant` against `opponent`, `first` when it is shown first."""
    topology: str = "arena"
    reference: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class BuiltArchive:
    """A finished archive, open for reading."""

    reader: RunReader
    ranking: RankingFile
    folder: Path


def build(
    runs: Path,
    *sketches: QuerySketch,
    offline: bool = False,
    agent: str = "search",
    finish: bool = True,
    judge: str = "gpt-5-mini@api.openai.com",
    price: float | None = 0.0004,
) -> BuiltArchive:
    """Write an archive of one run with one ranking; `price` is what each verdict cost."""
    with RunStore.create(runs, run_info(agent, offline=offline)) as store:
        writer = store.open_ranking(RANKING)
        for number, sketch in enumerate(sketches):
            query = Query(id=f"query-{number}", text=sketch.query, reference=sketch.reference)
            store.add_query(query)
            rollouts = [a_rollout(query, index, sketch) for index in range(len(sketch.rollouts))]
            for rollout in rollouts:
                store.add_rollout(rollout)
            tournament = SketchedTournament(query, rollouts, sketch, judge, price)
            ranking = tournament.rank()
            for verdict in tournament.verdicts.values():
                store.add_verdict(verdict)
            writer.add(ranking)
        if finish:
            writer.finish()
        writer.close()
    reader = RunReader(runs / RUN)
    READERS.append(reader)
    return BuiltArchive(reader, reader.ranking(), runs / RUN)


READERS: list[RunReader | ComparisonReader] = []
"""The readers of all archives built: closed after each test (conftest), and opened again by the next that reads."""


JUDGE: dict[str, JsonValue] = {"model": "gpt-5-mini", "base_url": None, "api": "responses"}
RANKING = RankingHead(
    id="20260721T140320-first",
    created_at=START,
    settings={"topology": "arena", "estimator": "tiers", "order": "both"},
    judge=JUDGE,
    rubric=RUBRIC,
    rendering=RENDERING,
)


def run_info(agent: str, *, offline: bool) -> RunInfo:
    return RunInfo(
        schema_version=1,
        id=RUN,
        created_at=START,
        agent=agent,
        agent_file="agents_config/search.py",
        settings={"n": 8, "order": "both"},
        judge=JUDGE,
        offline=offline,
        agent_offline=offline,
        versions={"arena-harness": "0.2.0", "openai-agents": "0.24.0", "python": "3.11.7"},
    )


def a_rollout(query: Query, index: int, sketch: QuerySketch) -> Rollout:
    written = sketch.rollouts[index]
    role = "anchor" if index == 0 and sketch.topology == "arena" else "sample"
    requested = Sampling(temperature=0.0 if role == "anchor" else 0.8, model="gpt-5")
    failure = (
        Failure(kind=written.failure, type="SomeError", message=written.message, turn=2) if written.failure else None
    )
    tokens = sum(len((step.tool_output or "") + (step.reasoning or "")) for step in written.path) // 4
    return Rollout(
        run=RUN,
        query=query.id,
        index=index,
        role=role,
        requested=requested,
        effective=Effective(uniform=True, temperature=requested.temperature, models=("gpt-5-2026-05-01",)),
        calls=(ModelCall(model="gpt-5", replied_model="gpt-5-2026-05-01", temperature=requested.temperature),),
        status="failed" if failure else "ok",
        failure=failure,
        trajectory=Trajectory(query=query.text, path=written.path, answer="" if failure else written.answer),
        usage=Usage(requests=len(written.path) + 1, input=1800 + tokens, output=420 + 7 * index),
        price_usd=0.0031 + index * 0.0002,
        fingerprint="ab" * 32,
        started_at=START + timedelta(seconds=index / 4),
        duration_s=11.2 + index * 1.7,
        tool_names=("search",),
        instructions="Search first, then answer in 250 words.",
    )


class SketchedTournament:
    """Plays one group's tournament and keeps the verdicts."""

    def __init__(
        self, query: Query, rollouts: Sequence[Rollout], sketch: QuerySketch, judge: str, price: float | None
    ) -> None:
        self.query, self.sketch, self.judge, self.price = query, sketch, judge, price
        self.rollouts = {r.index: r for r in rollouts}
        self.verdicts: dict[str, Judged | Unjudged] = {}

    def rank(self) -> GroupRanking:
        able = [index for index, r in self.rollouts.items() if r.status == "ok"]
        failed = [index for index in self.rollouts if index not in able]
        if not able:
            return self.ranking((), [Ranked(index=index) for index in failed], "complete", "none")
        topology = Single(able[::-1]) if self.sketch.topology == "single" else Arena(able, 0)
        while pairings := [pairing for pairing in topology.pairings() if self.can_judge(pairing)]:
            for pairing in pairings:
                topology.record(pairing, self.score(pairing, pairing.a), self.score(pairing, pairing.b))
        matches = tuple(self.match(played) for played in topology.matches)
        if topology.pairings():
            unranked = [Ranked(index=index) for index in self.rollouts]
            return self.ranking(matches, unranked, "incomplete", "ok")
        standings = {s.entrant: s for s in topology.standings()}
        level = len({score for match in matches for score in (match.score_a, match.score_b)}) < 2
        placed = place(tiers(list(standings.values())), failed, tied=level)
        ranked = [
            Ranked(
                index=index,
                score=float(standings[index].mean) if index in standings else None,
                rank=placement.rank,
                reward=placement.reward,
                advantage=placement.advantage,
            )
            for index, placement in sorted(placed.items())
        ]
        return self.ranking(matches, ranked, "complete", "none" if level else "ok")

    def ranking(
        self,
        matches: tuple[Match, ...],
        ranked: list[Ranked],
        status: Literal["complete", "incomplete"],
        signal: Signal,
    ) -> GroupRanking:
        failed = tuple(key for key, verdict in self.verdicts.items() if isinstance(verdict, Unjudged))
        return GroupRanking(
            query=self.query.id,
            topology=self.sketch.topology,
            estimator="tiers",
            status=status,
            signal=signal,
            matches=matches,
            rollouts=tuple(ranked),
            failed_verdicts=failed,
            judged=len(self.verdicts) - len(failed),
            judge_usage=Usage(requests=len(self.verdicts)),
            judge_usd=None if self.price is None else self.price * len(self.verdicts),
            notes=self.sketch.notes,
        )

    def can_judge(self, pairing: Pairing) -> bool:
        verdicts = [self.verdict(*order) for order in pairing.orders]  # every order is judged, also after a failure
        return all(isinstance(verdict, Judged) for verdict in verdicts)

    def judged(self, pairing: Pairing) -> list[tuple[int, Judged]]:
        """Return the rollout shown first and the verdict of each order that did not fail."""
        verdicts = [(first, self.verdict(first, second)) for first, second in pairing.orders]
        return [(first, verdict) for first, verdict in verdicts if isinstance(verdict, Judged)]

    def score(self, pairing: Pairing, entrant: int) -> Fraction:
        marks = [
            Fraction(repr((verdict.a if first == entrant else verdict.b).combined))
            for first, verdict in self.judged(pairing)
        ]
        return sum(marks, Fraction()) / len(marks)

    def match(self, played: Played) -> Match:
        pairing = played.pairing
        judged = self.judged(pairing)
        winners = {
            {"A": first, "B": pairing.b if first == pairing.a else pairing.a}.get(verdict.winner)
            for first, verdict in judged
        }
        a, b = float(played.score_a), float(played.score_b)
        return Match(
            round=pairing.round,
            a=pairing.a,
            b=pairing.b,
            verdicts=tuple(verdict.key for _, verdict in judged),
            shown_first=tuple(first for first, _ in judged),
            score_a=a,
            score_b=b,
            winner=None if a == b else pairing.a if a > b else pairing.b,
            flipped=None not in winners and len(winners) > 1,
            inconsistent=None in winners and len(winners) > 1,
            repeated=played.repeated,
            scores=tuple((verdict.a.combined, verdict.b.combined) for _, verdict in judged),
        )

    def verdict(self, first: int, second: int) -> Judged | Unjudged:
        shown = [transcribe(self.rollouts[index].trajectory).hash for index in (first, second)]
        key = hashlib.sha256(" ".join([self.query.id, *shown]).encode()).hexdigest()
        if key not in self.verdicts:
            make = self.refused if self.sketch.refuse(first, second) else self.granted
            self.verdicts[key] = make(key, first, second)
        return self.verdicts[key]

    def refused(self, key: str, first: int, second: int) -> Unjudged:
        message = "path_scores.LLM_A.logic is missing. " + EVIL
        return Unjudged(
            **self.asked_for(key, first, second),
            failure=Failure(kind="output", type="ReplyError", message=message, turn=2),
        )

    def granted(self, key: str, first: int, second: int) -> Judged:
        a, b = self.scores(first, second, first=True), self.scores(second, first, first=False)
        return Judged(
            **self.asked_for(key, first, second),
            a=a,
            b=b,
            winner="tie" if a.combined == b.combined else "A" if a.combined > b.combined else "B",
            analysis={
                f"{block}_{side}": f"The {block} of {side} keeps to the request; see its second step. {EVIL[:60]}"
                for block in ("path", "answer")
                for side in "AB"
            },
            claims={"winner": "LLM_B", "combined_scores.LLM_A": 7.25} if (first + second) % 5 == 3 else {},
            repaired=first == 3,
        )

    def asked_for(self, key: str, first: int, second: int) -> dict[str, Any]:
        """Return what verdicts have in common, failed or not."""
        return {
            "key": key,
            "query": self.query.id,
            "first": transcribe(self.rollouts[first].trajectory).hash,
            "second": transcribe(self.rollouts[second].trajectory).hash,
            "rubric": RUBRIC,
            "judge": self.judge,
            "form": "json_schema",
            "usage": Usage(requests=1, input=5200, output=640),
            "price_usd": self.price,
            "started_at": START + timedelta(seconds=40 + len(self.verdicts)),
            "duration_s": 3.4,
        }

    def scores(self, entrant: int, opponent: int, *, first: bool) -> SideScores:
        base, shift = self.sketch.rollouts[entrant].marks, self.sketch.shift(entrant, opponent, first)
        marks = {name: max(0, min(10, m + shift)) for name, m in zip(PATH_MARKS + ANSWER_MARKS, base, strict=True)}
        path, answer = (round(sum(marks[name] for name in names) / len(names)) for names in (PATH_MARKS, ANSWER_MARKS))
        return SideScores(dimensions=marks, path=path, answer=answer, combined=round(0.4 * path + 0.6 * answer, 1))


def crowd(n: int, **more: Any) -> QuerySketch:
    """N rollouts, no two alike, that a steady judge tells apart."""
    rollouts = [
        RolloutSketch(answer=f"Answer number {i}.", marks=tuple(3 + (i * 5 + d * 3) % (4 + i % 4) for d in range(7)))
        for i in range(n)
    ]
    return QuerySketch(rollouts, **more)


def hostile(n: int = 5) -> QuerySketch:
    """Every text that an agent, a user or a judge can write is hostile."""
    step = Step(
        kind="tool",
        reasoning=EVIL,
        tool_name=HOSTILE[0],
        tool_input=HOSTILE[1],
        tool_output=EVIL * 3,
        error=HOSTILE[2],
        tool_type="function",
        agent=HOSTILE[0],
    )
    rollouts = [
        RolloutSketch(
            answer=f"{i} {EVIL}",
            path=(step, Step(kind="message", reasoning=HOSTILE[3], agent="other")) * (i + 1),
            marks=(i + 2,) * 7,
        )
        for i in range(n)
    ]
    rollouts[-1].failure, rollouts[-1].message = "tool", EVIL
    return QuerySketch(
        rollouts,
        query=f"Why? {EVIL}",
        reference=EVIL,
        notes=(EVIL,),
        refuse=lambda first, second: (first, second) == (2, 1),
    )
