"""The page of a pair, drawn from a group's records and the explanation of the pair."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking, Match
from harness.core.records import Rollout
from harness.report.html.excerpts import Excerpt, ExcerptStep, ExcerptText, PageRoom, excerpt
from harness.report.html.facts import Fact
from harness.report.html.word_diff import Pieces, word_diff
from harness.report.summary.match_details import MatchDetails, detail_matches, draw_bracket
from harness.report.summary.pair_table import cycles_sentence
from harness.report.summary.paths import aligned_steps
from harness.report.summary.rankings import judge_of
from harness.report.summary.why import ChosenPair
from harness.report.summary.why_records import (
    DimensionLead,
    PairExplanation,
    PairSide,
    lead_sentence,
    matches_sentence,
    meeting_sentence,
    parting_sentence,
    side_name,
    standing_sentence,
)
from harness.report.text import as_sentence, date

_SAME = "the same as on the other side"


@dataclass(frozen=True)
class StepRow:
    """A row: a step of each path with the steps inside of it; empty where one path has no more steps there."""

    a: tuple[ExcerptStep, ...]
    b: tuple[ExcerptStep, ...]
    same: bool
    """Whether both took this step, by tool and input."""


def step_rows(rollouts: tuple[Rollout, Rollout], shown: tuple[Excerpt, Excerpt]) -> list[StepRow]:
    """Return the rows of two paths; a text that both sides have stands once."""
    ours, theirs = (_by_step(excerpt) for excerpt in shown)
    places = aligned_steps(*(rollout.trajectory.path for rollout in rollouts))
    rows: list[StepRow] = []
    for same, run in groupby(places, key=lambda place: None not in place):
        several = list(run)
        left, right = ([ours[i] for i, _ in several if i is not None], [theirs[j] for _, j in several if j is not None])
        rows += [StepRow(a, _without_doubles(a, b), same) for a, b in zip_longest(left, right, fillvalue=())]
    return rows


def _by_step(excerpt: Excerpt) -> list[tuple[ExcerptStep, ...]]:
    """Return the steps, each with those inside of it: 2 with 2.1 and 2.2."""
    groups = groupby(excerpt.steps, key=lambda step: step.number.partition(".")[0])
    return [tuple(steps) for _, steps in groups]


def _without_doubles(a: Sequence[ExcerptStep], b: Sequence[ExcerptStep]) -> tuple[ExcerptStep, ...]:
    there = {text for step in a for text in step.texts if text.folded}
    return tuple(
        replace(step, texts=tuple((ExcerptText(text.label, _SAME) if text in there else text) for text in step.texts))
        for step in b
    )


_ROOM = PageRoom(together=120_000, least=1_000, most=60_000)
"""Characters of both paths; each answer has as many again."""


@dataclass(frozen=True)
class ShownSide:
    """One of the two as the page shows it."""

    side: PairSide
    name: str
    answer: ExcerptText
    pieces: Pieces
    """The answer, in pieces: marked is what stands in it alone."""
    said: str | None
    """What the judge said of it, in a sentence, where no match below has all that was said."""


@dataclass(frozen=True)
class LeadBar:
    """A dimension's difference as a bar: `share` of the greatest one, below 0 towards A."""

    lead: DimensionLead
    share: float


def pair_page(reader: RunReader, ranking: RankingFile, pair: ChosenPair, why: PairExplanation) -> str:
    """Return the page of two rollouts: the same archive gives the same text. It names no path of this machine.

    Raises ArchiveDamaged.
    """
    from harness.report.html.templates import page_template  # noqa: PLC0415 - only drawing a page loads jinja2

    rollouts = {r.index: r for r in pair.group.rollouts}
    both = rollouts[pair.a], rollouts[pair.b]
    shown = excerpt(both[0].trajectory, _ROOM.each(2)), excerpt(both[1].trajectory, _ROOM.each(2))
    pieces = word_diff(shown[0].answer.shown, shown[1].answer.shown)
    greatest = max((abs(lead.difference) for lead in why.dimensions), default=0.0) or 1.0
    return page_template("pair_page.html.j2").render(
        why=why,
        title=as_sentence(standing_sentence(why)),
        sentences=[as_sentence(s) for s in (lead_sentence(why), matches_sentence(why)) if s],
        sides=[_side(at, why, shown[at].answer, pieces) for at in (0, 1)],
        compared=pieces is not None,
        answers_equal=pieces is not None and not any(own for side in pieces for _, own in side),
        matches=_matches(reader, pair),
        bars=[LeadBar(lead, round(lead.difference / greatest, 3)) for lead in why.dimensions],
        cycles=as_sentence(cycles_sentence(why.cycles)) if why.cycles else "",
        parting=as_sentence(parting_sentence(why)),
        rows=step_rows(both, shown),
        shortened=any(each.limit is not None for each in shown),
        offer=as_sentence(meeting_sentence(why)) if meeting_sentence(why) else "",
        about=_provenance(reader, ranking, pair.ranking, both),
    )


def _side(at: int, why: PairExplanation, answer: ExcerptText, pieces: tuple[Pieces, Pieces] | None) -> ShownSide:
    side, said = (why.a, why.b)[at], why.judge[at]
    words = f"{said.text} (match {said.match}, against rollout {said.opponent})" if said and not why.matches else None
    return ShownSide(
        side=side,
        name=side_name(side),
        answer=answer,
        pieces=pieces[at] if pieces else ((answer.shown, False),),
        said=side.explanation or words,
    )


def _matches(reader: RunReader, pair: ChosenPair) -> list[MatchDetails]:
    """Return the matches of the two, A on the left in each."""
    turned = tuple(_turned(match) if match.a == pair.b else match for match in pair.ranking.matches)
    ranking: GroupRanking = pair.ranking.model_copy(update={"matches": turned})
    details = detail_matches(pair.group, ranking, draw_bracket(pair.group, pair.ranking), reader.verdict)
    return [d for d in details if {d.match.a, d.match.b} == {pair.a, pair.b}]


def _turned(match: Match) -> Match:
    sides = {"a": match.b, "b": match.a, "score_a": match.score_b, "score_b": match.score_a}
    return match.model_copy(update=sides)


def _provenance(
    reader: RunReader, ranking: RankingFile, ranked: GroupRanking, both: tuple[Rollout, Rollout]
) -> list[Fact]:
    head = ranking.head
    models = dict.fromkeys(model for rollout in both for model in rollout.effective.models)
    return [
        Fact("Run", reader.info.id, date(reader.info.created_at)),
        Fact("Ranking", head.id, date(head.created_at)),
        Fact("Models", ", ".join(models) or "not reported"),
        Fact("Judge", judge_of(head)),
        Fact("Rubric", head.rubric.partition(" ")[0]),
        Fact("Tournament", f"{ranked.topology}, ranked by {ranked.estimator}"),
        Fact("Made with", ", ".join(f"{name} {version}" for name, version in reader.info.versions.items())),
    ]
