"""A run as one self-contained HTML page, drawn from its archive and one ranking alone.

Every text of an archive is another's: it goes through `clean`, is escaped, and is set apart from the text around
it. The page asks for nothing over the network and runs no script.
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.archive import RankingFile, RunReader
from harness.ranking import exact, seeded_order
from harness.records import (
    Group,
    GroupRanking,
    Judged,
    Match,
    Query,
    Rollout,
    SideScores,
    Step,
    Trajectory,
    Unjudged,
)
from harness.report.figures import (
    AgentFigures,
    Duel,
    JudgeFigures,
    Row,
    Verdicts,
    agent_figures,
    duel,
    judge_figures,
    rows,
    samples_beat_anchor,
)
from harness.report.machine import is_offline
from harness.report.tables import money, place_of
from harness.transcript import clean, transcribe

_SUMMARY_ABOVE = 3
_DETAILED = 50
_ANSWER = 4_000
"""Characters of an answer that are shown however many there are; it is what was judged."""
_SLACK = 60
"""Characters more than its room that a text may have: to be told that three are missing helps no one."""
_LONG = 320
"""Characters above which a text of a path is folded away behind its beginning."""


@dataclass(frozen=True)
class _Room:
    """How many characters a path gets: what there is for all of them together, within bounds for one."""

    together: int
    least: int
    most: int

    def each(self, count: int) -> int:
        return max(self.least, min(self.most, self.together // max(1, count)))


_BESIDE_A_MATCH = _Room(together=700_000, least=800, most=16_000)
_ALONE = _Room(together=1_500_000, least=3_000, most=60_000)


def write_page(reader: RunReader, ranking: RankingFile, target: Path) -> None:
    """Write the page of `ranking` to `target` (mode 0600), whole or not at all."""
    page = render_page(reader, ranking)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def render_page(reader: RunReader, ranking: RankingFile) -> str:
    """Return the page of `ranking`: the same archive gives the same text.

    Above 3 queries it opens with a summary; above 50 only the first 50 are shown in full, and the page says so.
    """
    glances = [_glance(reader, number, *pair) for number, pair in enumerate(_ranked_queries(reader, ranking), 1)]
    shown = glances[:_DETAILED]
    drawing = _Drawing(
        reader=reader,
        beside=_BESIDE_A_MATCH.each(2 * sum(len(glance.ranking.matches) for glance in shown)),
        alone=_ALONE.each(sum(glance.agents.runs for glance in shown)),
        failed=_failed_verdicts(reader, shown),
    )
    return _template().render(
        info=reader.info,
        offline=is_offline(reader, ranking),
        finished=ranking.finished,
        about=_run_facts(reader, ranking, glances),
        groups=[drawing.group(glance) for glance in shown],
        glances=glances,
        summary=_summary(reader, glances) if len(glances) > _SUMMARY_ABOVE else None,
        rollouts=sum(glance.agents.runs for glance in glances),
    )


def _ranked_queries(reader: RunReader, ranking: RankingFile) -> list[tuple[Query, GroupRanking]]:
    """Return the queries with their rankings. A ranking still under way owes the rest: those count as incomplete."""
    ranked = {group.query: group for group in ranking.groups}
    if not ranking.finished:
        settings = ranking.head.settings
        for query in reader.queries():
            ranked.setdefault(query.id, _owed(query, str(settings.get("topology")), str(settings.get("estimator"))))
    return [(query, ranked[query.id]) for query in reader.queries() if query.id in ranked]


def _owed(query: Query, topology: str, estimator: str) -> GroupRanking:
    return GroupRanking(
        query=query.id, topology=topology, estimator=estimator, status="incomplete", signal="none",
        notes=("This ranking has not come to this query yet.",),
    )  # fmt: skip


# ---- Figures


@dataclass(frozen=True)
class Fact:
    """A figure with its name, and what it means or is made of."""

    label: str
    value: str
    note: str = ""


Span = tuple[datetime, datetime]


@dataclass(frozen=True)
class Glance:
    """What is told of a query where it is one of many."""

    number: int
    query: Query
    ranking: GroupRanking
    agents: AgentFigures
    models: tuple[frozenset[str], frozenset[str], frozenset[str]]
    """Models as requested, as the replies named them, and judges."""
    first: tuple[int, ...]
    """The rollouts that share first place."""
    beaten: tuple[int, int]
    """Ranked samples above the anchor, and ranked samples in all."""
    spans: tuple[Span, ...]
    """When a rollout or a verdict was under way."""


def _glance(reader: RunReader, number: int, query: Query, ranked: GroupRanking) -> Glance:
    group = reader.group(query)
    keys = dict.fromkeys(key for match in ranked.matches for key in match.verdicts)
    verdicts = [v for key in keys if (v := reader.verdict(key))]
    timed: list[Rollout | Judged] = [*group.rollouts, *verdicts]
    best = [row for row in rows(group, ranked) if row.ranked.rank is not None]
    return Glance(
        number=number,
        query=query,
        ranking=ranked,
        agents=agent_figures(group.rollouts),
        models=(
            frozenset(m for r in group.rollouts for m in (r.requested.model, *(c.model for c in r.calls)) if m),
            frozenset(m for r in group.rollouts for m in (c.replied_model for c in r.calls) if m),
            frozenset(v.judge for v in verdicts),
        ),
        first=tuple(row.rollout.index for row in best if row.ranked.rank == best[0].ranked.rank),
        beaten=samples_beat_anchor(group, ranked),
        spans=tuple((r.started_at, r.started_at + timedelta(seconds=r.duration_s)) for r in timed),
    )


def _failed_verdicts(reader: RunReader, shown: Iterable[Glance]) -> dict[str, Unjudged]:
    """Return the newest failure of each verdict that a shown group had to do without."""
    wanted = {key for glance in shown for key in glance.ranking.failed_verdicts}
    if not wanted:
        return {}
    return {v.key: v for v in reader.verdicts() if isinstance(v, Unjudged) and v.key in wanted}


def _run_facts(reader: RunReader, ranking: RankingFile, glances: Sequence[Glance]) -> list[Fact]:
    info, head = reader.info, ranking.head
    asked, replied, judges = (frozenset[str]().union(*(g.models[i] for g in glances)) for i in range(3))
    models = ", ".join(sorted(asked)) or "the agent's own"
    if replied and replied != asked:
        models += f" (replied as {', '.join(sorted(replied))})"
    design = [(g.ranking.topology, g.ranking.estimator) for g in glances]
    order = head.settings.get("order")
    return [
        Fact("Agent", info.agent, info.agent_file or ""),
        Fact("Model", models),
        Fact("Judge", ", ".join(sorted(judges)) or str(head.judge.get("identity") or head.judge.get("model"))),
        Fact("Rubric", head.rubric),
        *(Fact("Tournament", f"{t}, ranked by {e}", f"orders judged: {order}" if order else "")
          for t, e in dict.fromkeys(design)),
        Fact("Run", info.id, _date(info.created_at)),
        Fact("Ranking", head.id, _date(head.created_at)),
        Fact("Made with", ", ".join(f"{name} {version}" for name, version in info.versions.items())),
    ]  # fmt: skip


def _summary(reader: RunReader, glances: Sequence[Glance]) -> list[Fact]:
    """Return the figures of many groups together."""
    rankings = [glance.ranking for glance in glances]
    signals = Counter(ranked.signal for ranked in rankings)
    unclear = f"{signals['weak']} weak, {signals['none']} without"
    complete = sum(ranked.status == "complete" for ranked in rankings)
    beat, samples = (sum(g.beaten[i] for g in glances) for i in (0, 1))
    return [
        Fact("Queries", _count(len(glances)), f"{complete} ranked in full, {len(glances) - complete} incomplete"),
        Fact("With signal", _percent(signals["ok"], len(glances)), unclear),
        Fact("Samples above the anchor", _percent(beat, samples), f"{beat} of {samples} ranked samples"),
        *_agent_facts(sum((g.agents for g in glances), AgentFigures.none())),
        *_judge_facts(judge_figures(rankings, reader.verdict)),
        _wall_time(s for g in glances for s in g.spans),
    ]


def _agent_facts(agents: AgentFigures) -> list[Fact]:
    kinds = ", ".join(f"{n} {_words(kind)}" for kind, n in sorted(agents.failed.items()))
    failed = f"{agents.failed.total()} failed: {kinds}" if kinds else "none failed"
    return [
        Fact("Agent runs", _count(agents.runs), failed),
        Fact("Agent cost", _dollars(agents.usd), f"{_count(agents.tokens)} tokens" if agents.tokens else ""),
    ]


def _judge_facts(judge: JudgeFigures) -> list[Fact]:
    failed = f", {_count(judge.failed)} failed" if judge.failed else ""
    told = f"{_count(judge.bought)} bought, {_count(judge.reused)} reused{failed}"
    facts = [
        Fact("Verdicts", _count(judge.bought + judge.reused), told),
        Fact("Judging cost", _dollars(judge.usd), f"{_count(judge.calls)} calls for this ranking"),
    ]
    if judge.both_orders:
        flips = f"{_count(judge.flips)} of {_count(judge.both_orders)}"
        facts.append(Fact("Flips", flips, "matches where the order shown decided the winner"))
    if judge.decided:
        share = _percent(judge.first_wins, judge.decided)
        facts.append(Fact("First shown wins", share, f"of {_count(judge.decided)} decided verdicts; 50 % is unbiased"))
    return facts


_SIGNAL = {
    "ok": "the judging tells these rollouts apart",
    "weak": "the judging hardly tells these rollouts apart",
    "none": "the judging tells nothing apart",
}


def _group_facts(glance: Glance, verdicts: Verdicts) -> list[Fact]:
    return [
        Fact("Signal", glance.ranking.signal, _SIGNAL[glance.ranking.signal]),
        *_judge_facts(judge_figures([glance.ranking], verdicts)),
        *_agent_facts(glance.agents),
        _wall_time(glance.spans),
    ]


def _wall_time(spans: Iterable[Span]) -> Fact:
    """Return the time covered by at least one span: what was waited for, without the days before a rescoring."""
    covered, until = timedelta(), None
    for start, end in sorted(spans):
        if until is None or start >= until:
            covered, until = covered + (end - start), end
        elif end > until:
            covered, until = covered + (end - until), end
    return Fact("Wall time", _seconds(covered.total_seconds()), "while a run or a verdict was under way")


# ---- The ranking


@dataclass(frozen=True)
class Line:
    """One rollout in the ranking table."""

    row: Row
    place: str
    """From 1, `=` where several share it."""
    temperature: str
    effective: str | None
    """The temperature that really held, where it is not the one asked for."""
    bar: float
    """The advantage as a share of the greatest in the group, -1..1."""


def _lines(group: Group, ranked: GroupRanking) -> list[Line]:
    found = rows(group, ranked)
    widest = max((abs(row.ranked.advantage or 0.0) for row in found), default=0.0) or 1.0
    return [
        Line(
            row=row,
            place=place_of(row, found),
            temperature=f"{row.rollout.requested.temperature:g}",
            effective=_effective(row.rollout),
            bar=round((row.ranked.advantage or 0.0) / widest, 3),
        )
        for row in found
    ]


def _effective(rollout: Rollout) -> str | None:
    if rollout.effective.uniform or not rollout.calls:
        return None
    held = rollout.effective.temperature
    return "not the same in every call" if held in (None, rollout.requested.temperature) else f"{held:g}"


def _headline(group: Group, ranked: GroupRanking, verdicts: Verdicts) -> tuple[str, str]:
    """Return what came out, in a sentence, and a second one on why."""
    best = [row for row in rows(group, ranked) if row.ranked.rank is not None]
    if not best:
        return "No rollout has a place.", ""
    if len(best) == 1:
        return f"{_who(best[0].rollout, 'Rollout')} stands alone.", ""
    leaders = [row.rollout for row in best if row.ranked.rank == best[0].ranked.rank]
    if len(leaders) == len(best):
        return f"All {len(best)} rollouts share one rank.", "Nothing in the judging tells them apart."
    if len(leaders) > 1:
        return f"Rollouts {_and([str(r.index) for r in leaders])} share first place.", ""
    found = duel(group, ranked, verdicts)
    first, second = (_who(row.rollout) for row in best[:2])
    if found is None:
        failed = best[1].rollout.status == "failed"
        return f"#1 {first}.", "All others failed." if failed else f"#2 is {second}; the two never met."
    how = "beats" if found.score_first > found.score_second else "stands above"
    scores = f"{_trim(found.score_first)} v {_trim(found.score_second)}"
    return f"#1 {first} {how} #2 {second}: {scores}, {found.agreement}.", _reasons(found)


def _reasons(found: Duel) -> str:
    parts = [
        f"{how} on " + ", ".join(f"{_words(name)} {_signed(lead, 1)}" for name, lead in leads)
        for how, leads in (("won", found.won), ("lost", found.lost))
        if leads
    ]
    said = "; ".join(parts) or "level on every dimension"
    return f"{said[0].upper()}{said[1:]}."


def _who(rollout: Rollout, noun: str = "rollout") -> str:
    return f"{noun} {rollout.index} ({rollout.role})"


# ---- The bracket


@dataclass(frozen=True)
class Seed:
    """One entrant in the seeding: its score against the anchor, and the anchor's against it."""

    place: int | None
    index: int
    score: float | None
    against: float | None
    match: int | None
    """The number of the match; None for the anchor's own line, and for a match that is open."""


