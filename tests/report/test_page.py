"""The page: what it says, what it never lets through, and how it behaves in a real browser."""

import hashlib
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.archive import RankingFile, RankingHead, RunInfo, RunReader, RunStore
from harness.ranking import Arena, Pairing, Played, Single, place, tiers
from harness.records import (
    Effective,
    Failure,
    FailureKind,
    GroupRanking,
    Judged,
    Match,
    ModelCall,
    Query,
    Ranked,
    Rollout,
    Sampling,
    SideScores,
    Signal,
    Step,
    Trajectory,
    Unjudged,
    Usage,
)
from harness.report.page import render_page, write_page
from harness.transcript import transcribe

START = datetime(2026, 7, 21, 14, 3, 20, tzinfo=UTC)
PATH_MARKS = ("understanding", "logic", "richness")
ANSWER_MARKS = ("relevance", "content_quality", "language_style", "clarity")
SCRIPT = "</script><img src=x onerror=\"window.pwned='img'\">"
HOSTILE = (
    SCRIPT,
    "\"><svg onload=\"window.pwned='svg'\">",
    "'><a href=\"javascript:window.pwned='a'\">click</a></details></style><style>*{display:none}</style>",
    "{{ 7*7 }}{% raw %} &lt;b&gt; ]]> <!-- \x00\x07\x1b[31m\x7f red \u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd",
    "W" * 900,
)
EVIL = " ".join(HOSTILE)


# ---- Archives by hand


@dataclass
class Written:
    """What one rollout of the example does. `marks` are its seven marks before a match shifts them."""

    answer: str = "A short answer."
    path: tuple[Step, ...] = (Step(kind="tool", reasoning="Look it up.", tool_name="search", tool_input="{}",
                                   tool_output="Found.", tool_type="function"),)  # fmt: skip
    marks: tuple[int, ...] = (6, 6, 6, 6, 6, 6, 6)
    failure: FailureKind | None = None
    message: str = "it did not work out"


@dataclass
class Asked:
    """A query of the example and its rollouts; rollout 0 is the anchor."""

    written: Sequence[Written]
    query: str = "Why is the sky blue?"
    refuse: Callable[[int, int], bool] = lambda first, second: False
    """Whether the verdict that shows `first` first fails."""
    shift: Callable[[int, int, bool], int] = lambda own, other, first: 0
    """Added to all marks of `own` against `other`, `first` when it is shown first."""
    topology: str = "arena"
    reference: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Built:
    """A finished archive, open for reading."""

    reader: RunReader
    ranking: RankingFile
    folder: Path
    verdicts: dict[str, Judged | Unjudged] = field(default_factory=dict)


def build(runs: Path, *asked: Asked, offline: bool = False, agent: str = "search", run: str = "20260721T140320-search-1a2b3c",
          finish: bool = True, judge: str = "gpt-5-mini@api.openai.com", price: float | None = 0.0004) -> Built:  # fmt: skip
    info = RunInfo(
        schema_version=1, id=run, created_at=START, agent=agent, agent_file="agents_config/search.py",
        settings={"n": 8, "order": "both"}, judge={"model": "gpt-5-mini", "base_url": None, "api": "responses"},
        offline=offline, agent_offline=offline, versions={"harness": "0.1.0", "openai-agents": "0.24.0", "python": "3.11.7"},
    )  # fmt: skip
    head = RankingHead(
        id="20260721T140320-first", created_at=START, settings={"topology": "arena", "estimator": "tiers", "order": "both"},
        judge=dict(info.judge), rubric="writing@1 0f1e2d3c4b5a",
    )  # fmt: skip
    verdicts: dict[str, Judged | Unjudged] = {}
    with RunStore.create(runs, info) as store:
        writer = store.open_ranking(head)
        for number, one in enumerate(asked):
            query = Query(id=f"query-{number}", text=one.query, reference=one.reference)
            store.add_query(query)
            rollouts = [rollout(run, query, i, w, one) for i, w in enumerate(one.written)]
            for made in rollouts:
                store.add_rollout(made)
            table = Table(query, rollouts, one, judge, price)
            ranked = table.rank()
            for verdict in table.verdicts.values():
                store.add_verdict(verdict)
            verdicts |= table.verdicts
            writer.add(ranked)
        if finish:
            writer.finish()
    reader = RunReader(runs / run)
    return Built(reader, reader.ranking(), runs / run, verdicts)


