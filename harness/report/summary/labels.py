"""What says which of two rollouts is better but for a judge, labels and `reward()`, and how far a judge agrees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.rankings import GroupRanking, Match
from harness.core.records import Group
from harness.ranking.judge_stats.agreement import Preference, Share, kappa, krippendorff_alpha, preferences
from harness.ranking.judge_stats.side_by_side import Truth
from harness.ranking.topology import exact
from harness.report.summary.ranking import group_of
from harness.transcripts.transcript import plain_text

PairWinner = Literal["a", "b", "tie"]


@dataclass(frozen=True)
class AnswerLabel:
    """Which of two answers to a query is better, as a person says."""

    query: str
    a: str
    b: str
    label: PairWinner
    query_id: str | None = None
    rollouts: tuple[int, int] | None = None
    """Of a label that was given in the run itself: which rollouts `a` and `b` are."""
    is_control: bool = False
    """The pair was drawn at random, and not for being doubtful."""
    by: str | None = None
    """Who said so."""


def answer_key(answer: str) -> str:
    """Return what two answers have in common that a judge reads as the same text."""
    return plain_text(answer).strip()


def rollouts_by_answer(group: Group) -> dict[str, list[int]]:
    """Return the rollouts that ended well, by the key of their answer."""
    rollouts: dict[str, list[int]] = {}
    for rollout in group.rollouts:
        if rollout.status == "ok":
            rollouts.setdefault(answer_key(rollout.trajectory.answer), []).append(rollout.index)
    return rollouts


class Truths:
    """What labels and `reward()` prefer; `used` holds the places of the labels about groups seen."""

    def __init__(self, labels: Sequence[AnswerLabel]) -> None:
        """Keep the labels by query."""
        self._by_query: dict[str, list[tuple[int, AnswerLabel]]] = {}
        for at, label in enumerate(labels):
            self._by_query.setdefault(label.query.strip(), []).append((at, label))
        self.used: set[int] = set()

    def __call__(self, group: Group) -> dict[Truth, Sequence[Preference]]:
        """Return what labels and `reward()` prefer in a group."""
        verified = {r.index: r.verified for r in group.rollouts if r.verified is not None}
        labels = self._by_query.get(group.query.text.strip(), [])
        rollouts = rollouts_by_answer(group) if labels else {}
        preferred = list[Preference]()
        for at, label in labels:
            a, b = (rollouts.get(answer_key(answer), []) for answer in (label.a, label.b))
            if a and b:
                self.used.add(at)
                better, worse = (a, b) if label.label == "a" else (b, a)
                preferred += [(i, j) for i in better for j in worse if i != j and label.label != "tie"]
        return {"labels": preferred, "reward": preferences(verified)}


@dataclass(frozen=True)
class LabelAgreement:
    """Labels of pairs that the ranking decides, and what the ranking says of each: a, b or a tie."""

    labelled: Share
    """Pairs on which label and judge say the same."""
    kappa: float | None
    """Cohen's kappa of the two; None where chance alone would agree fully."""
    control: Share
    """Of `labelled`, those that were drawn at random."""
    alpha: float | None
    """Krippendorff's of the two; None as for kappa."""
    orders: Share
    """Pairs on which the judge's own two orders say the same, of all that were judged in both."""


def label_agreement(reader: RunReader, ranking: RankingFile, labels: Sequence[AnswerLabel]) -> LabelAgreement | None:
    """Return how far a ranking agrees with labels; None without one on a pair it decides. Raises ArchiveDamaged."""
    judged: list[tuple[AnswerLabel, PairWinner]] = []
    by_query: dict[str, list[AnswerLabel]] = {}
    for label in labels:
        by_query.setdefault(label.query.strip(), []).append(label)
    for query in reader.queries() if by_query else ():
        ranked, asked = ranking.of(query), by_query.get(query.text.strip(), ())
        if ranked and asked:
            answers = rollouts_by_answer(group_of(reader, query, ranked))
            judged.extend((label, said) for label in asked if (said := _judged(ranked, label, answers)))
    if not judged:
        return None
    pairs: list[tuple[PairWinner, PairWinner]] = [(label.label, said) for label, said in judged]
    control = [pair for pair, (label, _) in zip(pairs, judged, strict=True) if label.is_control]

    orders = [own for group in ranking.groups for match in group.matches if (own := _by_order(match))]
    return LabelAgreement(_alike(pairs), kappa(pairs), _alike(control), krippendorff_alpha(pairs), _alike(orders))


def _judged(ranked: GroupRanking, label: AnswerLabel, answers: Mapping[str, Sequence[int]]) -> PairWinner | None:
    """Return what the ranking says of a label's pair; None where it decides none of the rollouts with these texts."""
    if label.rollouts:
        pairs = [label.rollouts] if label.query_id == ranked.query else []
    else:
        a, b = (answers.get(answer_key(answer), []) for answer in (label.a, label.b))
        pairs = [(i, j) for i in a for j in b if i != j]
    leads = (_lead(ranked, i, j) for i, j in pairs)
    return next((_named(lead) for lead in leads if lead is not None), None)


def _lead(ranked: GroupRanking, i: int, j: int) -> float | None:
    """Return by how much the ranking's judge has i above j, in any unit; None where it did not compare the two."""
    if ranked.verdicts:
        ranks: Mapping[int, float | None] = {r.index: r.rank for r in ranked.rollouts}
        above, below = ranks.get(j), ranks.get(i)
        return None if above is None or below is None else above - below
    match = next((match for match in ranked.matches if {match.a, match.b} == {i, j}), None)
    if match is None:
        return None
    return 0 if match.winner is None else 1 if match.winner == i else -1


def _by_order(match: Match) -> tuple[PairWinner, PairWinner] | None:
    """Return what the judge says of a pair with `a` first, and with `b` first; None of a pair judged in one order."""
    scores: dict[int, list[Fraction]] = {match.a: [], match.b: []}
    for first, (of_first, of_second) in zip(match.shown_first, match.scores, strict=True):
        lead = exact(of_first) - exact(of_second)
        scores[first].append(lead if first == match.a else -lead)
    a_first, b_first = scores[match.a], scores[match.b]
    return (_named(sum(a_first)), _named(sum(b_first))) if a_first and b_first else None


def _named(lead: Fraction | float) -> PairWinner:
    return "tie" if lead == 0 else "a" if lead > 0 else "b"


def _alike(pairs: Sequence[tuple[PairWinner, PairWinner]]) -> Share:
    return Share(sum(ours == theirs for ours, theirs in pairs), len(pairs))