@dataclass(frozen=True)
class Slot:
    """One side of a match in the bracket; `index` is None while it is not known who comes here."""

    index: int | None
    seed: int | None = None
    score: float | None = None
    won: bool = False


@dataclass(frozen=True)
class Cell:
    """One place in the bracket: a match played, a match still open, or a bye."""

    kind: Literal["match", "open", "bye"]
    slots: tuple[Slot, ...]
    match: int | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Round:
    """A column of the bracket."""

    number: int
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Bracket:
    """The rounds after the seeding; `tree` where each round's winners meet in the next."""

    rounds: tuple[Round, ...]
    champion: int | None
    tree: bool


Places = Sequence[int | None]
Numbered = dict[tuple[int, frozenset[int]], tuple[int, Match]]
"""A bracket match and its number, by round and pair."""


def _seeding(group: Group, ranked: GroupRanking) -> list[Seed]:
    """Return the seeding matches as lines, best seed first; the matches still open last."""
    played = [(number, match) for number, match in enumerate(ranked.matches, 1) if match.round == 0]
    if not played:
        return []
    order = _seeds(ranked.matches)
    anchor = played[0][1].b
    entrants = [r.index for r in group.rollouts if r.status == "ok" and r.index != anchor]
    complete = set(entrants) <= set(order)
    mean = sum(match.score_b for _, match in played) / len(played)
    own = {match.a: (number, match) for number, match in played}
    lines = [
        Seed(place if complete else None, e, own[e][1].score_a, own[e][1].score_b, own[e][0])
        if e != anchor else Seed(place if complete else None, e, mean, None, None)
        for place, e in enumerate(order, 1)
    ]  # fmt: skip
    return lines + [Seed(None, e, None, None, None) for e in entrants if e not in order]


