"""The page of a pair, drawn from a group's records and the explanation of the pair."""

from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.rankings import GroupRanking
from harness.core.records import Rollout
from harness.report.html.diffs import Excerpt, ExcerptStep, ExcerptText, PageRoom, Pieces, excerpt, word_diff
from harness.report.html.facts import Fact, page_template, versions_fact
from harness.report.summary.match_details import detail_matches, draw_bracket
from harness.report.summary.pair_table import cycles_sentence
from harness.report.summary.rankings import judge_of
from harness.report.summary.why import ChosenPair
from harness.report.summary.why_records import PairExplanation, PairSide, aligned_steps
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
    ours, theirs = (  # each step with those inside of it: 2 with 2.1 and 2.2
        [tuple(steps) for _, steps in groupby(each.steps, key=lambda step: step.number.partition(".")[0])]
        for each in shown
    )
    places = aligned_steps(*(rollout.trajectory.path for rollout in rollouts))
    rows: list[StepRow] = []
    for same, run in groupby(places, key=lambda place: None not in place):
        several = list(run)
        left, right = ([ours[i] for i, _ in several if i is not None], [theirs[j] for _, j in several if j is not None])
        for a, b in zip_longest(left, right, fillvalue=()):
            there = {text for step in a for text in step.texts if text.folded}
            texts = [tuple(ExcerptText(t.label, _SAME) if t in there else t for t in step.texts) for step in b]
            once = tuple(replace(step, texts=own) for step, own in zip(b, texts, strict=True))
            rows.append(StepRow(a, once, same))
    return rows


_ROOM = PageRoom(together=120_000, least=1_000, most=60_000)
"""Characters of both paths; each answer has as many again."""


@dataclass(frozen=True)
class ShownSide:
    """One of the two as the page shows it."""

    side: PairSide
    answer: ExcerptText
    pieces: Pieces
    """The answer, in pieces: marked is what stands in it alone."""
    said: str | None
    """What the judge said of it, in a sentence, where no match below has all that was said."""
    files: ExcerptText | None
    """What became of the files in its workspace."""


def pair_page(reader: RunReader, ranking: RankingFile, pair: ChosenPair, why: PairExplanation) -> str:
    """Return the page: the same archive gives the same text, and no path of this machine. Raises ArchiveDamaged."""
    rollouts, head = {r.index: r for r in pair.group.rollouts}, ranking.head
    both = rollouts[pair.a], rollouts[pair.b]
    models = dict.fromkeys(model for rollout in both for model in rollout.effective.models)
    shown = excerpt(both[0].trajectory, _ROOM.each(2)), excerpt(both[1].trajectory, _ROOM.each(2))
    pieces = word_diff(shown[0].answer.shown, shown[1].answer.shown)
    greatest = max((abs(lead.difference) for lead in why.dimensions), default=0.0) or 1.0
    turned = tuple(  # so that A is on the left in each
        match.model_copy(update={"a": match.b, "b": match.a, "score_a": match.score_b, "score_b": match.score_a})
        if match.a == pair.b
        else match
        for match in pair.ranking.matches
    )
    ranking_from_a: GroupRanking = pair.ranking.model_copy(update={"matches": turned})
    details = detail_matches(pair.group, ranking_from_a, draw_bracket(pair.group, pair.ranking), reader.verdict)
    sides: list[ShownSide] = []
    for at, (side, said) in enumerate(zip((why.a, why.b), why.judge, strict=True)):
        answer, words = shown[at].answer, side.explanation
        if said and not (words or why.matches):
            words = f"{said.text} (match {said.match}, against rollout {said.opponent})"
        own = pieces[at] if pieces else ((answer.shown, False),)
        sides.append(ShownSide(side, answer, own, words, shown[at].files))
    return page_template("pair_page.html.j2").render(
        why=why,
        title=as_sentence(why.standing_sentence),
        sentences=[as_sentence(s) for s in (why.lead_sentence, why.matches_sentence) if s],
        sides=sides,
        compared=pieces is not None,
        answers_equal=pieces is not None and not any(own for side in pieces for _, own in side),
        matches=[d for d in details if {d.match.a, d.match.b} == {pair.a, pair.b}],
        bars=[(lead, round(lead.difference / greatest, 3)) for lead in why.dimensions],
        cycles=as_sentence(cycles_sentence(why.cycles)) if why.cycles else "",
        parting=" ".join(map(as_sentence, (why.parting_sentence, *why.credit_sentences))),
        rows=step_rows(both, shown),
        shortened=any(each.limit is not None for each in shown),
        offer=as_sentence(why.meeting_sentence) if why.meeting_sentence else "",
        about=[
            Fact("Run", reader.info.id, date(reader.info.created_at)),
            Fact("Ranking", head.id, date(head.created_at)),
            Fact("Models", ", ".join(models) or "not reported"),
            Fact("Judge", judge_of(head)),
            Fact("Rubric", head.rubric.partition(" ")[0]),
            Fact("Tournament", f"{why.topology}, ranked by {why.estimator}"),
            versions_fact(reader.info.versions),
        ],
    )