def rollout(run: str, query: Query, index: int, written: Written, asked: Asked) -> Rollout:
    role = "anchor" if index == 0 and asked.topology == "arena" else "sample"
    asked_for = Sampling(temperature=0.0 if role == "anchor" else 0.8, model="gpt-5")
    failure = Failure(kind=written.failure, type="SomeError", message=written.message, turn=2) if written.failure else None
    words = sum(len((s.tool_output or "") + (s.reasoning or "")) for s in written.path) // 4
    return Rollout(
        run=run, query=query.id, index=index, role=role, requested=asked_for,
        effective=Effective(uniform=True, temperature=asked_for.temperature, models=("gpt-5-2026-05-01",)),
        calls=(ModelCall(model="gpt-5", replied_model="gpt-5-2026-05-01", temperature=asked_for.temperature),),
        status="failed" if failure else "ok", failure=failure,
        trajectory=Trajectory(query=query.text, path=written.path, answer="" if failure else written.answer),
        usage=Usage(requests=len(written.path) + 1, input=1800 + words, output=420 + 7 * index),
        price_usd=0.0031 + index * 0.0002, fingerprint="ab" * 32, started_at=START + timedelta(seconds=index / 4),
        duration_s=11.2 + index * 1.7, tool_names=("search",), instructions="Search first, then answer in 250 words.",
    )  # fmt: skip