def _seeds(matches: Iterable[Match]) -> list[int]:
    """Return the entrants, best seed first, as `arena` draws them: score against the anchor, the anchor by its mean."""
    seeding = [match for match in matches if match.round == 0]
    if not seeding:
        return []
    scores = {match.a: exact(match.score_a) for match in seeding}
    scores[seeding[0].b] = sum((exact(match.score_b) for match in seeding), Fraction()) / len(seeding)
    return sorted(scores, key=lambda e: (-scores[e], e))


def _bracket(group: Group, ranked: GroupRanking) -> Bracket | None:
    """Return the matches after the seeding as a bracket, or, where they form none, round by round."""
    played: Numbered = {
        (match.round, frozenset((match.a, match.b))): (number, match)
        for number, match in enumerate(ranked.matches, 1) if match.round
    }  # fmt: skip
    entrants = {r.index for r in group.rollouts if r.status == "ok"}
    if ranked.topology in {"arena", "single"} and len(entrants) > 1:
        for places in (_fold(_seeds(ranked.matches)), _unfold(played)):
            everyone = {e for e in places if e is not None} == entrants
            if everyone and (found := _tree(places, played)):
                return found
    return _by_round(played) if played else None


def _fold(seeds: Sequence[int]) -> Places:
    """Put seeds on the places of the next power of two, as the tournament does; None is a bye."""
    size = 1 << max(0, len(seeds) - 1).bit_length()
    return [seeds[s] if s < len(seeds) else None for s in seeded_order(size)]


