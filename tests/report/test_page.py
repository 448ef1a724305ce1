"""The page: what it says, what it never lets through, and how it behaves in a real browser."""

import hashlib
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from harness.archive import RankingFile, RankingHead, RunInfo, RunReader, RunStore
from harness.core.rankings import GroupRanking, Match, Ranked, Signal
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
from harness.core.verdicts import Judged, SideScores, Unjudged
from harness.ranking import Pairing, Played, place
from harness.ranking.arena import Arena
from harness.ranking.single import Single
from harness.ranking.tiers import tiers
from harness.report.html.page import render_page, write_page
from harness.report.terminal.group import group_lines
from harness.transcripts.transcript import transcribe

START = datetime(2026, 7, 21, 14, 3, 20, tzinfo=UTC)
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


# ---- Archives by hand


@dataclass
class Written:
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


def build(
    runs: Path,
    *asked: Asked,
    offline: bool = False,
    agent: str = "search",
    run: str = "20260721T140320-search-1a2b3c",
    finish: bool = True,
    judge: str = "gpt-5-mini@api.openai.com",
    price: float | None = 0.0004,
) -> Built:
    info = RunInfo(
        schema_version=1,
        id=run,
        created_at=START,
        agent=agent,
        agent_file="agents_config/search.py",
        settings={"n": 8, "order": "both"},
        judge={"model": "gpt-5-mini", "base_url": None, "api": "responses"},
        offline=offline,
        agent_offline=offline,
        versions={"harness": "0.1.0", "openai-agents": "0.24.0", "python": "3.11.7"},
    )
    head = RankingHead(
        id="20260721T140320-first",
        created_at=START,
        settings={"topology": "arena", "estimator": "tiers", "order": "both"},
        judge=dict(info.judge),
        rubric="writing@1 0f1e2d3c4b5a",
    )
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
            writer.add(ranked)
        if finish:
            writer.finish()
        writer.close()
    reader = RunReader(runs / run)
    return Built(reader, reader.ranking(), runs / run)


def rollout(run: str, query: Query, index: int, written: Written, asked: Asked) -> Rollout:
    role = "anchor" if index == 0 and asked.topology == "arena" else "sample"
    asked_for = Sampling(temperature=0.0 if role == "anchor" else 0.8, model="gpt-5")
    failure = (
        Failure(kind=written.failure, type="SomeError", message=written.message, turn=2) if written.failure else None
    )
    words = sum(len((s.tool_output or "") + (s.reasoning or "")) for s in written.path) // 4
    return Rollout(
        run=run,
        query=query.id,
        index=index,
        role=role,
        requested=asked_for,
        effective=Effective(uniform=True, temperature=asked_for.temperature, models=("gpt-5-2026-05-01",)),
        calls=(ModelCall(model="gpt-5", replied_model="gpt-5-2026-05-01", temperature=asked_for.temperature),),
        status="failed" if failure else "ok",
        failure=failure,
        trajectory=Trajectory(query=query.text, path=written.path, answer="" if failure else written.answer),
        usage=Usage(requests=len(written.path) + 1, input=1800 + words, output=420 + 7 * index),
        price_usd=0.0031 + index * 0.0002,
        fingerprint="ab" * 32,
        started_at=START + timedelta(seconds=index / 4),
        duration_s=11.2 + index * 1.7,
        tool_names=("search",),
        instructions="Search first, then answer in 250 words.",
    )