class Table:
    """Plays one group's tournament and keeps the verdicts."""

    def __init__(self, query: Query, rollouts: Sequence[Rollout], asked: Asked, judge: str, price: float | None) -> None:
        self.query, self.asked, self.judge, self.price = query, asked, judge, price
        self.rollouts = {r.index: r for r in rollouts}
        self.verdicts: dict[str, Judged | Unjudged] = {}
        self.failed: list[str] = []

    def rank(self) -> GroupRanking:
        able = [i for i, r in self.rollouts.items() if r.status == "ok"]
        lost = [i for i in self.rollouts if i not in able]
        if not able:
            return self.ranking((), [Ranked(index=i) for i in lost], "complete", "none")
        if self.asked.topology == "single":
            topology = Single(able[::-1])
        else:
            topology = Arena(able, 0)
        while pairings := [p for p in topology.pairings() if self.judged(p)]:
            for pairing in pairings:
                scores = [self.side(pairing, e) for e in (pairing.a, pairing.b)]
                topology.record(pairing, *scores)
        matches = tuple(self.match(played) for played in topology.matches)
        if topology.pairings():
            unranked = [Ranked(index=i) for i in self.rollouts]
            return self.ranking(matches, unranked, "incomplete", "ok")
        standings = {s.entrant: s for s in topology.standings()}
        level = len({s for m in matches for s in (m.score_a, m.score_b)}) < 2
        placed = place(tiers(list(standings.values())), lost, tied=level)
        ranked = [
            Ranked(index=i, score=float(standings[i].mean) if i in standings else None, rank=p.rank, reward=p.reward,
                   advantage=p.advantage)
            for i, p in sorted(placed.items())
        ]  # fmt: skip
        return self.ranking(matches, ranked, "complete", "none" if level else "ok")

    def ranking(self, matches: tuple[Match, ...], ranked: list[Ranked], status: str, signal: Signal) -> GroupRanking:
        return GroupRanking(
            query=self.query.id, topology=self.asked.topology, estimator="tiers", status=status, signal=signal,
            matches=matches, rollouts=tuple(ranked), failed_verdicts=tuple(dict.fromkeys(self.failed)),
            judged=len(self.verdicts) - len(set(self.failed)),
            judge_usage=Usage(requests=len(self.verdicts)),
            judge_usd=None if self.price is None else self.price * len(self.verdicts), notes=self.asked.notes,
        )  # fmt: skip

    def judged(self, pairing: Pairing) -> bool:
        return all([isinstance(self.verdict(*order), Judged) for order in pairing.orders])

    def side(self, pairing: Pairing, entrant: int) -> Fraction:
        found = [(first, self.verdict(first, second)) for first, second in pairing.orders]
        marks = [Fraction(repr((v.a if first == entrant else v.b).combined)) for first, v in found if isinstance(v, Judged)]
        return sum(marks, Fraction()) / len(marks)

    def match(self, played: Played) -> Match:
        pairing = played.pairing
        used = [(first, self.verdict(first, second)) for first, second in pairing.orders]
        named = [{"A": first, "B": pairing.b if first == pairing.a else pairing.a}.get(v.winner)
                 for first, v in used if isinstance(v, Judged)]  # fmt: skip
        a, b = float(played.score_a), float(played.score_b)
        return Match(
            round=pairing.round, a=pairing.a, b=pairing.b, verdicts=tuple(v.key for _, v in used),
            shown_first=tuple(first for first, _ in used), score_a=a, score_b=b,
            winner=None if a == b else pairing.a if a > b else pairing.b,
            flipped=None not in named and len(set(named)) > 1, inconsistent=None in named and len(set(named)) > 1,
            repeated=played.repeated,
        )  # fmt: skip

    def verdict(self, first: int, second: int) -> Judged | Unjudged:
        one, two = (transcribe(self.rollouts[i].trajectory).hash for i in (first, second))
        key = hashlib.sha256(f"{self.query.id} {one} {two}".encode()).hexdigest()
        if key not in self.verdicts:
            known = {
                "key": key, "query": self.query.id, "first": one, "second": two, "rubric": "writing@1 0f1e2d3c4b5a",
                "judge": self.judge, "form": "json_schema", "usage": Usage(requests=1, input=5200, output=640),
                "price_usd": self.price, "started_at": START + timedelta(seconds=40 + len(self.verdicts)), "duration_s": 3.4,
            }  # fmt: skip
            if self.asked.refuse(first, second):
                self.failed.append(key)
                failure = Failure(kind="output", type="ReplyError", message="path_scores.LLM_A.logic is missing. " + EVIL, turn=2)
                self.verdicts[key] = Unjudged.model_validate(known | {"failure": failure})
            else:
                a, b = self.scores(first, second, first=True), self.scores(second, first, first=False)
                winner = "tie" if a.combined == b.combined else "A" if a.combined > b.combined else "B"
                said = {f"{block}_{side}": f"The {block} of {side} keeps to the request; see its second step. {EVIL[:60]}"
                        for block in ("path", "answer") for side in "AB"}  # fmt: skip
                claims = {"winner": "LLM_B", "combined_scores.LLM_A": 7.25} if (first + second) % 5 == 3 else {}
                self.verdicts[key] = Judged.model_validate(
                    known | {"a": a, "b": b, "winner": winner, "analysis": said, "claims": claims, "repaired": first == 3}
                )
        return self.verdicts[key]

    def scores(self, own: int, other: int, *, first: bool) -> SideScores:
        base, shift = self.asked.written[own].marks, self.asked.shift(own, other, first)
        marks = {name: max(0, min(10, m + shift)) for name, m in zip(PATH_MARKS + ANSWER_MARKS, base, strict=True)}
        path, answer = (round(sum(marks[k] for k in keys) / len(keys)) for keys in (PATH_MARKS, ANSWER_MARKS))
        return SideScores(dimensions=marks, path=path, answer=answer, combined=round(0.4 * path + 0.6 * answer, 1))


def crowd(n: int, **more: object) -> Asked:
    """N rollouts, no two alike, that a steady judge tells apart."""
    written = [
        Written(answer=f"Answer number {i}.", marks=tuple(3 + (i * 5 + d * 3) % (4 + i % 4) for d in range(7)))
        for i in range(n)
    ]
    return Asked(written, **more)  # type: ignore[arg-type]