def _unfold(played: Numbered) -> Places:
    """Read the first round's places off a finished bracket, from the final down; empty without one final."""
    last = max((number for number, _ in played), default=0)
    finals = [match for (number, _), (_, match) in played.items() if number == last]
    if len(finals) != 1:
        return []
    at = {(match.round, e): match for _, match in played.values() for e in (match.a, match.b)}

    def under(entrant: int, level: int) -> list[int | None]:
        if level == 0:
            return [entrant]
        match = at.get((level, entrant))
        if match is None:  # a bye: its side of the bracket is empty
            return [*under(entrant, level - 1), *[None] * (1 << (level - 1))]
        return [*under(match.a, level - 1), *under(match.b, level - 1)]

    return under(finals[0].a, last)


def _tree(places: Places, played: Numbered) -> Bracket | None:
    """Play the bracket again on paper. Returns None where that does not account for every match."""
    order = seeded_order(len(places))
    seed = {e: order[i] + 1 for i, e in enumerate(places) if e is not None}
    rounds: list[Round] = []
    used = 0
    while len(places) > 1:
        level = len(rounds) + 1
        cells = [_cell(places[i], places[i + 1], level, seed, played) for i in range(0, len(places), 2)]
        used += sum(cell.kind == "match" for cell in cells)
        rounds.append(Round(level, _title(level, len(cells)), tuple(cells)))
        places = [next((s.index for s in cell.slots if s.won), None) for cell in cells]
    return Bracket(tuple(rounds), places[0], tree=True) if used == len(played) else None


