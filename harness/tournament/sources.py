"""Where a tournament takes verdicts from: a jury that is asked, or what is kept of a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

from harness.core.group_cache import CachedGroup
from harness.core.rankings import PairJudgment, Unjudged
from harness.judging.prompt import Task
from harness.judging.verdict_cache import Averaging, PairJury, PairLedger
from harness.transcripts.transcript import Transcript


@final
class VerdictScore(NamedTuple):
    """What a tournament takes of a verdict."""

    key: str
    score_first: float
    """Not a number where it failed."""
    score_second: float
    identical: bool = False
    """The transcripts shown are identical. The verdict is then the same in both orders and counts in both, also where
    the design asks for one: the two tie."""
    cut: bool = False
    """An answer was cut to fit --judge-budget."""
    juror: int | None = None
    """The seat of the juror who gave it; None of a single judge."""
    failed: bool = False


@dataclass(frozen=True)
class JurySource:
    """The verdicts of a jury on two of `texts`; `ledger` notes which were bought and which were there."""

    jury: PairJury
    texts: Mapping[int, Transcript]
    task: Task
    ledger: PairLedger
    repeats: int

    @property
    def averaging(self) -> Averaging:
        """How the scores of several jurors become one."""
        return self.jury.averaging

    async def judge(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore]:
        """Return each juror's verdict."""
        task = replace(self.task, repeat=repeat)
        return score_verdicts(await self.jury.verdicts(self.ledger, task, self.texts[first], self.texts[second]))

    def cached(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore] | None:
        """Return each juror's verdict if that needs no waiting; None otherwise."""
        task = replace(self.task, repeat=repeat) if repeat else self.task
        verdicts = self.jury.cached(self.ledger, task, self.texts[first], self.texts[second])
        return score_verdicts(verdicts) if verdicts else None


class CacheSource:
    """The verdicts of a single judge that the cache of a group holds."""

    averaging: Averaging = "mean"

    def __init__(self, group: CachedGroup, repeats: int) -> None:
        """Take them from `group`, each order `repeats` times."""
        self.repeats = repeats
        self.used = set[str]()
        """Keys of the verdicts that were taken."""
        self._verdicts = group.verdicts
        self._shown = {rollout.number: (rollout.shown, rollout.cut) for rollout in group.rollouts}

    def cached(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore] | None:
        """Return the judge's verdict, or None."""
        verdicts = self._verdicts.get((first, second, repeat))
        if not verdicts:
            return None
        verdict = verdicts[0]
        self.used.add(verdict.key)
        (text, text_cut), (other, other_cut) = self._shown[first], self._shown[second]
        score = VerdictScore(
            verdict.key, verdict.score_first, verdict.score_second, text == other, text_cut or other_cut
        )
        return (score,)


VerdictSource = JurySource | CacheSource
"""Has verdicts on two rollouts in an order, each order `repeats` times."""


def score_verdicts(verdicts: Sequence[PairJudgment | Unjudged]) -> Sequence[VerdictScore]:
    """Return what a tournament takes of the verdicts of a jury, which stand in the order of its seats."""
    scores: list[VerdictScore] = []
    for seat, v in enumerate(verdicts):
        juror = seat if len(verdicts) > 1 else None
        if isinstance(v, Unjudged):
            scores.append(VerdictScore(v.key, float("nan"), float("nan"), juror=juror, failed=True))
        else:
            scores.append(VerdictScore(v.key, v.a.combined, v.b.combined, v.first == v.second, bool(v.cut), juror))
    return scores
