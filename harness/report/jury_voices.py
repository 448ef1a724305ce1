"""How much each juror of a jury says, by the fit behind a ranking's probabilities, in words and as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rounded import percent_half_up
from harness.report.summary.why.pooled_fit import is_by_pooled, learnt_judge


@dataclass(frozen=True)
class VoicesOfJurors:
    """What `pooled` makes of a jury."""

    shares: Mapping[str, float]
    """By juror: its share of what the jury's marks say together. They sum to 1."""
    shared: float
    """Share of the variance of the qualities as the jury sees them that all jurors see; the rest is their own taste."""


def voices_of_jurors(reader: RunReader, ranking: RankingFile) -> VoicesOfJurors | None:
    """Return how much each juror of a ranking says; None where a single judge judged, or jurors were not told apart."""
    told = [group for group in ranking.groups if is_by_pooled(group)]
    seats = {
        seat: key for group in told for m in group.matches for key, seat in zip(m.verdicts, m.jurors, strict=False)
    }
    jury = learnt_judge(ranking).jury if seats else None
    if not jury:
        return None
    parts = {seat: voice.part for seat, voice in jury.voices.items() if seat in seats}
    verdicts = {seat: reader.verdict(seats[seat]) for seat in parts}
    shares = {verdict.judge: parts[seat] / sum(parts.values()) for seat, verdict in verdicts.items() if verdict}
    return VoicesOfJurors(shares, jury.shared)


def voice_words(voices: VoicesOfJurors, juror: str) -> list[str]:
    """Return in a sentence how much a juror says; nothing of one who gave no verdict."""
    if juror not in voices.shares:
        return []
    return [f"`pooled` takes {_percent(voices.shares[juror])} of what the jury says from it"]


def jury_words(voices: VoicesOfJurors) -> str:
    """Return in a sentence how far the jurors see the same."""
    share = _percent(voices.shared)
    return (
        f"the jury: {share} of what it sees in the rollouts of a query all jurors see; the rest is a juror's own taste"
    )


def _percent(share: float) -> str:
    return f"{percent_half_up(share)} %"