def _cell(a: int | None, b: int | None, level: int, seed: dict[int, int], played: Numbered) -> Cell:
    if level == 1 and (a is None or b is None):
        through = a if b is None else b
        return Cell("bye", (Slot(through, seed.get(through or 0), won=True),))
    found = played.get((level, frozenset((a, b)))) if a is not None and b is not None else None
    if found is None:
        return Cell("open", tuple(Slot(e, None if e is None else seed[e]) for e in (a, b)))
    number, match = found
    best = match.winner if match.winner is not None else min(match.a, match.b, key=lambda e: seed[e])
    slots = tuple(Slot(e, seed[e], _score(match, e), e == best) for e in (a, b) if e is not None)
    return Cell("match", slots, number, _flags(match))


def _by_round(played: Numbered) -> Bracket:
    rounds = dict[int, list[Cell]]()
    for number, match in played.values():
        slots = tuple(Slot(e, None, _score(match, e), e == match.winner) for e in (match.a, match.b))
        rounds.setdefault(match.round, []).append(Cell("match", slots, number, _flags(match)))
    return Bracket(tuple(Round(n, f"Round {n}", tuple(rounds[n])) for n in sorted(rounds)), None, tree=False)


def _title(level: int, cells: int) -> str:
    return {1: "Final", 2: "Semi-finals", 4: "Quarter-finals"}.get(cells, f"Round {level}")


