"""How many claims of answers stand in no tool output, and how many reasons of judges cite what is not there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.core.errors import counted
from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.report.summary.group import QualityFigure
from harness.report.summary.match_verdicts import VerdictLookup, bare_remarks, reasons, verdict_keys
from harness.report.text import percent


@dataclass(frozen=True)
class EvidenceFigures:
    """Of the answers of a ranking: how many claims could be looked up, and what became of them."""

    answers: int
    """Answers with claims that were looked up."""
    claims: int
    derivable: int
    unsupported: int
    unchecked: int
    """Answers whose tools' outputs are not in the record: their claims were not looked up."""


def evidence_figures(groups: Iterable[Group]) -> EvidenceFigures:
    """Return the figures of the rollouts that ended well."""
    answers = unchecked = 0
    states = list[str]()
    for group in groups:
        for claims in (_states(r, group.query.reference) for r in group.rollouts if r.status == "ok"):
            answers, unchecked = answers + bool(claims), unchecked + (claims is None)
            states += claims or ()
    return EvidenceFigures(answers, len(states), states.count("derivable"), states.count("unsupported"), unchecked)


def claim_counts(rollout: Rollout, reference: str | None) -> dict[str, int | None]:
    """Return how many claims of an answer could be looked up, and how many are unsupported; None: not checked."""
    states = _states(rollout, reference)
    unsupported = None if states is None else states.count("unsupported")
    return {"claims": None if states is None else len(states), "unsupported": unsupported}


def evidence_words(figures: EvidenceFigures) -> Iterator[QualityFigure]:
    """Yield the figures as people read them."""
    share = f" ({percent(figures.unsupported, figures.claims)})" if figures.claims else ""
    meaning = "claims of answers that stand in no tool output, the query or the reference, and derive from none"
    value = f"{figures.unsupported:,} of {figures.claims:,}{share}"
    yield QualityFigure("evidence", "Unsupported claims", value, meaning)
    if figures.unchecked:
        meaning = "answers whose claims were not looked up, as the record has no tool output, or not all"
        yield QualityFigure("unchecked", "Not checked", f"{figures.unchecked:,}", meaning)


@dataclass(frozen=True)
class CitationFigures:
    """Of the verdicts of a ranking that cite: their reasons, and those without a citation that stands where it says."""

    reasons: int
    bare: int


def citation_figures(rankings: Iterable[GroupRanking], verdicts: VerdictLookup) -> CitationFigures | None:
    """Return the figures; None where no verdict cites."""
    keys = dict.fromkeys(key for ranked in rankings for key in verdict_keys(ranked.matches))
    citing = [verdict for verdict in map(verdicts, keys) if verdict and verdict.citations]
    bare = sum(len(bare_remarks(verdict)) for verdict in citing)
    return CitationFigures(sum(len(reasons(verdict)) for verdict in citing), bare) if citing else None


def citation_words(figures: CitationFigures) -> QualityFigure:
    """Return the figure as people read it."""
    value = f"{percent(figures.bare, figures.reasons)} of {counted(figures.reasons, 'reason')}"
    return QualityFigure("citations", "Citations", value, "reasons of the judge that cite what is not there")


def _states(rollout: Rollout, reference: str | None) -> list[str] | None:
    from harness.evidence.check import check_trajectory  # noqa: PLC0415 - only where evidence is asked for

    claims = check_trajectory(rollout.trajectory, reference)
    return None if claims is None else [claim.state for claim in claims]
