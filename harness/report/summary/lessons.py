"""What pairs of rollouts teach, within a candidate and between two: the clearest first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.archive.comparison_reader import ComparisonReader
from harness.archive.reader import FolderReader, RunReader
from harness.core.improvements import PairLesson
from harness.core.rankings import Judged
from harness.core.records import Rollout
from harness.report.summary.match_verdicts import CITES_NOTHING, bare_remarks
from harness.report.summary.why import dimension_leads, first_sentence
from harness.report.summary.why_records import call_words, first_parting

_MOST = 4
"""Lessons that a round is taught by."""
_QUERY = 300
"""Characters of a query that a lesson keeps."""


@dataclass(frozen=True)
class TaughtPair:
    """Two rollouts that were judged, and by which verdicts; `shown_first` tells of each which one stood first."""

    candidates: tuple[int, int]
    rollouts: tuple[Rollout, Rollout]
    query: str
    verdicts: Sequence[tuple[bool, Judged]]
    """Whether the first one of the two stood first, and what was said."""

    @property
    def lead(self) -> float:
        """Score points by which the first one leads, the mean over the verdicts."""
        leads = [v.a.combined - v.b.combined if first else v.b.combined - v.a.combined for first, v in self.verdicts]
        return sum(leads) / len(leads)

    @property
    def swapped(self) -> "TaughtPair":
        """The pair with its second one first."""
        sides = {"candidates": self.candidates[::-1], "rollouts": self.rollouts[::-1]}
        return replace(self, **sides, verdicts=[(not first, verdict) for first, verdict in self.verdicts])

    def lesson(self) -> PairLesson:
        """Return what the pair teaches; the first one is the better."""
        sides = [(v.a, v.b) if first else (v.b, v.a) for first, v in self.verdicts]
        leads = dimension_leads(sides)
        parting = first_parting(*(rollout.trajectory.path for rollout in self.rollouts))
        return PairLesson(
            query=self.query[:_QUERY],
            better=self.candidates[0],
            worse=self.candidates[1],
            lead=round(self.lead, 6),
            decided_by=tuple(lead.name for lead in leads if lead.decided),
            marks={lead.name: round(lead.marks[1], 6) for lead in leads},
            better_did=parting and call_words(parting.a),
            worse_did=parting and call_words(parting.b),
            said_of_better=self._said(better=True),
            said_of_worse=self._said(better=False),
            verdicts=tuple(verdict.key for _, verdict in self.verdicts),
        )

    def _said(self, *, better: bool) -> str | None:
        """Return the judge's first sentence on a side, on the block in which the two are further apart."""
        for first, verdict in self.verdicts:
            gaps = {b: abs((getattr(verdict.a, b) or 0) - (getattr(verdict.b, b) or 0)) for b in ("answer", "path")}
            for block in sorted(gaps, key=lambda name: -gaps[name]):
                name = f"{block}_{'A' if first == better else 'B'}"
                if text := first_sentence(verdict.analysis.get(name, "")):
                    return f"{text} {CITES_NOTHING}" if name in bare_remarks(verdict) else text
        return None


def lessons_of(pairs: Iterable[TaughtPair]) -> tuple[PairLesson, ...]:
    """Return the lessons of the clearest pairs, one a query; of ties only where nothing else teaches."""
    chosen = dict[str, PairLesson]()
    ahead = [pair.swapped if pair.lead < 0 else pair for pair in pairs]
    for pair in sorted(ahead, key=lambda pair: (-abs(pair.lead), pair.candidates, pair.query)):
        if len(chosen) < _MOST and pair.query not in chosen:
            chosen[pair.query] = pair.lesson()
    apart = [lesson for lesson in chosen.values() if lesson.lead]
    return tuple(apart or chosen.values())


def pairs_within(run: Path, candidate: int) -> list[TaughtPair]:
    """Return the pairs of a candidate's own rollouts that its newest ranking judged."""
    with RunReader(run) as reader:
        newest, found = reader.newest_ranking(), list[TaughtPair]()
        for ranked in newest.groups if newest else ():
            query = reader.query(ranked.query)
            if query is None:
                continue
            rollouts = {rollout.index: rollout for rollout in reader.group(query).rollouts}
            for match in ranked.matches:
                said = _said(
                    reader, zip((first == match.a for first in match.shown_first), match.verdicts, strict=True)
                )
                if said and not match.repeated:
                    two = rollouts[match.a], rollouts[match.b]
                    found.append(TaughtPair((candidate, candidate), two, query.text, said))
        return found


def pairs_between(comparison: Path, runs: Mapping[int, Path], sides: tuple[int, int]) -> list[TaughtPair]:
    """Return the judged pairs of two candidates, `sides`, whose runs are in `runs`."""
    with ComparisonReader(comparison) as reader, RunReader(runs[sides[0]]) as a, RunReader(runs[sides[1]]) as b:
        newest, found = reader.newest(), list[TaughtPair]()
        for compared in newest.queries if newest else ():
            rollouts = [
                {rollout.index: rollout for rollout in run.group(query).rollouts}
                for run, name in zip((a, b), compared.ids, strict=True)
                if (query := run.query(name))
            ]
            for match in compared.matches:
                said = _said(reader, zip((side == "first" for side in match.shown_first), match.verdicts, strict=True))
                if said:
                    two = rollouts[0][match.first], rollouts[1][match.second]
                    found.append(TaughtPair(sides, two, compared.text, said))
        return found


def _said(reader: FolderReader, keys: Iterable[tuple[bool, str]]) -> list[tuple[bool, Judged]]:
    return [(first, verdict) for first, key in keys if (verdict := reader.verdict(key))]