def _score(match: Match, entrant: int) -> float:
    return match.score_a if match.a == entrant else match.score_b


FLAGS = {
    "tie": "level scores; in the bracket the better seed goes on",
    "flipped": "the two orders name opposite winners",
    "inconsistent": "one order names a winner, the other a tie",
    "met before": "the pair had met; its scores were used again",
}
"""What the marks on a match mean."""


def _flags(match: Match) -> tuple[str, ...]:
    told = (match.winner is None, match.flipped, match.inconsistent, match.repeated)
    return tuple(name for name, holds in zip(FLAGS, told, strict=True) if holds)


# ---- Transcripts


@dataclass(frozen=True)
class Text:
    """A text of a transcript, perhaps cut."""

    label: str
    shown: str
    left_out: int = 0
    code: bool = False

    @property
    def folded(self) -> bool:
        """Whether it is long enough to be folded away."""
        return len(self.shown) > _LONG

    @property
    def length(self) -> int:
        """Its characters before it was cut."""
        return len(self.shown) + self.left_out


@dataclass(frozen=True)
class ShownStep:
    """A step with its texts."""

    step: Step
    agent: str | None
    """Only where more than one took part."""
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Shown:
    """A trajectory as the page shows it, the longest texts of its path cut to `limit` characters."""

    steps: tuple[ShownStep, ...]
    answer: Text
    limit: int | None


def _show(trajectory: Trajectory, room: int) -> Shown:
    named = len({step.agent for step in trajectory.path if step.agent}) > 1
    parts = [(step, _texts(step)) for step in trajectory.path]
    answer = Text("Answer", clean(trajectory.answer).strip(), code=trajectory.answer_type == "json")
    limit = _limit([len(text.shown) for _, texts in parts for text in texts], room)
    return Shown(
        steps=tuple(
            ShownStep(step, step.agent if named else None, tuple(_cut(text, limit) for text in texts))
            for step, texts in parts
        ),
        answer=_cut(answer, max(room, _ANSWER)),
        limit=limit,
    )


def _texts(step: Step) -> list[Text]:
    told = [("Reasoning", step.reasoning, False), ("Input", step.tool_input, True),
            ("Output", step.tool_output, False), ("Error", step.error, False)]  # fmt: skip
    return [Text(label, clean(text).strip(), code=code) for label, text, code in told if text is not None]


def _limit(lengths: Sequence[int], room: int) -> int | None:
    """Return the length to cut texts to so that all fit into `room`: short ones stay whole. None: no need to cut."""
    ordered = sorted(lengths)
    for i, length in enumerate(ordered):
        share = room // (len(ordered) - i)
        if length > share:
            return max(share, 120)
        room -= length
    return None


def _cut(text: Text, limit: int | None) -> Text:
    if limit is None or len(text.shown) <= limit + _SLACK:
        return text
    kept = text.shown[:limit].rstrip()
    return replace(text, shown=kept, left_out=len(text.shown) - len(kept))


# ---- Matches


@dataclass(frozen=True)
class Side:
    """One rollout of a match."""

    rollout: Rollout
    score: float
    won: bool
    shown: Shown


@dataclass(frozen=True)
class Marks:
    """A line of the score table: one pair an order, in the order of the match's sides, and the mean."""

    label: str
    pairs: tuple[tuple[float | None, float | None], ...]
    mean: tuple[float, float] | None
    overall: bool = False


@dataclass(frozen=True)
class Order:
    """One order of a match and what the judge said in it."""

    first: int
    second: int
    verdict: Judged | None
    remarks: tuple[tuple[str, tuple[str, str]], ...]
    """Title, and the remark on each side of the match."""
    other: tuple[tuple[str, str], ...]
    """Remarks under names that no prompt of ours asks for."""

    @property
    def winner(self) -> int | None:
        """The rollout that this order names; None for a tie, or without a verdict."""
        return {"A": self.first, "B": self.second}.get(self.verdict.winner) if self.verdict else None