class Table:
    """Plays one group's tournament and keeps the verdicts."""

    def __init__(
        self, query: Query, rollouts: Sequence[Rollout], asked: Asked, judge: str, price: float | None
    ) -> None:
        self.query, self.asked, self.judge, self.price = query, asked, judge, price
        self.rollouts = {r.index: r for r in rollouts}
        self.verdicts: dict[str, Judged | Unjudged] = {}
        self.failed: list[str] = []

    def rank(self) -> GroupRanking:
        able = [i for i, r in self.rollouts.items() if r.status == "ok"]
        lost = [i for i in self.rollouts if i not in able]
        if not able:
            return self.ranking((), [Ranked(index=i) for i in lost], "complete", "none")
        topology = Single(able[::-1]) if self.asked.topology == "single" else Arena(able, 0)
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
            Ranked(
                index=i,
                score=float(standings[i].mean) if i in standings else None,
                rank=p.rank,
                reward=p.reward,
                advantage=p.advantage,
            )
            for i, p in sorted(placed.items())
        ]
        return self.ranking(matches, ranked, "complete", "none" if level else "ok")

    def ranking(
        self,
        matches: tuple[Match, ...],
        ranked: list[Ranked],
        status: Literal["complete", "incomplete"],
        signal: Signal,
    ) -> GroupRanking:
        return GroupRanking(
            query=self.query.id,
            topology=self.asked.topology,
            estimator="tiers",
            status=status,
            signal=signal,
            matches=matches,
            rollouts=tuple(ranked),
            failed_verdicts=tuple(dict.fromkeys(self.failed)),
            judged=len(self.verdicts) - len(set(self.failed)),
            judge_usage=Usage(requests=len(self.verdicts)),
            judge_usd=None if self.price is None else self.price * len(self.verdicts),
            notes=self.asked.notes,
        )

    def judged(self, pairing: Pairing) -> bool:
        found = [self.verdict(*order) for order in pairing.orders]  # every order is asked for, also after a failure
        return all(isinstance(verdict, Judged) for verdict in found)

    def side(self, pairing: Pairing, entrant: int) -> Fraction:
        found = [(first, self.verdict(first, second)) for first, second in pairing.orders]
        marks = [
            Fraction(repr((v.a if first == entrant else v.b).combined)) for first, v in found if isinstance(v, Judged)
        ]
        return sum(marks, Fraction()) / len(marks)

    def match(self, played: Played) -> Match:
        pairing = played.pairing
        used = [(first, self.verdict(first, second)) for first, second in pairing.orders]
        named = [
            {"A": first, "B": pairing.b if first == pairing.a else pairing.a}.get(v.winner)
            for first, v in used
            if isinstance(v, Judged)
        ]
        a, b = float(played.score_a), float(played.score_b)
        return Match(
            round=pairing.round,
            a=pairing.a,
            b=pairing.b,
            verdicts=tuple(v.key for _, v in used),
            shown_first=tuple(first for first, _ in used),
            score_a=a,
            score_b=b,
            winner=None if a == b else pairing.a if a > b else pairing.b,
            flipped=None not in named and len(set(named)) > 1,
            inconsistent=None in named and len(set(named)) > 1,
            repeated=played.repeated,
        )

    def verdict(self, first: int, second: int) -> Judged | Unjudged:
        one, two = (transcribe(self.rollouts[i].trajectory).hash for i in (first, second))
        key = hashlib.sha256(f"{self.query.id} {one} {two}".encode()).hexdigest()
        if key not in self.verdicts:
            known = {
                "key": key,
                "query": self.query.id,
                "first": one,
                "second": two,
                "rubric": "writing@1 0f1e2d3c4b5a",
                "judge": self.judge,
                "form": "json_schema",
                "usage": Usage(requests=1, input=5200, output=640),
                "price_usd": self.price,
                "started_at": START + timedelta(seconds=40 + len(self.verdicts)),
                "duration_s": 3.4,
            }
            if self.asked.refuse(first, second):
                self.failed.append(key)
                failure = Failure(
                    kind="output", type="ReplyError", message="path_scores.LLM_A.logic is missing. " + EVIL, turn=2
                )
                self.verdicts[key] = Unjudged.model_validate(known | {"failure": failure})
            else:
                a, b = self.scores(first, second, first=True), self.scores(second, first, first=False)
                winner = "tie" if a.combined == b.combined else "A" if a.combined > b.combined else "B"
                said = {
                    f"{block}_{side}": f"The {block} of {side} keeps to the request; see its second step. {EVIL[:60]}"
                    for block in ("path", "answer")
                    for side in "AB"
                }
                claims = {"winner": "LLM_B", "combined_scores.LLM_A": 7.25} if (first + second) % 5 == 3 else {}
                self.verdicts[key] = Judged.model_validate(
                    known
                    | {"a": a, "b": b, "winner": winner, "analysis": said, "claims": claims, "repaired": first == 3}
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


# ---- Reading the page


VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
TAGS = {
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "header",
    "main",
    "footer",
    "nav",
    "section",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "p",
    "dl",
    "dt",
    "dd",
    "div",
    "span",
    "bdi",
    "b",
    "i",
    "code",
    "a",
    "ul",
    "ol",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
}


class Page(HTMLParser):
    """The page's elements and attributes, its text, and the text of each element with an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[tuple[str, str | None]] = []
        self.said: list[str] = []
        self.under: dict[str, list[str]] = {}
        self.style = ""
        self.faults: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = {k: v or "" for k, v in attrs}
        self.elements.append((tag, found))
        if tag not in VOID:
            self.open.append((tag, found.get("id")))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop()[0] != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "style":
            self.style += data
            return
        self.said.append(data)
        for _, name in self.open:
            if name:
                self.under.setdefault(name, []).append(data)

    def text(self, name: str | None = None) -> str:
        return " ".join(" ".join(self.said if name is None else self.under[name]).split())

    def ids(self) -> list[str]:
        return [a["id"] for _, a in self.elements if "id" in a]

    def links(self) -> list[str]:
        return [a["href"] for t, a in self.elements if t == "a"]

    def count(self, tag: str, name: str) -> int:
        return sum(t == tag and name in a.get("class", "").split() for t, a in self.elements)


def page_of(built: Built) -> Page:
    return Page(render_page(built.reader, built.ranking))


def hostile(n: int = 5) -> Asked:
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
    written = [
        Written(
            answer=f"{i} {EVIL}",
            path=(step, Step(kind="message", reasoning=HOSTILE[3], agent="other")) * (i + 1),
            marks=(i + 2,) * 7,
        )
        for i in range(n)
    ]
    written[-1].failure, written[-1].message = "tool", EVIL
    return Asked(
        written,
        query=f"Why? {EVIL}",
        reference=EVIL,
        notes=(EVIL,),
        refuse=lambda first, second: (first, second) == (2, 1),
    )


# ---- What it says


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 16])
def test_every_rollout_and_every_match_is_there_and_every_link_leads_somewhere(n, tmp_path):
    built = build(tmp_path, crowd(n))
    page, ranked = page_of(built), built.ranking.groups[0]
    assert len(ranked.matches) == 2 * (n - 1)
    assert {f"q1-r{i}" for i in range(n)} | {f"q1-m{i + 1}" for i in range(len(ranked.matches))} <= set(page.ids())
    assert page.count("details", "match") == len(ranked.matches)
    for number, match in enumerate(ranked.matches, 1):
        text = page.text(f"q1-m{number}")
        for side, score in ((match.a, match.score_a), (match.b, match.score_b)):
            assert f"Rollout {side}" in text
            assert f"{score:.2f}" in text
            assert f"Answer number {side}." in text
        for first in match.shown_first:
            assert f"Rollout {first} shown first" in text
    assert {link[1:] for link in page.links()} <= set(page.ids())
    assert len(page.ids()) == len(set(page.ids()))
    assert ("carries no signal" in page.text()) == (n == 1)


@pytest.mark.parametrize("topology", ["arena", "single"])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 16])
def test_the_bracket_has_a_place_for_every_match_and_as_many_byes_as_empty_places(n, topology, tmp_path):
    built = build(tmp_path, crowd(n, topology=topology))
    page, matches = page_of(built), built.ranking.groups[0].matches
    places = 1 << (n - 1).bit_length()
    assert page.count("li", "match") == sum(m.round > 0 for m in matches) == n - 1
    assert page.count("li", "bye") == places - n
    assert page.count("li", "open") == 0
    assert page.count("a", "champion") == 1
    assert page.count("table", "seeding") == (topology == "arena")
    best = next(r.index for r in built.ranking.groups[0].rollouts if r.rank == 0)
    assert [a["href"] for _, a in page.elements if "champion" in a.get("class", "")] == [f"#q1-r{best}"]


def test_a_tie_sends_the_better_seed_on_and_level_judging_is_said_to_tell_nothing(tmp_path):
    built = build(tmp_path, Asked([Written(answer=f"Answer {i}.") for i in range(4)]))
    page = page_of(built)
    assert "All 4 rollouts share one rank." in page.text()
    assert [a["href"] for _, a in page.elements if "champion" in a.get("class", "")] == ["#q1-r0"]
    assert "=1" in page.text("q1")


def test_two_rollouts_with_one_transcript_share_a_verdict_and_the_page_says_so(tmp_path):
    built = build(tmp_path, Asked([Written(answer="The same."), Written(answer="The same.")]))
    assert "one verdict stands for both orders" in page_of(built).text("q1-m1")


@pytest.mark.parametrize("failing", [(3, 0), (0, 6)])
def test_a_seeding_match_that_is_open_keeps_the_bracket_from_beginning(failing, tmp_path):
    page = page_of(build(tmp_path, crowd(8, refuse=lambda *pair: pair == failing)))
    assert "The bracket has not begun." in page.text()
    assert page.count("table", "seeding") == 1
    assert "unranked" in page.text("q1")


@pytest.mark.parametrize("topology", ["arena", "single"])
def test_any_match_of_a_bracket_may_be_open(topology, tmp_path):
    whole = build(tmp_path / "whole", crowd(6, topology=topology)).ranking.groups[0].matches
    for match in (m for m in whole if m.round and not m.repeated):
        pair = (match.a, match.b)
        built = build(
            tmp_path / f"{match.round}-{match.a}", crowd(6, topology=topology, refuse=lambda *p, pair=pair: p == pair)
        )
        page, played = page_of(built), built.ranking.groups[0].matches
        assert page.count("li", "match") == sum(m.round > 0 for m in played)
        assert page.count("a", "champion") == 0
        assert page.count("details", "match") == len(played)
        assert f"Rollout {pair[0]} against rollout {pair[1]}" in page.text()
        if topology == "arena":
            assert page.count("li", "match") + page.count("li", "open") == 5


def test_matches_that_form_no_bracket_are_shown_round_by_round(tmp_path):
    built = build(tmp_path, crowd(4))
    group = built.ranking.groups[0]
    swiss = group.model_copy(update={"topology": "swiss", "matches": tuple(m for m in group.matches if m.round)})
    odd = group.model_copy(update={"matches": (*group.matches, group.matches[0].model_copy(update={"round": 1}))})
    for one in (swiss, odd):
        page = Page(render_page(built.reader, RankingFile(built.ranking.head, (one,), finished=True)))
        assert page.count("li", "match") == sum(m.round > 0 for m in one.matches)
        assert "Matches by round" in page.text()


def test_the_headline_names_the_first_two_with_scores_agreement_and_reasons(tmp_path):
    written = [Written(marks=(6,) * 7, answer="Anchor."), Written(marks=(8, 8, 8, 8, 8, 5, 8), answer="Sample.")]
    text = page_of(build(tmp_path, Asked(written))).text()
    assert "#1 rollout 1 (sample) beats #2 rollout 0 (anchor): 7.4 v 6, both orders agree." in text
    assert (
        "Won on understanding +2.0, logic +2.0, richness +2.0, relevance +2.0, content quality +2.0, clarity +2.0; "
        "lost on language style −1.0." in text
    )


@pytest.mark.parametrize("met", [True, False])
def test_page_and_terminal_say_in_the_same_words_how_the_first_two_stand(met, tmp_path):
    built = build(tmp_path, crowd(5))
    group = built.ranking.groups[0]
    if not met:
        group = group.model_copy(update={"matches": ()})
    query = next(built.reader.queries())
    said = group_lines(built.reader.group(query), group, built.reader)[0].plain
    first_two = said.split("; won on")[0] if met else said
    assert ("the two never met" in first_two) is not met
    text = Page(render_page(built.reader, RankingFile(built.ranking.head, (group,), finished=True))).text()
    assert f"{first_two}." in text


def test_flips_are_marked_and_counted(tmp_path):
    page = page_of(build(tmp_path, crowd(2, shift=lambda own, other, first: 3 if first else -3)))
    assert "Flips 1 of 1" in page.text("q1")
    assert "First shown wins 100 %" in page.text("q1")
    assert "the two orders name opposite winners" in page.text("q1-m1")


def test_failed_rollouts_stand_with_kind_message_and_the_steps_so_far(tmp_path):
    written = [*crowd(3).written, Written(failure="max_turns", message="Max turns (20) exceeded", answer="")]
    page = page_of(build(tmp_path, Asked(written)))
    assert "Failed rollouts" in page.text()
    assert "Rollout 3 max turns after 1 step, in turn 2" in page.text("q1")
    assert "SomeError: Max turns (20) exceeded" in page.text("q1-r3")
    assert "Found." in page.text("q1-r3")
    assert "1 failed: 1 max turns" in page.text("q1")


def test_a_group_with_nothing_to_rank_has_a_page(tmp_path):
    page = page_of(build(tmp_path, Asked([Written(failure="quota"), Written(failure="network")])))
    assert "No rollout has a place." in page.text()
    assert "No rollout ended well" in page.text()


def test_failed_verdicts_stand_with_who_was_to_be_compared_and_why(tmp_path):
    page = page_of(build(tmp_path, crowd(4, refuse=lambda *pair: pair == (0, 2))))
    text = page.text("q1")
    assert "Rollout 0 against rollout 2" in text
    assert "ReplyError: path_scores.LLM_A.logic is missing." in text
    assert "This group is incomplete." in text


def test_what_the_judge_claimed_against_its_own_marks_and_a_repair_are_shown(tmp_path):
    page = page_of(build(tmp_path, crowd(4)))
    text = page.text()
    assert "combined_scores.LLM_A = 7.25 (LLM_A is rollout 3, LLM_B is rollout 0)" in text
    assert "repaired" in text


@pytest.mark.parametrize("offline", [True, False])
def test_a_self_test_says_so_and_only_a_self_test(offline, tmp_path):
    built = build(tmp_path, crowd(3), offline=offline)
    assert ("its ranks say nothing of any LLM" in page_of(built).text()) is offline


def test_an_effective_temperature_is_shown_where_it_differs(tmp_path):
    built = build(tmp_path, crowd(2))
    assert "effective:" not in page_of(built).text()
    query = next(built.reader.queries())
    changed = (
        built.reader.group(query)
        .rollouts[1]
        .model_copy(update={"effective": Effective(uniform=False, temperature=1.0)})
    )
    with RunStore(built.folder, START + timedelta(days=1)) as store:
        store.add_rollout(changed)
    assert "0.8 effective: 1" in page_of(Built(RunReader(built.folder), built.ranking, built.folder)).text()


def test_an_unknown_price_is_unknown_and_no_zero(tmp_path):
    page = page_of(build(tmp_path, crowd(2), price=None))
    assert "Judging cost unknown" in page.text()


def test_an_unfinished_ranking_says_so_and_owes_the_queries_it_has_not_come_to(tmp_path):
    built = build(tmp_path, crowd(2), crowd(2, query="And the sea?"), finish=False)
    first = RankingFile(built.ranking.head, built.ranking.groups[:1], finished=False)
    text = Page(render_page(built.reader, first)).text()
    assert "This ranking is not finished." in text
    assert "And the sea?" in text
    assert "This ranking has not come to this query yet." in text


def test_up_to_three_queries_stand_one_after_the_other_and_more_are_summed_up_and_folded(tmp_path):
    few = page_of(build(tmp_path / "few", *(crowd(2, query=f"Question {i}?") for i in range(3))))
    assert few.count("details", "one") == 0
    many = page_of(build(tmp_path / "many", *(crowd(3, query=f"Question {i}?") for i in range(4))))
    assert many.count("details", "one") == 4
    assert many.count("table", "index") == 0
    assert "Samples above the anchor" in many.text()
    assert "Agent runs 12 none failed" in many.text()


def test_above_fifty_queries_an_index_names_all_and_the_first_fifty_are_shown(tmp_path):
    built = build(tmp_path, *(crowd(2, query=f"Question {i}?") for i in range(52)))
    page = page_of(built)
    assert page.count("details", "one") == 50
    assert page.count("table", "index") == 1
    assert "Question 51?" in page.text()
    assert f"harness show {built.reader.info.id} --query ID" in page.text()
    assert {link[1:] for link in page.links()} <= set(page.ids())


def test_long_texts_are_cut_beside_a_match_and_the_cut_is_marked(tmp_path):
    step = Step(kind="tool", reasoning="Short thought.", tool_name="read", tool_output="word " * 20_000)
    page = page_of(build(tmp_path, Asked([Written(path=(step,) * 2, answer=f"Answer {i}.") for i in range(2)])))
    text = page.text("q1-m1")
    assert re.search(r"Cut here: 9\d,\d{3} more characters\.", text)
    assert text.count("Short thought.") == 4
    assert "Answer 1." in text


def test_a_group_of_eight_with_thousand_word_paths_stays_small(tmp_path):
    steps = tuple(
        Step(
            kind="tool",
            reasoning="why " * 40,
            tool_name="search",
            tool_input='{"q": "x"}',
            tool_output=f"{k} " + "lorem ipsum " * 80,
        )
        for k in range(5)
    )
    asked = crowd(8)
    for i, one in enumerate(asked.written):
        one.path, one.answer = steps, f"{i} " + "An answer of some length. " * 46
    built = build(tmp_path, asked)
    assert len(render_page(built.reader, built.ranking).encode()) < 1_000_000


# ---- What it never lets through


@pytest.fixture(scope="module")
def evil(tmp_path_factory) -> Built:
    return build(tmp_path_factory.mktemp("evil"), hostile(), agent=HOSTILE[0], judge=HOSTILE[1])


def test_hostile_texts_become_text_and_nothing_else(evil):
    source = render_page(evil.reader, evil.ranking)
    page = Page(source)
    assert page.faults == []
    assert {tag for tag, _ in page.elements} <= TAGS
    assert not any(
        name.startswith("on") or name in {"src", "srcset", "action", "formaction"}
        for _, a in page.elements
        for name in a
    )
    for raw in ("<img", "<svg", "</script", "<script", "javascript:window.pwned='a'\">"):
        assert raw not in source
    assert "</script><img src=x onerror=" in page.text("q1-m1")
    assert "{{ 7*7 }}{% raw %}" in page.text("q1-m1")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", source)


def test_it_begins_with_its_doctype_and_carries_its_own_style(evil):
    source = render_page(evil.reader, evil.ranking)
    assert source.startswith("<!doctype html>")
    assert Page(source).style.strip().startswith(":root {")


def test_nothing_is_asked_for_over_the_network(evil):
    page = page_of(evil)
    assert all(v.startswith("#") or v == "data:," for _, a in page.elements for k, v in a.items() if k == "href")
    assert not re.search(r"url\(|@import|//", page.style)
    assert all("url(" not in a.get("style", "") for _, a in page.elements)
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_the_same_archive_gives_the_same_bytes(evil):
    again = RunReader(evil.folder)
    assert render_page(evil.reader, evil.ranking) == render_page(again, again.ranking())


def test_it_is_written_whole_for_the_owner_alone_and_over_an_older_one(tmp_path):
    built = build(tmp_path, crowd(2))
    target = built.folder / "report.html"
    for _ in range(2):
        write_page(built.reader, built.ranking, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_text("utf-8") == render_page(built.reader, built.ranking)
    assert [p.name for p in built.folder.iterdir() if "report" in p.name] == ["report.html"]


def test_nothing_half_written_is_left_behind(tmp_path):
    built = build(tmp_path, crowd(2))
    target = built.folder / "report.html"
    target.mkdir()
    with pytest.raises(OSError, match="report"):
        write_page(built.reader, built.ranking, target)
    assert [p.name for p in built.folder.iterdir() if "report" in p.name] == ["report.html"]


def test_headings_go_down_one_level_at_a_time_and_tables_have_scopes(tmp_path):
    for asked in ([crowd(5)], [crowd(3)] * 2, [crowd(3)] * 4):
        page = page_of(build(tmp_path / str(len(asked)), *asked))
        levels = [int(t[1]) for t, _ in page.elements if re.fullmatch("h[1-6]", t)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b <= a + 1 for a, b in pairwise(levels))
        assert all("scope" in a for t, a in page.elements if t == "th")
        assert {"header", "main", "footer"} <= {t for t, _ in page.elements}


# ---- In a real browser


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no system browser: chromium, chromium-browser or google-chrome")
    sync_api = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    with sync_api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@dataclass
class Visit:
    """A page open in the browser, and what it asked for and complained of."""

    page: object
    requests: list[str]
    complaints: list[str]


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Visit]]:
    contexts = []

    def go(target: Path, width: int, scheme: str = "light", fragment: str = "", *, scripts: bool = True) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, has_touch=True, java_script_enabled=scripts
        )
        contexts.append(context)
        page, requests, complaints = context.new_page(), [], []
        page.on("request", lambda r: requests.append(r.url))
        page.on("console", lambda m: complaints.append(m.text))
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.goto(target.as_uri() + fragment)
        return Visit(page, requests, complaints)

    yield go
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, evil) -> dict[str, Path]:
    """Pages to look at, each written once."""
    folder = tmp_path_factory.mktemp("pages")
    built = {
        "evil": evil,
        "thirteen": build(folder / "a", crowd(13)),
        "one": build(folder / "b", crowd(1), offline=True),
        "many": build(folder / "c", *(hostile(3) for _ in range(4)), *(crowd(3) for _ in range(48))),
    }
    for name, one in built.items():
        write_page(one.reader, one.ranking, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in built}


OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("name", ["evil", "thirteen", "one", "many"])
def test_it_fits_the_window_asks_for_nothing_and_runs_nothing(name, width, scheme, pages, visit):
    seen = visit(pages[name], width, scheme)
    for script in ("0", OPEN_ALL):  # as it opens, and with everything unfolded
        seen.page.evaluate(script)
        wide, window = seen.page.evaluate(WIDTHS)
        assert wide <= window
    assert seen.page.evaluate("window.pwned") is None
    assert seen.requests == [pages[name].as_uri()]
    assert seen.complaints == []


@pytest.mark.parametrize("width", [375, 1280])
def test_a_match_opens_by_tap_and_shows_both_sides(width, pages, visit):
    seen = visit(pages["evil"], width)
    match = seen.page.locator("details.match").first
    sides = match.locator(".side")
    assert not sides.first.is_visible()
    match.locator("> summary").tap()
    assert sides.count() == 2
    first, second = (sides.nth(i).bounding_box() for i in (0, 1))
    if width == 375:
        assert second["y"] >= first["y"] + first["height"]
    else:
        assert second["x"] >= first["x"] + first["width"]
        assert second["y"] == first["y"]


def test_a_link_from_the_bracket_opens_its_match_without_any_script(pages, visit):
    seen = visit(pages["thirteen"], 1280, scripts=False)
    link = seen.page.locator("a.box[href^='#q1-m']").first
    body = seen.page.locator(link.get_attribute("href"))
    assert not body.is_visible()
    link.click()
    body.wait_for(state="visible", timeout=5000)
    assert seen.complaints == []


def test_the_brackets_lines_meet_the_boxes_they_join(pages, visit):
    page = visit(pages["thirteen"], 1280).page
    centres = [
        [
            box["y"] + box["height"] / 2
            for cell in column.locator("li.cell").all()
            if (box := cell.locator(".box").bounding_box())
        ]
        for column in page.locator(".round").all()
    ]
    assert [len(c) for c in centres] == [8, 4, 2, 1, 1]
    for left, right in pairwise(centres):
        step = len(left) // len(right)
        for i, centre in enumerate(right):
            assert centre == pytest.approx(sum(left[i * step : (i + 1) * step]) / step, abs=1.0)


WORST_CONTRAST = """() => {
  const channel = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = css => {
    const [r, g, b] = css.match(/[0-9]+/g).map(v => channel(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const css = getComputedStyle(e).backgroundColor;
      if (!css.startsWith('rgba(0, 0, 0, 0')) return css;
    }
    return 'rgb(255, 255, 255)';
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let worst = [99, ''];
  for (let n; n = texts.nextNode();) {
    if (!n.data.trim()) continue;
    const e = n.parentElement;
    const [low, high] = [light(getComputedStyle(e).color), light(behind(e))].sort((p, q) => p - q);
    const ratio = (high + .05) / (low + .05);
    if (ratio < worst[0]) worst = [ratio, e.className + ': ' + n.data.slice(0, 40)];
  }
  return worst;
}"""


def test_text_has_contrast_enough_to_read(pages, visit):
    for scheme in ("light", "dark"):
        worst, where = visit(pages["evil"], 1280, scheme).page.evaluate(WORST_CONTRAST)
        assert worst >= 4.5, where