@dataclass(frozen=True)
class Meeting:
    """A match with all that is known of it."""

    number: int
    title: str
    match: Match
    flags: tuple[str, ...]
    sides: tuple[Side, Side]
    marks: tuple[Marks, ...]
    orders: tuple[Order, ...]
    identical: bool


@dataclass(frozen=True)
class Missing:
    """A verdict that failed, the rollouts that it was to compare, and why."""

    key: str
    first: str
    second: str
    verdict: Unjudged | None


@dataclass(frozen=True)
class GroupPage:
    """All that is told of one query."""

    id: str
    glance: Glance
    headline: str
    because: str
    facts: list[Fact]
    lines: list[Line]
    failed: list[Rollout]
    seeding: list[Seed]
    scale: tuple[int, int]
    bracket: Bracket | None
    flags: dict[str, str]
    meetings: list[Meeting]
    missing: list[Missing]
    shown: list[tuple[Rollout, Shown]]
    anchors: frozenset[int]
    able: int
    """How many rollouts ended well."""
    brief: str | None
    """The instructions that the agent worked under."""


@dataclass(frozen=True)
class _Drawing:
    """Draws groups within the room that their number leaves."""

    reader: RunReader
    beside: int
    alone: int
    failed: dict[str, Unjudged]

    def group(self, glance: Glance) -> GroupPage:
        ranked = glance.ranking
        group, verdicts = self.reader.group(glance.query), cache(self.reader.verdict)
        headline, because = _headline(group, ranked, verdicts)
        bracket = _bracket(group, ranked)
        meetings = list(self._meetings(group, ranked, bracket, verdicts))
        flags = {flag for meeting in meetings for flag in meeting.flags}
        return GroupPage(
            id=f"q{glance.number}",
            glance=glance,
            headline=headline,
            because=because,
            facts=_group_facts(glance, verdicts),
            lines=_lines(group, ranked),
            failed=[r for r in group.rollouts if r.status == "failed"],
            seeding=_seeding(group, ranked),
            scale=_scale(ranked.matches),
            bracket=bracket,
            flags={name: meaning for name, meaning in FLAGS.items() if name in flags},
            meetings=meetings,
            missing=_missing(group, ranked, self.failed),
            shown=[(r, _show(r.trajectory, self.alone)) for r in group.rollouts],
            anchors=frozenset(r.index for r in group.rollouts if r.role == "anchor"),
            able=sum(r.status == "ok" for r in group.rollouts),
            brief=next((r.instructions for r in group.rollouts if r.instructions), None),
        )

    def _meetings(
        self, group: Group, ranked: GroupRanking, bracket: Bracket | None, verdicts: Verdicts
    ) -> Iterator[Meeting]:
        rollouts = {r.index: r for r in group.rollouts}
        shown = {r.index: _show(r.trajectory, self.beside) for r in group.rollouts}
        titles = {0: "Seeding"} | {r.number: r.title.removesuffix("s") for r in (bracket.rounds if bracket else ())}
        for number, match in enumerate(ranked.matches, 1):
            a, b = (Side(rollouts[e], _score(match, e), match.winner == e, shown[e]) for e in (match.a, match.b))
            judged = [(first, verdicts(key)) for key, first in zip(match.verdicts, match.shown_first, strict=True)]
            yield Meeting(
                number=number,
                title=titles[match.round],
                match=match,
                flags=_flags(match),
                sides=(a, b),
                marks=tuple(_marks(match, judged)),
                orders=tuple(_order(match, first, verdict) for first, verdict in judged),
                identical=any(v is not None and v.first == v.second for _, v in judged),
            )


def _marks(match: Match, judged: Iterable[tuple[int, Judged | None]]) -> Iterator[Marks]:
    """Yield a line a dimension, then the overalls, with the match's `a` always on the left."""
    sides = [(v.a, v.b) if first == match.a else (v.b, v.a) for first, v in judged if v]
    for name in dict.fromkeys(name for pair in sides for side in pair for name in side.dimensions):
        pairs = tuple((a.dimensions.get(name), b.dimensions.get(name)) for a, b in sides)
        yield Marks(_words(name), pairs, _mean(pairs))
    overalls: tuple[tuple[str, Callable[[SideScores], float | None]], ...] = (
        ("path", lambda s: s.path), ("answer", lambda s: s.answer), ("combined", lambda s: s.combined),
    )  # fmt: skip
    for label, of in overalls:
        pairs = tuple((of(a), of(b)) for a, b in sides)
        if any(mark is not None for pair in pairs for mark in pair):
            yield Marks(label, pairs, _mean(pairs), overall=True)


def _mean(pairs: Sequence[tuple[float | None, float | None]]) -> tuple[float, float] | None:
    whole = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(pairs) < 2 or len(whole) < len(pairs):
        return None
    return sum(a for a, _ in whole) / len(whole), sum(b for _, b in whole) / len(whole)


def _order(match: Match, first: int, verdict: Judged | None) -> Order:
    second = match.b if first == match.a else match.a
    left, right = ("A", "B") if first == match.a else ("B", "A")
    said = dict(verdict.analysis) if verdict else {}
    remarks: list[tuple[str, tuple[str, str]]] = []
    for title in ("path", "answer"):
        pair = (said.pop(f"{title}_{left}", ""), said.pop(f"{title}_{right}", ""))
        if any(pair):
            remarks.append((title, pair))
    return Order(first, second, verdict, tuple(remarks), tuple(said.items()))


def _missing(group: Group, ranked: GroupRanking, failed: dict[str, Unjudged]) -> list[Missing]:
    named: dict[str, list[str]] = {}
    for rollout in group.rollouts:
        named.setdefault(transcribe(rollout.trajectory).hash, []).append(str(rollout.index))

    def who(transcript: str | None) -> str:
        return f"rollout {' or '.join(named[transcript])}" if transcript in named else "a transcript no longer here"

    found = [(key, failed.get(key)) for key in ranked.failed_verdicts]
    return [Missing(key, who(v.first if v else None), who(v.second if v else None), v) for key, v in found]


def _scale(matches: Iterable[Match]) -> tuple[int, int]:
    """Return whole marks below and above every seeding score, for the ends of an axis."""
    scores = [s for match in matches if match.round == 0 for s in (match.score_a, match.score_b)]
    return (int(min(scores)), max(int(max(scores)) + 1, int(min(scores)) + 2)) if scores else (0, 10)


# ---- Words and numbers


def _words(name: str) -> str:
    return name.replace("_", " ")


def _and(items: Sequence[str]) -> str:
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def _count(number: int | None) -> str:
    return "not told" if number is None else f"{number:,}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "\N{EN DASH}"


def _trim(number: float) -> str:
    """One decimal, two where the second says something."""
    text = f"{number:.2f}"
    return text.removesuffix("0")


def _fixed(number: float | None, decimals: int = 2) -> str:
    return "" if number is None else f"{number:.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def _signed(number: float | None, decimals: int = 2) -> str:
    return "" if number is None else f"{number:+.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def _dollars(usd: float | None) -> str:
    return "unknown" if usd is None else money(usd)


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _date(at: datetime) -> str:
    return f"{at.day} {at:%B %Y, %H:%M} {at:%Z}".strip()


def _beginning(text: str, length: int = 150) -> str:
    line = " ".join(clean(text[: 4 * length]).split())
    if len(line) <= length:
        return line
    whole, _, _ = line[:length].rpartition(" ")
    return (whole or line[:length]) + "\N{HORIZONTAL ELLIPSIS}"


def _cleaned(value: Any) -> Any:
    """Clean whatever is printed. What is markup already was cleaned when it was made, and must not be escaped twice."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("harness.report", ""), autoescape=True, undefined=StrictUndefined, finalize=_cleaned,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(
        beginning=_beginning, count=_count, date=_date, dollars=_dollars, fixed=_fixed, seconds=_seconds,
        signed=_signed, words=_words,
    )  # fmt: skip
    return environment.get_template("page.html.j2")
